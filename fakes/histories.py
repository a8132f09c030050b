"""Every change the cluster ever made, and how much of it watchers have been shown so far.

The cluster appends, clients read. Tests hold kinds back, compact, break watches or set all of it
back: what was written stays the truth meanwhile, and only what is seen of it is late.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from et_kube.errors import KubeError
from et_kube.resources import Ref, Resource

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One write: what was there before (None: nothing) and what is there now (None: nothing)."""

    revision: int
    ref: Ref
    old: Document | None
    new: Document | None
    last: Document
    """The object as a watch shows it; for a deletion its last state with the final version."""


class History:
    """The log behind watches. A kind can be held back, so that a cache falls behind the truth."""

    def __init__(self, first_revision: int) -> None:
        self.revision = first_revision
        self.compacted = first_revision
        self.bookmarks = 0
        self.closings = 0
        self.breakage: KubeError | None = None
        self.wakings = 0
        self._changes: defaultdict[Resource, list[Change]] = defaultdict(list)
        self._horizons: dict[Resource, int] = {}
        self._lags: dict[Resource, int] = {}
        self._sleepers: set[asyncio.Event] = set()

    def append(self, change: Change) -> None:
        """Record a change of this very revision."""
        self.revision = change.revision
        self._changes[change.ref.resource].append(change)
        self.wake()

    def find_visible(self, resource: Resource) -> int:
        """The revision up to which watches and cached lists of this kind show the truth."""
        if resource in self._horizons:
            return self._horizons[resource]
        lag = self._lags.get(resource, 0)
        changes = self._changes[resource]
        if lag and changes:
            return changes[-lag].revision - 1 if lag <= len(changes) else self.compacted
        return self.revision

    def list_pending(self, resource: Resource, after: int) -> Iterator[Change]:
        """Changes of one kind after a revision that may be shown now, oldest first."""
        visible = self.find_visible(resource)
        changes = self._changes[resource]
        start = len(changes)
        while start and changes[start - 1].revision > after:
            start -= 1
        yield from (c for c in changes[start:] if c.revision <= visible)

    def list_hidden(self, resource: Resource) -> list[Change]:
        """Changes of one kind that have not been shown to anybody yet, newest first."""
        visible = self.find_visible(resource)
        return [c for c in reversed(self._changes[resource]) if c.revision > visible]

    def list_all(self, resource: Resource) -> list[Change]:
        """Every change of one kind, oldest first; compaction does not touch this record.

        Where etcd was restored, what came after its snapshot has never been.
        """
        return list(self._changes[resource])

    def hold(self, *resources: Resource) -> None:
        """From now on, watches of these kinds show nothing new."""
        for resource in resources:
            self._horizons[resource] = self.find_visible(resource)

    def release(self, resource: Resource, events: int | None = None) -> None:
        """Show the next `events` changes of a held kind, or all of them and hold it no longer."""
        if events is None:
            self._horizons.pop(resource, None)
            self._lags.pop(resource, None)
        elif resource in self._horizons:
            hidden = [c.revision for c in reversed(self.list_hidden(resource))]
            if hidden:
                self._horizons[resource] = hidden[min(events, len(hidden)) - 1]
        self.wake()

    def lag(self, resource: Resource, events: int) -> None:
        """Watches of this kind never show its newest `events` changes."""
        self._lags[resource] = events

    def compact(self) -> None:
        """Forget what led to the present: watches from an older version get 410."""
        self.compacted = self.revision

    def restore(self, revision: int, bump: int) -> None:
        """What came after this revision has never been; the next one is `bump` further.

        Watches end. One from before is too old, one from a version that is yet to come is mute.
        """
        for resource, changes in self._changes.items():
            self._changes[resource] = [c for c in changes if c.revision <= revision]
        self._horizons.clear()
        self._lags.clear()
        self.revision = revision + bump
        self.compact()
        self.break_watches()

    def bookmark(self) -> None:
        """Send a bookmark to every watch that is open."""
        self.bookmarks += 1
        self.wake()

    def break_watches(self, breakage: KubeError | None = None) -> None:
        """End every watch that is open: in order, or with an error."""
        self.breakage = breakage
        self.closings += 1
        self.wake()

    def wake(self) -> None:
        """Let every watch look again."""
        self.wakings += 1
        for sleeper in self._sleepers:
            sleeper.set()

    async def sleep(self, seconds: float, *, since: int) -> None:
        """Until something may be new since that waking, or the event loop's seconds have passed."""
        if self.wakings != since:
            return
        sleeper = asyncio.Event()
        self._sleepers.add(sleeper)
        try:
            async with asyncio.timeout(seconds):
                await sleeper.wait()
        except TimeoutError:
            return
        finally:
            self._sleepers.discard(sleeper)
