"""What is left goes to the job whose next step leaves it the least of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np

from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Purpose
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, Seats, find_seats
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts, Room
from et_scheduler.planning.sizes import find_next
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.waiting import find_owed, find_wanted

_Entry = tuple[int, int, str]
_Kind = tuple[Shape, bool, int]
"""A worker, whether it may be on what others hold, and whose promises do not keep it off."""


@dataclass(slots=True)
class Fill:
    """Fills a room with workers above the least sizes, one step of one job after the other.

    `sizes` are where the jobs begin and, afterwards, what they have; `places` where the new
    workers are. `more` is what each queue has got of it. What is only tried is not `is_real`: it
    may use nodes where pods are still to come.
    """

    draft: Draft
    room: Room
    sizes: dict[str, int]
    is_real: bool = True
    places: dict[str, list[int]] = field(default_factory=dict)
    more: dict[str, Counts] = field(default_factory=dict)
    _heaps: dict[str, list[_Entry]] = field(default_factory=dict)
    _ratios: dict[str, int] = field(default_factory=dict)
    _owed: dict[str, Counts] = field(default_factory=dict)
    _failed: dict[_Kind, int] = field(default_factory=dict)
    _outside: Mask | None = None
    _numbers: dict[str, int] = field(default_factory=dict)
    _owners: Counts = field(init=False)

    def __post_init__(self) -> None:
        """Nobody has grown anywhere."""
        self._owners = np.zeros(len(self.room.nodes), dtype=np.int64)

    def run(self, standings: Iterable[Standing]) -> None:
        """Until nobody's next step fits. Queues that have least of what they are due go first."""
        self._outside = _mask_reserved(self.draft)
        for standing in standings:
            queue = self.draft.get_queue(standing)
            if queue in self.draft.queues:
                self._push(queue, standing)
        while self._heaps:
            queue = min(self._heaps, key=self._rank_queue)
            heap = self._heaps[queue]
            *_, uid = heappop(heap)
            standing = self.draft.standings[uid]
            if self._grow(queue, standing):
                self._push(queue, standing)
            if not heap:
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

    def give_back(self, standing: Standing) -> None:
        """It keeps what it had before."""
        for place in self.places.pop(standing.job.uid, ()):
            self.room.give_back((place,), (1,), standing.job.worker)
        self.sizes[standing.job.uid] = standing.size

    def _push(self, queue: str, standing: Standing) -> None:
        size = self.sizes[standing.job.uid]
        following = find_next(standing.job, size)
        if following > size:
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
        more = self.draft.get_amounts(standing, step, launcher=False)
        if queue in self.more:
            more = more + self.more[queue]
        if queue not in self._owed:
            self._owed[queue] = find_owed(self.draft, queue)
        if self.draft.ledger.exceeds_limit(queue, more, owed=self._owed[queue]):
            return False
        places = self._find(standing, step, is_again=is_again)
        if places is None:
            return False
        for place in places:
            self.room.take((place,), (1,), worker)
        self.places.setdefault(uid, []).extend(places)
        self._owners[places] = self._number(standing)
        self.sizes[uid] = size + step
        self.more[queue] = more
        self._ratios.pop(queue, None)
        return True

    def _find(self, standing: Standing, step: int, *, is_again: bool) -> list[int] | None:
        """Places for the step, tightest first; where it keeps its least size off what is held.

        Off nodes where pods of others are to come as well, unless it had them a moment ago. What
        was searched in vain is not searched again: while a room is filled it only gets less.
        """
        allowed = None if standing.outside >= standing.floor else self._outside
        number = self.draft.promises.get_number(standing.job.uid)
        kind = (standing.job.worker, allowed is None, number)
        if step >= self._failed.get(kind, step + 1) and not is_again:
            return None
        places = self._search(standing, step, allowed, is_again=is_again)
        if places is None:
            self._failed[kind] = step
        return places

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


def grow_all(draft: Draft) -> None:
    """Raise sizes of jobs that run, and of gangs that start in this pass if nobody waits.

    What nobody has taken then, those have again who have lost it.
    """
    wanted = find_wanted(draft)
    growers = [one for one in draft.list_admitted() if _may_grow(draft, one, wanted)]
    menders = [one for one in draft.list_admitted() if one.is_mending]
    fill = Fill(draft, draft.room, {one.job.uid: one.size for one in (*growers, *menders)})
    fill.run(growers)
    for standing in growers:
        before, after = standing.size, fill.sizes[standing.job.uid]
        if after == before:
            continue
        if not standing.is_fresh and not _is_worth(draft, standing, after):
            fill.give_back(standing)
            continue
        _apply(draft, standing, after, fill.places[standing.job.uid])
    for standing in menders:
        fill.note_booked()
        fill.mend(standing)
        if _looks_elsewhere(draft, standing, fill):
            fill.give_back(standing)
        else:
            _keep(draft, standing, fill)


def _apply(draft: Draft, standing: Standing, workers: int, places: list[int]) -> None:
    draft.resize(standing, workers)
    if standing.is_fresh:  # it starts with them, on nodes that may be reserved for others
        seats = standing.gang_seats or Seats()
        placement = draft.build_placement(standing, (*seats.places, *places), seats.launcher)
        fields = {"message": f"{workers} workers", "grown_from": standing.size}
        draft.change(standing, Step.TAKE, workers=workers, placement=placement, **fields)
        return
    draft.change(
        standing,
        Step.TAKE,
        workers=workers,
        placement=draft.build_placement(standing, places),
        resized_at=draft.now,
        short_since=draft.now,
        grown_from=standing.size,
        reason=Reason.GROWN,
        message=f"{workers} workers: {workers - standing.was_size} more have room",
    )


def _looks_elsewhere(draft: Draft, standing: Standing, fill: Fill) -> bool:
    """Whether its pods are there, and keep off all nodes where there is room for them.

    Nobody tells a pod anew where to look: it is given back, and comes with the next growth. Those
    that take the place of others were told only where they must not be.
    """
    pods = (pod for pod in standing.job.pods if not (pod.is_launcher or pod.is_terminating))
    if standing.was is None or all(pod.node for pod in pods):
        return False
    names = {draft.room.nodes[place].name for place in fill.places.get(standing.job.uid, ())}
    return bool(names) and names.issubset(standing.was.placement.avoid)


def _keep(draft: Draft, standing: Standing, fill: Fill) -> None:
    """It goes on as if it had given back nothing, or less, and does so again at the next round.

    Rounds are the same for all: who waits may need what several have lost.
    """
    workers, was = fill.sizes[standing.job.uid], standing.was
    if was is None or workers == standing.size:
        return
    draft.resize(standing, workers)
    placement = draft.build_placement(standing, fill.places[standing.job.uid])
    since = draft.now - draft.now % draft.rules.grown_within
    fields: dict[str, Any] = {"placement": placement, "short_since": since}
    if workers == was.workers:
        fields |= {"reason": was.reason, "message": was.message}
    draft.change(standing, Step.GIVE, workers=workers, **fields)


def _may_grow(draft: Draft, standing: Standing, wanted: frozenset[str]) -> bool:
    if not standing.is_elastic or standing.size >= standing.most or standing.leaving:
        return False
    if standing.is_fresh:
        # Who starts without seats, for an autoscaler to see its pods, is told no nodes.
        has_seats = standing.gang_seats is not None and bool(standing.gang_seats.places)
        return has_seats and wanted.isdisjoint(name for name, _ in standing.job.worker.requests)
    return is_steady(standing) and not is_levelling(draft) and is_rested(draft, standing)


def is_rested(draft: Draft, standing: Standing) -> bool:
    """Whether it can take more now.

    Its last change is long enough ago, and so is a growth of which nothing came. Its launcher has a
    node: before that the operator may hold workers above the least back.
    """
    admission = standing.admission
    waits = ((admission.resized_at, standing.job.cooldown), (admission.retry_at, 0))
    is_over = all(since is None or draft.has_passed(since, wait) for since, wait in waits)
    return is_over and standing.launcher is not None


def is_steady(standing: Standing) -> bool:
    """All that it may have is bound, and nothing is on its way out."""
    is_whole = standing.admission.bound_at is not None and not standing.unbound
    is_whole = is_whole and len(standing.workers) == standing.size >= standing.least
    return is_whole and not standing.leaving and standing.step in (None, Step.TELL)


def is_levelling(draft: Draft) -> bool:
    """Whether room is being given back for the level of all: nobody grows into it before."""
    if draft.levelling is None:
        draft.levelling = any(
            one.leaving
            and one.admission.gave_for is not None
            and one.admission.gave_for.purpose is Purpose.LEVEL
            for one in draft.standings.values()
        )
    return draft.levelling


def _is_worth(draft: Draft, standing: Standing, after: int) -> bool:
    """Not less than a step, and not less than a tenth of what it has."""
    return (after - standing.size) * 100 >= draft.rules.worth * standing.size


def _mask_reserved(draft: Draft) -> Mask | None:
    """Where nobody has reserved nodes; None where nobody has any."""
    places = [place for hold in draft.holds.values() for place in hold.places]
    if not places:
        return None
    mask = np.ones(len(draft.room.nodes), dtype=np.bool_)
    mask[places] = False
    return mask


def fill_from_least(draft: Draft, standings: Mapping[str, Standing]) -> Mapping[str, int]:
    """The level: what each would have if all above the least sizes were given out anew."""
    room = draft.room.copy()
    for standing in standings.values():
        for pod in standing.workers[standing.floor :]:
            place = room.places.get(pod.node)
            if place is not None:
                room.give_back((place,), (1,), pod.shape or standing.job.worker)
    sizes = {uid: one.floor for uid, one in standings.items()}
    fill = Fill(draft, room, sizes, is_real=False)
    for standing in standings.values():
        queue = draft.get_queue(standing)
        held = draft.get_held(standing, standing.size)
        less = draft.get_held(standing, standing.floor) - held
        fill.more[queue] = fill.more[queue] + less if queue in fill.more else less
    fill.run(standings.values())
    return fill.sizes
