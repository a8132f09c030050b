"""Gives room out one step of one job after the other: who would have least has the next.

growing.py runs it, on the room of the pass or on a copy in which the level is tried. Only room is
taken here; books and admissions are changed by growing.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, find_seats
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts, Room
from et_scheduler.planning.sizes import find_next
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.waiting import Owed

_Entry = tuple[int, int, str]
_Kind = tuple[Shape, bool, int]
"""A worker, whether it may be on what others hold, and whose promises do not keep it off."""


@dataclass(slots=True)
class Fill:
    """Fills a room with workers above the least sizes, one step of one job after the other.

    `sizes` are where the jobs begin and, afterwards, what they have; `places` where the new
    workers are. `more` is what each queue has got of it. `owed`: what is kept of limits, if
    that is known. What is only tried is not `is_real`: it may use nodes where pods are to come.
    """

    draft: Draft
    room: Room
    sizes: dict[str, int]
    is_real: bool = True
    places: dict[str, list[int]] = field(default_factory=dict)
    more: dict[str, Counts] = field(default_factory=dict)
    owed: Owed | None = None
    _heaps: dict[str, list[_Entry]] = field(default_factory=dict)
    _most: Mapping[str, int] = field(default_factory=dict)
    _ratios: dict[str, int] = field(default_factory=dict)
    _failed: dict[_Kind, int] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _coming: dict[str, Counter[int]] = field(default_factory=dict)
    _leapt: set[str] = field(default_factory=set)
    """Who has grown by a step of several."""
    _owed: Owed = field(init=False)
    _outside: Mask | None = field(init=False)
    _owners: Counts = field(init=False)

    def __post_init__(self) -> None:
        """Nobody has grown anywhere."""
        self._owed = Owed(self.draft) if self.owed is None else self.owed
        self._outside = mask_held(self.draft)
        self._owners = np.zeros(len(self.room.nodes), dtype=np.int64)

    def run(self, standings: Iterable[Standing], most: Mapping[str, int] | None = None) -> None:
        """Until nobody's next step fits. Queues that have least of what they are due go first.

        Nobody gets more than `most` says of him.
        """
        self._most = most or {}
        for standing in standings:
            queue = self.draft.get_queue(standing)
            if queue in self.draft.queues:
                self._push(queue, standing)
        ranked = [self._rank_queue(queue) for queue in self._heaps]
        heapify(ranked)
        while ranked:  # what one queue takes changes the rank of no other
            *_, queue = heappop(ranked)
            heap = self._heaps[queue]
            *_, uid = heappop(heap)
            standing = self.draft.standings[uid]
            if self._grow(queue, standing):
                self._push(queue, standing)
            if heap:
                heappush(ranked, self._rank_queue(queue))
            else:
                del self._heaps[queue]

    def mend(self, standing: Standing) -> None:
        """Again what it had before this pass, as far as there is room."""
        uid, queue = standing.job.uid, self.draft.get_queue(standing)
        while self.sizes[uid] < find_next(standing.job, self.sizes[uid]) <= standing.was_size:
            if queue not in self.draft.queues or not self._grow(queue, standing, is_again=True):
                return

    def note_booked(self) -> None:
        """What was found so far stands in the books of the draft now."""
        self.more.clear()

    def reach(self, standing: Standing, size: int) -> bool:
        """Whether the job has so many now, or more; if not all fit, it keeps what it had."""
        uid = standing.job.uid
        lacking = size - self.sizes[uid]
        if self.room.count_all(standing.job.worker) >= lacking:
            self.approach(standing, size)
        if self.sizes[uid] < size:
            self.give_back(standing)
        return self.sizes[uid] >= size

    def approach(self, standing: Standing, size: int) -> int:
        """What it has once it has so many, or as many as fit."""
        uid, queue = standing.job.uid, self.draft.get_queue(standing)
        while self.sizes[uid] < size and self._grow(queue, standing):
            pass
        return self.sizes[uid]

    def give_back(self, standing: Standing) -> None:
        """The job keeps what it had before."""
        uid, queue = standing.job.uid, self.draft.get_queue(standing)
        places = self.places.pop(uid, [])
        self._coming.pop(uid, None)
        self._leapt.discard(uid)
        for place in places:
            self.room.give_back((place,), (1,), standing.job.worker)
        self.sizes[uid] = standing.size
        if places and queue in self.more:
            less = self.draft.counting.get_amounts(standing, len(places), launcher=False)
            self.more[queue] = self.more[queue] - less
            self._ratios.pop(queue, None)
        self._failed.clear()

    def _push(self, queue: str, standing: Standing) -> None:
        size = self.sizes[standing.job.uid]
        following = find_next(standing.job, size)
        if size < following <= self._most.get(standing.job.uid, following):
            entry = (standing.dominate(following), standing.job.created, standing.job.uid)
            heappush(self._heaps.setdefault(queue, []), entry)

    def _rank_queue(self, queue: str) -> tuple[int, int, int, str]:
        if len(self._heaps) == 1:
            return (0, 0, 0, queue)
        if queue not in self._ratios:
            self._ratios[queue] = self.draft.ledger.get_ratio(queue, self.more.get(queue))
        ratio = self._ratios[queue]
        return (ratio, -self.draft.queues[queue].priority, self._heaps[queue][0][0], queue)

    def _grow(self, queue: str, standing: Standing, *, is_again: bool = False) -> bool:
        uid, worker = standing.job.uid, standing.job.worker
        size = self.sizes[uid]
        step = find_next(standing.job, size) - size
        more = self.draft.counting.get_amounts(standing, step, launcher=False)
        if queue in self.more:
            more = more + self.more[queue]
        if self.draft.ledger.exceeds_limit(queue, more, owed=self._owed.find(queue)):
            return False
        places = self._find(standing, step, is_again=is_again)
        if places is None:
            return False
        for place in places:
            self.room.take((place,), (1,), worker)
        self.places.setdefault(uid, []).extend(places)
        self._count_coming(standing).update(places)
        self._owners[places] = self._number(standing)
        if step > 1:
            self._leapt.add(uid)
        self.sizes[uid] = size + step
        self.more[queue] = more
        self._ratios.pop(queue, None)
        return True

    def _find(self, standing: Standing, step: int, *, is_again: bool) -> list[int] | None:
        """Places for the step, tightest first; where it keeps its least size off what is held.

        Off nodes where pods of others are to come as well, unless it had them a moment ago. What
        was searched in vain is not searched again: while a room is filled it only gets less. Of
        those who have found some it is known alone whether these might take what is kept.
        """
        allowed = None if standing.outside >= standing.floor else self._outside
        number = self.draft.promises.get_number(standing.job.uid)
        kind = (standing.job.worker, allowed is None, number)
        if step >= self._failed.get(kind, step + 1) and not is_again:
            return None
        is_single = step == 1 and standing.job.uid not in self._leapt
        if is_single and self.is_real and not is_again and self._has_more(standing):
            return self.places[standing.job.uid][-1:]
        places = self._search_calm(standing, step, allowed, is_again=is_again)
        places = places or self._search(standing, step, allowed, is_again=is_again)
        if places is None:
            self._failed[kind] = step
        if places is None or is_again or is_single or not self._may_stray(standing, places):
            return places
        safe = self._mask_safe(standing, step)
        safe = safe if allowed is None else safe & allowed
        places = self._search(standing, step, safe, is_again=is_again)
        return None if places is None or self._may_stray(standing, places) else places

    def _search_calm(
        self, standing: Standing, step: int, allowed: Mask | None, *, is_again: bool
    ) -> list[int] | None:
        """Places for a step of several on nodes where nothing is kept.

        The room beside what is kept is a step's at most: any other of the job might stray there.
        """
        if not self.is_real or step == 1 or is_again:
            return None
        kept = self.room.find_kept(standing.job.worker)
        if not kept.any():
            return None
        calm: Mask = ~kept if allowed is None else ~kept & allowed
        return self._search(standing, step, calm, is_again=is_again)

    def _may_stray(self, standing: Standing, places: list[int]) -> bool:
        """Whether pods of a step of several could take room on these nodes that is kept for others.

        kube-scheduler knows nothing of that room, and puts pods that are to be on several nodes as
        it likes: all of the step would be taken back, and come again, with a single worker that was
        to come after it. Of one that grows by single workers alone one goes, and the next has a
        place of its own.
        """
        if not self.is_real:
            return False
        before = self._count_coming(standing)
        there = before.keys() | places
        if len(there) == 1:
            return False
        pods = before.total() + len(places)
        rows, fits = np.array([*there], dtype=np.intp), self._count_fits(standing)
        kept = rows[self.room.find_kept(standing.job.worker, rows)].tolist()
        return any(pods - before[place] > fits[place] for place in kept)

    def _mask_safe(self, standing: Standing, step: int) -> Mask:
        """Where nothing is kept that they could take, or all of them would have room beside it."""
        pods = self._count_coming(standing).total() + step
        kept = self.room.find_kept(standing.job.worker)
        safe: Mask = ~kept | (self._count_fits(standing) >= pods)
        return safe

    def _count_fits(self, standing: Standing) -> Counts:
        return self.room.count_fits(standing.job.worker)

    def _count_coming(self, standing: Standing) -> Counter[int]:
        """Workers of the job that are to come, by the nodes where they are wanted."""
        uid, seats = standing.job.uid, standing.gang_seats
        if uid not in self._coming:
            pairs = zip(seats.places, seats.pods, strict=True) if seats is not None else ()
            self._coming[uid] = Counter(dict(pairs))
        return self._coming[uid]

    def _has_more(self, standing: Standing) -> bool:
        """Whether one more fits where its last one went: no other node can be tighter.

        That was the tightest of those where nobody else grows; it has become tighter, and none of
        the others has. Thousands of steps are answered by one node.
        """
        places = self.places.get(standing.job.uid)
        if not places or self._owners[places[-1]] != self._number(standing):
            return False
        return self.room.has_more(places[-1], standing.job.worker)

    def _search(
        self, standing: Standing, step: int, allowed: Mask | None, *, is_again: bool
    ) -> list[int] | None:
        if not self.is_real:
            return self._seat(standing.job.worker, step, allowed)
        gang = Gang(None, standing.job.worker, step)
        free = self.draft.promises.leave_out(standing.job.uid, gang, allowed)
        # Best where nobody else grows in this pass: on shared nodes kube-scheduler may give two
        # seats to one job, whose own elsewhere the other is not told to look for.
        apart = (self._owners == 0) | (self._owners == self._number(standing))
        places = self._seat(standing.job.worker, step, apart if free is None else apart & free)
        places = places or self._seat(standing.job.worker, step, free)
        return places or (self._seat(standing.job.worker, step, allowed) if is_again else None)

    def _number(self, standing: Standing) -> int:
        return self._numbers.setdefault(standing.job.uid, len(self._numbers) + 1)

    def _seat(self, worker: Shape, step: int, allowed: Mask | None) -> list[int] | None:
        if self.room.count_all(worker) < step:
            return None
        if step > 1:
            seats = find_seats(self.room, Gang(None, worker, step), allowed)
            if seats is None:
                return None
            pairs = zip(seats.places, seats.pods, strict=True)
            return [place for place, pods in pairs for _ in range(pods)]
        fits = self.room.count_fits(worker)
        candidates = np.flatnonzero(fits if allowed is None else fits * allowed)
        if not candidates.size:
            return None
        return [int(candidates[int(np.argmin(fits[candidates]))])]


def mask_held(draft: Draft) -> Mask | None:
    """Where nobody has reserved nodes; None where nobody has any."""
    places = [place for hold in draft.holds.by_uid.values() for place in hold.places]
    if not places:
        return None
    mask = np.ones(len(draft.room.nodes), dtype=np.bool_)
    mask[places] = False
    return mask
