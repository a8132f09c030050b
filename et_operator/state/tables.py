"""One kind of object in memory: it never goes back to an older version, and never back to life.

Versions are resourceVersions read as integers, which Kubernetes guarantees to be comparable within
one resource (KEP-5504) and which every API server in use has always made so.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

T = TypeVar("T")

Place = tuple[str, str]
"""Namespace ("" for kinds without one) and name."""

REMEMBERED_DELETIONS = 20_000


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One object as last believed."""

    place: Place
    uid: str
    version: int
    value: T


class Table(Generic[T]):
    """Entries by place, and by one index.

    Args:
        index: what entries are found by besides their place, None for not at all.
    """

    def __init__(self, index: Callable[[T], Hashable | None]) -> None:
        self._index = index
        self._entries: dict[Place, Entry[T]] = {}
        self._groups: dict[Hashable, dict[Place, Entry[T]]] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries.values())

    def find(self, place: Place) -> T | None:
        """The object at this place."""
        entry = self._entries.get(place)
        return entry.value if entry else None

    def find_uid(self, place: Place) -> str | None:
        """The uid of the object at this place."""
        entry = self._entries.get(place)
        return entry.uid if entry else None

    def select(self, key: Hashable) -> list[T]:
        """The objects whose index is `key`, by name."""
        group = self._groups.get(key, {})
        return [group[place].value for place in sorted(group)]

    def put(self, entry: Entry[T]) -> tuple[T | None, bool]:
        """Take what was seen, unless something newer is known or this uid was seen deleted.

        Returns the object that was here before, and whether anything changed.
        """
        old = self._entries.get(entry.place)
        before = old.value if old else None
        if entry.uid in self._deleted or (old and entry.version <= old.version):
            return before, False
        self._drop(entry.place)
        self._entries[entry.place] = entry
        key = self._index(entry.value)
        if key is not None:
            self._groups.setdefault(key, {})[entry.place] = entry
        return before, old is None or old.value != entry.value

    def amend(self, place: Place, uid: str, change: Callable[[T], T]) -> bool:
        """Note what a write of ours is known to have done, until its event tells the same."""
        old = self._entries.get(place)
        if old is None or old.uid != uid:
            return False
        entry = replace(old, value=change(old.value))
        self._drop(place)
        self._entries[place] = entry
        key = self._index(entry.value)
        if key is not None:
            self._groups.setdefault(key, {})[place] = entry
        return True

    def remove(self, place: Place, uid: str) -> T | None:
        """Forget an object that was seen deleted; its uid never comes back.

        Returns it if it was here. Another object under the same name stays.
        """
        self._deleted[uid] = None
        while len(self._deleted) > REMEMBERED_DELETIONS:
            self._deleted.popitem(last=False)
        old = self._entries.get(place)
        if old is None or old.uid != uid:
            return None
        self._drop(place)
        return old.value

    def replace_all(
        self, namespace: str | None, entries: Iterable[Entry[T]], version: int
    ) -> list[T]:
        """Take a complete list of a namespace (None: of all), read at `version`.

        What is not in it is gone, unless it is known at a newer version than the list's.
        Returns every object that came, changed or went.
        """
        changed: list[T] = []
        present: set[Place] = set()
        for entry in entries:
            present.add(entry.place)
            before, is_new = self.put(entry)
            if is_new:
                changed.append(entry.value)
                if before is not None:
                    changed.append(before)
        for old in [e for e in self if namespace is None or e.place[0] == namespace]:
            if old.place not in present and old.version <= version:
                self.remove(old.place, old.uid)
                changed.append(old.value)
        return changed

    def _drop(self, place: Place) -> None:
        old = self._entries.pop(place, None)
        if old is None:
            return
        key = self._index(old.value)
        if key is None:
            return
        group = self._groups[key]
        group.pop(place, None)
        if not group:
            del self._groups[key]
