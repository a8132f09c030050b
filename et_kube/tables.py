"""One kind of object in memory: it never goes back to an older version, and never back to life.

Versions are resourceVersions read as integers, which Kubernetes guarantees to be comparable within
one resource (KEP-5504) and which every API server in use has always made so. They go back where
etcd was restored from a backup, and only there: then a table starts anew, by `clear`. Where the
restore has bumped the revision, lists have higher versions and their objects lower ones, which
`contradicts` sees.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

T = TypeVar("T")
D = TypeVar("D")

Place = tuple[str, str]
"""Namespace ("" for kinds without one) and name."""

REMEMBERED_DELETIONS = 20_000


def identify(obj: object) -> tuple[Place, str]:
    """Place and uid of an object of which nothing is sure; empty texts where it has none."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    known = metadata if isinstance(metadata, Mapping) else {}
    place = (str(known.get("namespace", "")), str(known.get("name", "")))
    return place, str(known.get("uid", ""))


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One object as last believed."""

    place: Place
    uid: str
    version: int
    value: T


@dataclass(frozen=True, slots=True)
class End:
    """That an object was deleted: at `version`, or found missing `at` that time."""

    version: int | None
    at: float

    def was_before(self, shown: int, listed: int, begun: float) -> bool:
        """Whether a list (its version, when it was begun) has it at `shown` though it was over."""
        if self.version is None:
            return self.at <= begun
        return shown <= self.version <= listed


class Table(Generic[T]):
    """Entries by place, and by their indexes.

    Args:
        index: what entries are found by besides their place, None for not at all.
        is_partial: whether something of an object was left out, which its very version may bring.
        others: further indexes, by their names.
    """

    def __init__(
        self,
        index: Callable[[T], Hashable | None],
        is_partial: Callable[[T], bool] = lambda _: False,
        **others: Callable[[T], Hashable | None],
    ) -> None:
        self._indexes = {"": index, **others}
        self._is_partial = is_partial
        self._entries: dict[Place, Entry[T]] = {}
        self._groups: dict[tuple[str, Hashable], dict[Place, Entry[T]]] = {}
        self._derived: dict[tuple[str, Hashable], dict[Callable[[list[T]], Any], Any]] = {}
        """What was made of the objects of a group, until one of them changes."""
        self._ends: OrderedDict[str, End] = OrderedDict()
        """Of the uids that were last known to be deleted."""
        self._amended: dict[Place, float] = {}
        """When (clock.monotonic) we knew more of these than their versions tell."""

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

    def find_entry(self, place: Place, uid: str) -> Entry[T] | None:
        """What is believed of the object with this uid at this place."""
        entry = self._entries.get(place)
        return entry if entry is not None and entry.uid == uid else None

    def find_newest(self, namespace: str | None) -> int:
        """The highest version of what is known in a namespace (None: in all); 0 where it is empty.

        A list that is begun now and is older comes from a server that was set back.
        """
        found = (e.version for e in self if namespace is None or e.place[0] == namespace)
        return max(found, default=0)

    def select(self, key: Hashable, index: str = "") -> list[T]:
        """The objects whose index (one of `others`, where it is named) is `key`, by name."""
        return [entry.value for entry in self.select_entries(key, index)]

    def select_entries(self, key: Hashable, index: str = "") -> list[Entry[T]]:
        """The objects with their places, uids and versions."""
        group = self._groups.get((index, key), {})
        return [group[place] for place in sorted(group)]

    def derive(self, key: Hashable, make: Callable[[list[T]], D], index: str = "") -> D:
        """What `make`, one and the same function, makes of what `select` finds.

        It is made once, and anew when one of them has come, changed or gone: who asks often about
        many that change seldom pays nothing for them. Of none nothing is kept.
        """
        group = (index, key)
        made = self._derived.setdefault(group, {}) if group in self._groups else {}
        if make not in made:
            made[make] = make(self.select(key, index))
        found: D = made[make]
        return found

    def put(self, entry: Entry[T]) -> tuple[T | None, bool]:
        """Take what was seen, unless something newer is known or this uid was seen deleted.

        One that is seen at a version after its end was only out of sight: it had lost the label by
        which it is watched, and has it again.

        Returns the object that was here before, and whether anything changed.
        """
        old = self._entries.get(entry.place)
        before = old.value if old else None
        if self._is_over(entry) or (old and not self._is_news(entry, old)):
            return before, False
        is_new = old is None or old.value != entry.value
        self._ends.pop(entry.uid, None)
        self._drop(entry.place, is_change=is_new)
        self._keep(entry, is_change=is_new)
        return before, is_new

    def amend(self, place: Place, uid: str, change: Callable[[T], T], at: float) -> bool:
        """Note what a write of ours has done, known since `at`, until its event tells the same."""
        old = self._entries.get(place)
        if old is None or old.uid != uid:
            return False
        self._drop(place)
        self._keep(replace(old, value=change(old.value)))
        self._amended[place] = at
        return True

    def reduce(self, key: Hashable, change: Callable[[T], T]) -> None:
        """Keep less of the objects whose index is `key`."""
        for old in list(self._groups.get(("", key), {}).values()):
            self._drop(old.place)
            self._keep(replace(old, value=change(old.value)))

    def remove(
        self, place: Place, uid: str, version: int | None = None, *, at: float = 0
    ) -> T | None:
        """Forget an object that was seen deleted; its uid never comes back.

        It was gone at `version`; None: nobody told, and it was found missing `at` that time
        (clock.monotonic). Returns it if it was here. Another object under the same name stays.
        """
        known = self._ends.get(uid)
        if version is not None or known is None or known.version is None:
            self._ends[uid] = End(version, at)
        while len(self._ends) > REMEMBERED_DELETIONS:
            self._ends.popitem(last=False)
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
                self.remove(old.place, old.uid, version)
                changed.append(old.value)
        return changed

    def contradicts(self, entries: Iterable[Entry[T]], version: int, begun: float) -> bool:
        """Whether a list that was begun then, and read at `version`, shows what was over by then.

        That is an object older than one that was seen at its place, one that is older than its own
        end (a newer one was only out of sight, see `put`), one that had been found missing before
        the list was begun, or one without what a write of ours had done to it. So lists look after
        etcd was restored, whatever has become of its revision.
        """
        for entry in entries:
            old = self._entries.get(entry.place)
            if old is not None and entry.version < old.version <= version:
                return True
            is_same = old is not None and entry.version == old.version
            if is_same and self._amended.get(entry.place, begun + 1) <= begun:
                return True
            end = self._ends.get(entry.uid)
            if end is not None and end.was_before(entry.version, version, begun):
                return True
        return False

    def clear(self, namespace: str | None) -> list[T]:
        """Forget a namespace (None: all); returns what was there.

        Deletions are forgotten too: a server that was set back has objects again that were gone,
        under their old uids.
        """
        self._ends.clear()
        old = [e for e in self if namespace is None or e.place[0] == namespace]
        for entry in old:
            self._drop(entry.place)
        return [entry.value for entry in old]

    def _is_news(self, entry: Entry[T], old: Entry[T]) -> bool:
        if entry.version == old.version and entry.uid == old.uid:
            return self._is_partial(old.value) and not self._is_partial(entry.value)
        return entry.version > old.version

    def _is_over(self, entry: Entry[T]) -> bool:
        """Whether it was seen deleted, and not at a version before this one."""
        end = self._ends.get(entry.uid)
        return end is not None and (end.version is None or entry.version <= end.version)

    def _keep(self, entry: Entry[T], *, is_change: bool = True) -> None:
        self._entries[entry.place] = entry
        for key in self._find_keys(entry):
            self._groups.setdefault(key, {})[entry.place] = entry
            if is_change:
                self._derived.pop(key, None)

    def _find_keys(self, entry: Entry[T]) -> Iterator[tuple[str, Hashable]]:
        found = ((name, index(entry.value)) for name, index in self._indexes.items())
        return ((name, key) for name, key in found if key is not None)

    def _drop(self, place: Place, *, is_change: bool = True) -> None:
        old = self._entries.pop(place, None)
        if old is None:
            return
        self._amended.pop(place, None)
        for key in self._find_keys(old):
            group = self._groups[key]
            group.pop(place, None)
            if not group:
                del self._groups[key]
            if is_change:
                self._derived.pop(key, None)
