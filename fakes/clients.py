"""The seam of et_kube/api.py in front of a FakeCluster: faults, a log of calls, watches.

For whoever is handed an Api in a test. What a request does is the cluster's; here is what happens
around it: when a fault strikes, what was asked, and what a watch shows of a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any

from et_kube.api import MERGE_PATCH, Listing, WatchEvent
from et_kube.errors import Expired, KubeError
from et_kube.resources import Json, Ref, Resource
from fakes.cluster import FakeCluster
from fakes.documents import copy_json, copy_stored
from fakes.histories import Change
from fakes.selectors import Predicate, parse_field_selector, parse_label_selector

WRITES = frozenset({"create", "patch", "delete"})
Operations = list[Any]


class Moment(Enum):
    """When a fault may strike: a write has not happened yet, or has."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(slots=True)
class Call:
    """One request as the server's audit log has it. `outcome` is "done" or the error raised."""

    number: int
    user: str
    verb: str
    ref: Ref
    subresource: str = ""
    body: Any = None
    outcome: str = "pending"
    is_applied: bool = False

    @property
    def is_write(self) -> bool:
        """Whether it asked for a change."""
        return self.verb in WRITES

    def __str__(self) -> str:
        suffix = f"/{self.subresource}" if self.subresource else ""
        return f"{self.number}: {self.user} {self.verb} {self.ref}{suffix} -> {self.outcome}"


Fault = Callable[[Call, Moment], None]
"""Consulted before and after every call; it raises errors.* (or asyncio.CancelledError)."""


@dataclass
class CallLog:
    """What was asked of the cluster, in order, and the faults that strike it."""

    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def open(self, call: Call) -> Call:
        """Note a call and let faults strike before it."""
        call.number = len(self.calls)
        self.calls.append(call)
        self.strike(call, Moment.BEFORE)
        return call

    def close(self, call: Call) -> None:
        """The cluster has done it; let faults strike before the answer arrives."""
        call.outcome = "done"
        call.is_applied = True
        self.strike(call, Moment.AFTER)

    def strike(self, call: Call, moment: Moment) -> None:
        """Ask every fault; the first that raises decides."""
        for fault in self.faults:
            try:
                fault(call, moment)
            except BaseException as error:
                call.outcome = f"{type(error).__name__} {moment.value}"
                raise

    def list_writes(self, user: str | None = None) -> list[Call]:
        """Every write that reached the cluster's objects."""
        return [
            call
            for call in self.calls
            if call.is_write and call.is_applied and user in {None, call.user}
        ]


class FakeApi:
    """An `Api` of one user agent.

    Args:
        cluster: where the objects are.
        log: shared by all clients of the cluster.
        user: the name in the log.
    """

    def __init__(self, cluster: FakeCluster, log: CallLog, user: str = "et-operator") -> None:
        self._cluster = cluster
        self._log = log
        self._user = user

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
        """As Api.list: version "0" is answered from the watch cache, which may be old."""
        asked = {"fieldSelector": field_selector} if field_selector else None
        call = await self._open("list", Ref(resource, namespace or "", ""), body=asked)
        history = self._cluster.history
        items = self._cluster.list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            cached=resource_version == "0",
            keep=keep or (lambda item: item),
        )
        seen = history.find_visible(resource) if resource_version == "0" else history.revision
        self._log.close(call)
        return Listing(tuple(items), str(seen))

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout: timedelta,  # noqa: ASYNC109 (the seam's: the server ends the watch)
    ) -> AsyncIterator[WatchEvent]:
        """As Api.watch; seconds are those of the event loop. From nowhere: from what is there."""
        call = await self._open("watch", Ref(resource, namespace or "", ""))
        history = self._cluster.history
        cursor = self._find_start(resource_version)
        self._log.close(call)
        find = partial(self._cluster.list, resource, namespace, label_selector=label_selector)
        for item in () if resource_version else find(field_selector=field_selector):
            yield WatchEvent("ADDED", item)
        view = View(namespace, label_selector, field_selector)
        closings, bookmarks = history.closings, history.bookmarks
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout.total_seconds()
        while True:
            since = history.wakings
            if history.breakage is not None and closings != history.closings:
                raise history.breakage
            for change in history.list_pending(resource, cursor):
                cursor = change.revision
                event = view.see(change)
                if event is not None:
                    yield event
            is_over = closings != history.closings or loop.time() >= deadline
            if is_over or bookmarks != history.bookmarks:
                bookmarks = history.bookmarks
                cursor = max(cursor, history.find_visible(resource))
                yield _bookmark(resource, cursor)
            if is_over:
                return
            await history.sleep(deadline - loop.time(), since=since)

    def _find_start(self, resource_version: str) -> int:
        history = self._cluster.history
        cursor = int(resource_version or history.revision)
        if cursor < history.compacted:
            message = f"too old resource version: {cursor} ({history.compacted})"
            raise Expired(410, "Expired", message)
        return cursor

    async def get(self, ref: Ref) -> Json:
        """As Api.get; always the truth."""
        call = await self._open("get", ref)
        stored: Json = self._answer(call, lambda: self._cluster.get(ref))
        return stored

    async def get_managed(self, ref: Ref) -> Json:
        """As Api.get_managed."""
        call = await self._open("get", ref)
        stored: Json = self._answer(call, lambda: self._cluster.get_managed(ref))
        return stored

    async def create(self, resource: Resource, namespace: str | None, manifest: Json) -> Json:
        """As Api.create."""
        name = manifest["metadata"].get("name", "")
        ref = Ref(resource, namespace or "", name)
        call = await self._open("create", ref, body=manifest)
        stored: Json = self._answer(
            call,
            lambda: self._cluster.create(resource, namespace, manifest, manager=self._user),
        )
        return stored

    async def dry_run(self, resource: Resource, namespace: str | None, manifest: Json) -> Json:
        """As Api.dry_run."""
        ref = Ref(resource, namespace or "", manifest["metadata"].get("generateName", ""))
        call = await self._open("dry-run", ref, body=manifest)
        stored: Json = self._answer(
            call, lambda: self._cluster.dry_run(resource, namespace, manifest)
        )
        return stored

    async def patch(
        self,
        ref: Ref,
        body: Json | Operations,
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
    ) -> Json:
        """As Api.patch."""
        call = await self._open("patch", ref, subresource=subresource, body=body)
        stored: Json = self._answer(
            call,
            lambda: self._cluster.patch(
                ref,
                body,
                subresource=subresource,
                content_type=content_type,
                manager=self._user,
            ),
        )
        return stored

    async def delete(
        self,
        ref: Ref,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """As Api.delete."""
        body = {"uid": uid, "resourceVersion": resource_version, "grace": grace_seconds}
        call = await self._open("delete", ref, body=body)
        self._answer(
            call,
            lambda: self._cluster.delete(
                ref,
                uid=uid,
                resource_version=resource_version,
                grace_seconds=grace_seconds,
                propagation=propagation,
            ),
        )

    async def _open(self, verb: str, ref: Ref, *, subresource: str = "", body: Any = None) -> Call:
        await asyncio.sleep(0)  # as a real call, it lets others run first
        call = Call(0, self._user, verb, ref, subresource, copy_json(body))
        return self._log.open(call)

    def _answer(self, call: Call, request: Callable[[], Any]) -> Any:
        try:
            result = request()
        except KubeError as error:
            call.outcome = str(error)
            raise
        self._log.close(call)
        return result


class GuardedApi(FakeApi):
    """With a guard that is asked before each write, as et_kube/rest has it."""

    guard: Callable[[], None] | None = None

    def guarded(self, guard: Callable[[], None]) -> GuardedApi:
        """A view of this one whose every write must pass `guard`."""
        client = GuardedApi(self._cluster, self._log, self._user)
        client.guard = guard
        return client

    async def _open(self, verb: str, ref: Ref, *, subresource: str = "", body: Any = None) -> Call:
        if self.guard is not None and verb in WRITES:
            self.guard()
        return await super()._open(verb, ref, subresource=subresource, body=body)


class View:
    """What a selector makes of a change: objects enter and leave the view of a watch."""

    def __init__(self, namespace: str | None, labels: str, fields: str) -> None:
        self._namespace = namespace
        self._predicates: tuple[Predicate, ...] = (
            parse_label_selector(labels),
            parse_field_selector(fields),
        )

    def see(self, change: Change) -> WatchEvent | None:
        """The event that this watch shows, if any."""
        was, now = self._holds(change, change.old), self._holds(change, change.new)
        if not was and not now:
            return None
        kind = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
        return WatchEvent(kind, self._show(change, is_last=not now))

    def _holds(self, change: Change, document: Json | None) -> bool:
        if document is None or self._namespace not in {None, change.ref.namespace}:
            return False
        return all(matches(document) for matches in self._predicates)

    def _show(self, change: Change, *, is_last: bool) -> Json:
        if not is_last or change.new is None:
            return copy_stored(change.last)  # type: ignore[no-any-return]
        # It left the view without being deleted: its last state inside, at this version.
        last = copy_stored(change.old)
        last["metadata"]["resourceVersion"] = str(change.revision)
        return last  # type: ignore[no-any-return]


def _bookmark(resource: Resource, revision: int) -> WatchEvent:
    return WatchEvent(
        "BOOKMARK",
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"resourceVersion": str(revision)},
        },
    )
