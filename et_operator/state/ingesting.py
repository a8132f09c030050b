"""Watch events and answers to our own writes go into the store; out come the jobs to look at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from et_operator.model.jobs import JobKey, TrainingJob
from et_operator.model.pods import Node, Pod
from et_operator.model.resources import (
    PODS,
    SCALE_INS,
    SCALE_OUTS,
    TRAINING_JOBS,
    Json,
    Ref,
    Resource,
)
from et_operator.model.scalings import Scaling
from et_operator.state.store import DECODERS, Piece, Store, get_scaling_index
from et_operator.state.tables import Entry


class Ingest:
    """The only writer of a store's tables."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def sync(
        self,
        resource: Resource,
        namespace: str | None,
        items: Iterable[Json],
        *,
        version: str,
        at: datetime,
    ) -> set[JobKey]:
        """Take a complete list; returns the jobs that may look different now."""
        decoded = (decode_entry(resource, obj) for obj in items)
        entries = [entry for entry in decoded if entry is not None]
        changed = self._store.tables[resource].replace_all(namespace, entries, int(version or 0))
        self._store.note_synced(resource, namespace, at)
        return self._find_keys(changed)

    def upsert(self, resource: Resource, obj: Json) -> set[JobKey]:
        """Take an object as it is now; what is older than the known is ignored."""
        entry = decode_entry(resource, obj)
        if entry is None:
            return set()
        before, is_new = self._store.tables[resource].put(entry)
        if not is_new:
            return set()
        return self._find_keys([entry.value] if before is None else [before, entry.value])

    def delete(self, resource: Resource, obj: Json) -> set[JobKey]:
        """Take an object's end."""
        meta = obj["metadata"]
        return self.forget(Ref(resource, meta.get("namespace", ""), meta["name"]), meta["uid"])

    def forget(self, ref: Ref, uid: str) -> set[JobKey]:
        """The object with this uid is known to be gone."""
        old = self._store.tables[ref.resource].remove((ref.namespace, ref.name), uid)
        return self._find_keys([old]) if old is not None else set()

    def forget_name(self, ref: Ref) -> set[JobKey]:
        """Whatever was believed to have this name is known to be gone."""
        uid = self._store.tables[ref.resource].find_uid((ref.namespace, ref.name))
        return set() if uid is None else self.forget(ref, uid)

    def note_deletion(self, ref: Ref, uid: str, at: datetime) -> None:
        """A deletion of ours was accepted: believe it until its event comes."""
        table = self._store.tables[ref.resource]
        place = (ref.namespace, ref.name)
        if ref.resource == PODS:
            table.amend(place, uid, lambda pod: replace(pod, deletion_requested=at))
        elif ref.resource in {SCALE_INS, SCALE_OUTS, TRAINING_JOBS}:
            table.amend(place, uid, lambda obj: replace(obj, deletion_requested=True))

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
                return [self._store.find_key(obj.owner_uid)]
            case Piece():
                return [self._store.find_key(obj.child.owner_uid)]
            case Node():
                on_it = (e.value for e in self._store.pods if e.value.node == obj.name)
                return [self._store.find_key(pod.owner_uid) for pod in on_it]
            case _:
                raise TypeError(f"no table holds a {type(obj).__name__}")


def decode_entry(resource: Resource, obj: Json) -> Entry[Any] | None:
    """One object as the store keeps it; None if it is not for us."""
    value = DECODERS[resource](obj)
    if value is None:
        return None
    meta = obj["metadata"]
    place = (meta.get("namespace", ""), meta["name"])
    return Entry(place, meta["uid"], int(meta["resourceVersion"]), value)
