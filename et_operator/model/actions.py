"""The things a plan can ask for: plain data, run by kube/executing in the plan's order.

Every action is idempotent: running it again after a crash or an unknown outcome does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from et_operator.model.resources import SECRETS, Json, Ref, Resource


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object. A name that is held already is reported back as a conflict."""

    resource: Resource
    manifest: Json


@dataclass(frozen=True, slots=True)
class CreateKeys:
    """Create a Secret and make up the ssh keys in it; one that is there already stays as it is.

    Its name carries the job's uid: what is there is the job's own, and nobody needs to read it.
    """

    manifest: Json


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge-patch an object that still has this uid and, where given, this resourceVersion."""

    ref: Ref
    uid: str
    body: Json
    resource_version: str | None = None
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object that still has this uid and, where given, this resourceVersion.

    `grace_seconds` None leaves the object's own grace; the object being gone is success.
    """

    ref: Ref
    uid: str
    resource_version: str | None = None
    grace_seconds: int | None = None


Action: TypeAlias = Create | CreateKeys | Patch | Delete


def get_resource(action: Action) -> Resource:
    """The kind of object that an action is about."""
    match action:
        case Create(resource=resource):
            return resource
        case CreateKeys():
            return SECRETS
        case Patch(ref=ref) | Delete(ref=ref):
            return ref.resource
