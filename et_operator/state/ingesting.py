"""Watch events and answers to our own writes go into the store; out come the jobs to look at.

The only writer of the store's tables. One object that cannot be read spoils no other; versions only
go forward, but where the server itself was set back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

from et_kube.resources import PODS, SCALE_INS, SCALE_OUTS, TRAINING_JOBS, Json, Ref, Resource
from et_kube.tables import Entry, identify
from et_operator.model.jobs import TrainingJob
from et_operator.model.keys import JobKey
from et_operator.model.pods import Node, Pod
from et_operator.model.scalings import Scaling
from et_operator.state.store import (
    Piece,
    Store,
    build_owner_index,
    get_scaling_index,
    leave_out_documents,
)

_SHOW_DELETION = frozenset({PODS, TRAINING_JOBS, SCALE_INS, SCALE_OUTS})
"""Kinds of which it is kept that they are being deleted."""
OnUnreadable: TypeAlias = Callable[[Resource, Json, Exception], None]
"""Told of each object that could not be read, and why."""


class Ingest:
    """The only writer of a store's tables.

    An object that cannot be read changes nothing: what was known of it before is still believed,
    and all other objects of its list are taken. `on_set_back` is called when a list shows that etcd
    was restored from a backup.
    """

    def __init__(
        self,
        store: Store,
        on_unreadable: OnUnreadable | None = None,
        on_set_back: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._on_unreadable = on_unreadable
        self._on_set_back = on_set_back

    def sync(
        self,
        resource: Resource,
        namespace: str | None,
        items: Iterable[Json | Entry[Any] | None],
        *,
        version: str,
        at: float,
        is_set_back: bool = False,
    ) -> set[JobKey]:
        """Take a complete list, begun at `at` (clock.monotonic).

        `items`: objects, or what `read` made of each as it came.
        `is_set_back`: the server's versions are lower than before, so what was known is no measure;
        nor is it where the list contradicts it.

        Returns the jobs that may look different now: all, where this was the last missing list.
        """
        known = (self._reduce_or_read(resource, item) for item in items if item is not None)
        entries = [entry for entry in known if entry.value is not None]
        table = self._store.tables[resource]
        read_at = int(version or 0)
        gone: list[Any] = []
        if is_set_back or table.contradicts(entries, read_at, at):
            gone = table.clear(namespace)
            self._store.made_keys.clear()  # they may never have been made
            if self._on_set_back is not None:
                self._on_set_back()
        changed = [*gone, *table.replace_all(namespace, entries, read_at)]
        self._leave_out(changed)
        was_complete = self._store.coverage.is_complete(namespace)
        self._store.coverage.note_list(resource, namespace, at)
        if was_complete or not self._store.coverage.is_complete(namespace):
            return self._find_keys(changed)
        return self._find_keys(changed) | self._find_all_keys(namespace)

    def upsert(self, resource: Resource, item: Json | Entry[Any]) -> set[JobKey]:
        """Take an object as it is now; what is older than the known is ignored.

        `item`: the object, or what `read` made of it. One that was for us and no longer is goes, as
        it does with the next list.
        """
        entry = self._reduce_or_read(resource, item)
        if entry.value is None:
            return self._lose_sight(resource, entry)
        before, is_new = self._store.tables[resource].put(entry)
        if not is_new:
            return set()
        return self._find_keys([entry.value] if before is None else [before, entry.value])

    def delete(self, resource: Resource, obj: Json) -> set[JobKey]:
        """A watch has told that an object was deleted; the jobs that this concerns."""
        meta = obj["metadata"]
        ref = Ref(resource, meta.get("namespace", ""), meta["name"])
        return self._remove(ref, meta["uid"], int(meta["resourceVersion"]))

    def _lose_sight(self, resource: Resource, entry: Entry[None]) -> set[JobKey]:
        """Remove what is not for us as it is now; of who never was nothing is remembered."""
        known = self._store.tables[resource].find_entry(entry.place, entry.uid)
        if known is None or entry.version <= known.version:
            return set()
        return self._remove(Ref(resource, *entry.place), entry.uid, entry.version)

    def forget(self, ref: Ref, uid: str, at: float) -> set[JobKey]:
        """The object with this uid was found missing by then (clock.monotonic)."""
        return self._remove(ref, uid, None, at)

    def _remove(self, ref: Ref, uid: str, version: int | None, at: float = 0) -> set[JobKey]:
        self._store.made_keys.pop(uid, None)
        place = (ref.namespace, ref.name)
        old = self._store.tables[ref.resource].remove(place, uid, version, at=at)
        self._leave_out([old])
        return self._find_keys([old]) if old is not None else set()

    def note_deletion(self, ref: Ref, uid: str, at: datetime, monotonic: float) -> None:
        """A deletion of ours was accepted by then: believe it until its event comes.

        Both are the same moment; a list that was begun after it knows better. Where the event was
        faster there is nothing to believe: the next list shows the same, and undoes nothing.
        """
        if ref.resource not in _SHOW_DELETION:
            return
        table, place = self._store.tables[ref.resource], (ref.namespace, ref.name)
        entry = table.find_entry(place, uid)
        if entry is None or entry.value.deletion_requested:
            return
        asked = at if ref.resource in {PODS, TRAINING_JOBS} else True
        table.amend(place, uid, lambda obj: replace(obj, deletion_requested=asked), monotonic)

    def _find_all_keys(self, namespace: str | None) -> set[JobKey]:
        tables = (self._store.jobs, self._store.scale_ins, self._store.scale_outs)
        keys = self._find_keys(entry.value for table in tables for entry in table)
        return {key for key in keys if namespace in {None, key.namespace}}

    def read(self, resource: Resource, obj: Json) -> Entry[Any]:
        """One object as the store keeps it; its value is None if it is not for us.

        One that cannot be read is as it was before, if it was; else it is of no version.
        """
        try:
            return self._reduce(self._decode(resource, obj))
        except Exception as error:  # noqa: BLE001 (one object must not keep the others out)
            if self._on_unreadable is not None:
                self._on_unreadable(resource, obj, error)
            place, uid = identify(obj)
            known = self._store.tables[resource].find_entry(place, uid)
            return known or Entry(place, uid, 0, None)

    def read_listed(self, resource: Resource, obj: Json) -> Entry[Any] | None:
        """As `read`, but None where it is not for us: a list may have thousands of those."""
        entry = self.read(resource, obj)
        return entry if entry.value is not None else None

    def _reduce_or_read(self, resource: Resource, item: Json | Entry[Any]) -> Entry[Any]:
        """What was read a while ago may be of a job that is known no more."""
        return self._reduce(item) if isinstance(item, Entry) else self.read(resource, item)

    def _decode(self, resource: Resource, obj: Json) -> Entry[Any]:
        value, meta = self._store.decode(resource, obj), obj["metadata"]
        place = (meta.get("namespace", ""), meta["name"])
        return Entry(place, meta["uid"], int(meta["resourceVersion"]), value)

    def _reduce(self, entry: Entry[Any]) -> Entry[Any]:
        """Without the documents of a job that is not known."""
        piece = entry.value
        if not isinstance(piece, Piece) or self._store.is_known_document(piece):
            return entry
        return replace(entry, value=leave_out_documents(piece))

    def _leave_out(self, changed: Iterable[object]) -> None:
        """Keep less of a job that is known no more: its documents may stay for long."""
        owners = [(job.key.namespace, job.owner) for job in changed if isinstance(job, TrainingJob)]
        for owner in owners:
            if self._store.find_key(*owner) is None:
                self._store.told_ends.pop(owner[1].uid, None)
                self._store.config_maps.reduce(build_owner_index(*owner), leave_out_documents)

    def _find_keys(self, objects: Iterable[object]) -> set[JobKey]:
        found = {key for obj in objects for key in self._find_keys_of(obj)}
        return {key for key in found if key is not None}

    def _find_keys_of(self, obj: object) -> Iterable[JobKey | None]:
        match obj:
            case TrainingJob():
                return [obj.key]
            case Scaling():
                return [get_scaling_index(obj)]
            case Pod():
                waiting = self._store.answers.find_waiting(obj.namespace, obj.name)
                return [self._store.find_key(obj.namespace, obj.owner), *waiting]
            case Piece():
                waiting = self._store.answers.find_waiting(obj.namespace, obj.child.name)
                using = self._find_users(obj) if obj.is_runtime else ()
                return [self._store.find_key(obj.namespace, obj.child.owner), *waiting, *using]
            case Node():
                on_it = self._store.pods.select(obj.name, "node")
                return [self._store.find_key(pod.namespace, pod.owner) for pod in on_it]
            case _:
                raise TypeError(f"no table holds a {type(obj).__name__}")

    def _find_users(self, runtime: Piece) -> Iterable[JobKey]:
        """The jobs whose pods mount it: without it none of these comes to run."""
        place = (runtime.namespace, runtime.child.name)
        return (job.key for job in self._store.jobs.select(place, "runtime"))
