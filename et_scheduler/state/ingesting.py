"""What watches tell, and answers to our own writes, goes into the store.

The only writer of the store's tables. What has changed is noted for surveying.py, and whether a
pass may decide otherwise now is answered; one object that cannot be read spoils no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from et_kube.resources import Json, Resource
from et_kube.tables import Entry, identify
from et_kube.watching import Cut, Deleted, Resumed, Sighting, Synced, Upserted
from et_scheduler.state.store import Store

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

    def take(self, sighting: Sighting) -> bool:
        """Believe it; returns whether a pass may decide otherwise now."""
        match sighting:
            case Synced():
                self._sync(sighting)
                return True
            case Upserted():
                return self.put(sighting.resource, sighting.object)
            case Deleted():
                return self._delete(sighting.resource, sighting.object)
            case Cut():
                self._store.expect_list(sighting.resource)
                return False
            case Resumed():
                self._store.note_current(sighting.resource)
                return True

    def put(self, resource: Resource, obj: Json) -> bool:
        """An object as it is now, or was when a write of ours was answered."""
        entry = self.read(resource, obj)
        if entry is None:
            return False
        before, is_new = self._store.tables[resource].put(entry)
        if is_new:
            self._store.note_changed((before, entry.value))
        return is_new

    def read(self, resource: Resource, obj: Json) -> Entry[Any] | None:
        """One object as the store keeps it; what was known of it where it cannot be read."""
        try:
            metadata = obj["metadata"]
            place = (str(metadata.get("namespace", "")), str(metadata["name"]))
            version, value = int(metadata["resourceVersion"]), self._store.decode(resource, obj)
            return Entry(place, str(metadata["uid"]), version, value)
        except Exception as error:  # noqa: BLE001 (one object must not keep the others out)
            if self._on_unreadable is not None:
                self._on_unreadable(resource, obj, error)
            return self._store.tables[resource].find_entry(*identify(obj))

    def forget(self, resource: Resource, place: tuple[str, str], uid: str, at: float) -> None:
        """An object was found missing by then (clock.monotonic)."""
        old = self._store.tables[resource].remove(place, uid, at=at)
        self._store.note_changed((old,))

    def _sync(self, synced: Synced) -> None:
        resource = synced.resource
        table = self._store.tables[resource]
        entries = [entry for entry in synced.items if isinstance(entry, Entry)]
        version = int(synced.version or 0)
        if synced.is_set_back or table.contradicts(entries, version, synced.begun):
            self._store.note_changed(table.clear(None))
            if self._on_set_back is not None:
                self._on_set_back()
        self._store.note_changed(table.replace_all(None, entries, version))
        self._store.note_current(resource)

    def _delete(self, resource: Resource, obj: Json) -> bool:
        metadata = obj["metadata"]
        place = (metadata.get("namespace", ""), metadata["name"])
        table = self._store.tables[resource]
        old = table.remove(place, metadata["uid"], int(metadata["resourceVersion"]))
        self._store.note_changed((old,))
        return old is not None
