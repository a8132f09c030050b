"""The one seam to Kubernetes: JSON in, JSON out. et_kube/rest implements it, fakes/clients too.

Who reads or writes objects is handed an Api and knows no more of a server. Nothing is done here:
what a method promises holds for whoever implements it, and tests/contract holds both to it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from et_kube.resources import Json, Ref, Resource

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Listing:
    """A consistent list; `resource_version` is where a watch goes on from.

    `items` are objects, or what was kept of them.
    """

    items: tuple[Any, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK; ERROR is raised, never yielded."""

    type: str
    object: Json


class Patching(Protocol):
    """What is handed to who patches objects and does nothing else."""

    async def patch(
        self,
        ref: Ref,
        body: Json | Sequence[Any],
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> Json:
        """The object as stored; NotFound, Conflict, Refused.

        Put metadata.resourceVersion and metadata.uid into a merge patch to pin it. An apply takes
        over what others have written, and creates what is not there and not pinned.
        """
        ...


class Api(Patching, Protocol):
    """What we ask of an API server. Every method raises errors.* and nothing else.

    `namespace` None means all namespaces (list, watch) or a kind without namespaces.
    """

    async def list(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
        keep: Callable[[Json], Any] | None = None,
    ) -> Listing:
        """All objects, however many pages it takes. No resource_version: a consistent read.

        With `keep`, what that makes of each object as its page comes is listed in its place: all
        objects of a kind as they are would be hundreds of megabytes. It may be called again with
        the same ones, where the list had to begin anew.
        """
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout: timedelta,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Changes after `resource_version`, with bookmarks, until `timeout` or the server ends it.

        With "" what is there comes first, as ADDED, and no version is too old.

        Raises Expired when it must be listed again; Unreachable or OutcomeUnknown when the stream
        broke or was silent for longer than the inactivity limit. Close it (contextlib.aclosing) to
        stop early.
        """
        ...

    async def get(self, ref: Ref) -> Json:
        """One object; NotFound."""
        ...

    async def get_managed(self, ref: Ref) -> Json:
        """One object with its metadata.managedFields, which no other answer has; NotFound."""
        ...

    async def create(self, resource: Resource, namespace: str | None, manifest: Json) -> Json:
        """The object as stored; AlreadyExists, Refused."""
        ...

    async def dry_run(self, resource: Resource, namespace: str | None, manifest: Json) -> Json:
        """What `create` would store, admitted by all who have a say in it; nothing is stored."""
        ...

    async def delete(
        self,
        ref: Ref,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete this very object; NotFound when it is gone, Conflict when it is another one."""
        ...
