"""Holds nodes for those who have waited long: chosen once, kept until they start.

A step after the starts. Nobody is asked to go for it: who leaves these nodes leaves them to who
holds them. What that means for others is in holds.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import ALLOWED, Draft
from et_scheduler.planning.fitting import Gang
from et_scheduler.planning.holds import Hold
from et_scheduler.planning.ledgers import SCALE
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts, Room
from et_scheduler.planning.seating import get_gang
from et_scheduler.planning.standings import Standing


def reserve_all(draft: Draft, lines: Mapping[str, Sequence[Standing]]) -> None:
    """Complete what is held, and let each queue's first that fits nowhere hold nodes."""
    needs = _Needs(draft)
    for hold in sorted(draft.holds.by_uid.values(), key=lambda hold: _rank(draft, hold.standing)):
        is_there = draft.holds.by_uid.get(hold.standing.job.uid) is hold
        if is_there and not hold.standing.job.is_frozen:
            draft.holds.reserve(hold.standing, _choose(draft, needs, hold.standing, hold.places))
    for queue, line in lines.items():
        standing = _find_first(draft, line)
        if standing is not None and not _has_equal(draft, queue, standing):
            draft.holds.reserve(standing, _choose(draft, needs, standing, []))


class _Need:
    """A gang, and how many of its workers and launchers fit on each node without other jobs."""

    def __init__(self, room: Room, gang: Gang, fits: Counts) -> None:
        self.gang, self.fits = gang, fits
        self.launchers = np.zeros_like(self.fits)
        self._beside = self.fits
        if gang.launcher is not None:
            self.launchers = room.count_without_jobs(gang.launcher)
            self._beside = room.count_without_jobs(gang.worker, gang.launcher)

    def has_workers(self, chosen: Mask) -> bool:
        """Whether the gang's workers fit on these nodes."""
        return int(self.fits[chosen].sum()) >= self.gang.workers

    def has_all(self, chosen: Mask) -> bool:
        """Whether the gang's launcher fits there as well."""
        if self.gang.launcher is None:
            return self.has_workers(chosen)
        own = chosen & (self.launchers > 0)
        if not own.any():
            return False
        taken = int((self.fits - self._beside)[own].min())
        return int(self.fits[chosen].sum()) - taken >= self.gang.workers

    def is_vain(self) -> bool:
        """Whether all nodes would not do."""
        return not self.has_all(np.ones(len(self.fits), dtype=np.bool_))

    def is_enough(self, chosen: Mask, barred: Mask) -> bool:
        """Whether these hold all of it, or another node that is not barred holds its launcher."""
        is_apart = (self.launchers[~chosen & ~barred] > 0).any()
        return self.has_all(chosen) or (bool(is_apart) and self.has_workers(chosen))


class _Needs:
    """What those need who hold nodes, or are to hold some: counted once for all that are alike.

    Nobody is like one that has workers, which stay where they are.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._by_gang: dict[Gang, _Need] = {}
        self._lacking: dict[tuple[str, tuple[int, ...]], bool] = {}

    def get(self, standing: Standing) -> _Need:
        room, gang, own = self._draft.room, get_gang(standing), self._draft.list_own(standing)
        if own:
            return _Need(room, gang, room.count_beside_own(gang.worker, own))
        if gang not in self._by_gang:
            self._by_gang[gang] = _Need(room, gang, room.count_without_jobs(gang.worker))
        return self._by_gang[gang]

    def mark(self, places: Iterable[int]) -> Mask:
        mask = np.zeros(len(self._draft.room.nodes), dtype=np.bool_)
        mask[list(places)] = True
        return mask

    def bar(self, standing: Standing) -> Mask:
        """Nodes that are reserved for others."""
        return self.mark(self._draft.holds.list_reserved(standing))

    def find_yielded(self, standing: Standing) -> Mask:
        """Nodes of those of the same priority who came later, and lack some as well.

        Each would keep what the other lacks, for good: nobody else may be there.
        """
        draft, mine = self._draft, _rank(self._draft, standing)
        others = (hold for hold in draft.holds.by_uid.values() if not hold.standing.job.is_frozen)
        ranked = ((_rank(draft, hold.standing), hold) for hold in others)
        later = (hold for rank, hold in ranked if rank[:2] == mine[:2] and rank > mine)
        return self.mark(p for hold in later if self._is_lacking(hold) for p in hold.places)

    def _is_lacking(self, hold: Hold) -> bool:
        """Found once for the same nodes: hundreds may lack some, and each asks about all others."""
        key = (hold.standing.job.uid, tuple(hold.places))
        if key not in self._lacking:
            need = self.get(hold.standing)
            is_enough = need.is_enough(self.mark(hold.places), self.bar(hold.standing))
            self._lacking[key] = not is_enough
        return self._lacking[key]


def _rank(draft: Draft, standing: Standing) -> tuple[int, int, int, str]:
    """Whose lack of nodes counts first: by priority, then by who came first."""
    of_queue, of_job = draft.rank_priority(standing)
    return -of_queue, -of_job, standing.admission.queued_at, standing.job.uid


def _choose(draft: Draft, needs: _Needs, standing: Standing, held: Sequence[int]) -> Sequence[int]:
    """What it holds, and nodes, the least rigid weight first, until the gang fits if they empty.

    Where all that may hold its workers leaves its launcher without a seat, the launcher looks for
    one elsewhere: nodes of launchers are shared by all, and nobody holds them for long. Where all
    that is not reserved for others would not do, not even with what others yield, nothing is added;
    where the whole cluster would not, launcher and all, because pods of others have come or nodes
    have gone, nothing is held.
    """
    need, chosen = needs.get(standing), needs.mark(held)
    if need.has_all(chosen):
        return held
    if need.is_vain():
        return []
    chosen &= need.fits > 0
    barred = needs.bar(standing)
    found = _complete(draft, standing, need, chosen, barred, need.fits > 0)
    if found is None:
        yielded = needs.find_yielded(standing)
        allowed = yielded | (need.fits > 0) & ~barred
        found = _complete(draft, standing, need, chosen, barred & ~yielded, allowed)
    return np.flatnonzero(chosen if found is None else found).tolist()


def _complete(
    draft: Draft, standing: Standing, need: _Need, chosen: Mask, barred: Mask, allowed: Mask
) -> Mask | None:
    """These nodes and more of those that are allowed, until they are enough; None: all are not."""
    added = allowed & ~chosen & ~barred
    everything = chosen | added
    if not need.is_enough(everything, barred):
        return None
    promised = np.zeros_like(chosen)
    promised[list(draft.holds.list_promised(standing))] = True  # others start there before
    ranked = np.lexsort((-need.fits, _weigh(draft), promised))
    order = ranked[added[ranked]]
    is_inside = need.has_all(everything)
    chosen = chosen.copy()
    for place in order[need.fits[order] > 0].tolist():
        if need.has_workers(chosen):
            break
        chosen[place] = True
    for place in (*order[need.launchers[order] > 0].tolist(), *order.tolist()):
        if not is_inside or need.has_all(chosen):
            break
        chosen[place] = True
    return chosen


def _find_first(draft: Draft, line: Sequence[Standing]) -> Standing | None:
    """The first of those who may hold nodes that has fitted nowhere for long enough."""
    may_hold = (one for one in line if _may_hold(draft, one))
    return next((one for one in may_hold if draft.has_waited(one)), None)


def _may_hold(draft: Draft, standing: Standing) -> bool:
    """Whether nodes would help it once all jobs have left them, and it stands on those it has.

    Else it keeps nobody behind it from holding some. Nor are there any for one that fails to stand
    again and again, while no workers leave for it: it would keep all others off them, for nothing.
    """
    told = draft.explanations.get(standing.job.uid)
    if told is None or told.reason is not Reason.NO_ROOM or standing.has_failed:
        return False
    gang = get_gang(standing)
    is_looked_at = (gang.launcher, gang.worker) in draft.needs
    if not is_looked_at or draft.find_spared(standing, ALLOWED):
        return False
    return draft.count_without_jobs(standing, gang) >= gang.workers


def _has_equal(draft: Draft, queue: str, standing: Standing) -> bool:
    """One at a time: another of this queue, or it itself, holds nodes already."""
    mine = draft.rank_priority(standing)
    return any(
        draft.get_queue(hold.standing) == queue
        and (hold.standing is standing or draft.rank_priority(hold.standing) >= mine)
        for hold in draft.holds.by_uid.values()
    )


def _weigh(draft: Draft) -> Counts:
    """Per node what launchers and least sizes have on it, of the resource they have most of."""
    if draft.weights is None:
        rigid = np.zeros_like(draft.room.allocatable)
        for shape, places in _list_rigid(draft).items():
            counts = np.bincount(places, minlength=len(rigid))
            rigid += np.outer(counts, draft.room.get_vector(shape))
        parts = rigid[:, 1:] / np.maximum(draft.room.allocatable[:, 1:], 1)
        heaviest = np.minimum(parts.max(axis=1, initial=0), SCALE)
        draft.weights = (heaviest * SCALE).astype(np.int64)  # bytes times SCALE would not fit
    return draft.weights


def _list_rigid(draft: Draft) -> dict[Shape, list[int]]:
    found: dict[Shape, list[int]] = defaultdict(list)
    for standing in draft.list_admitted():
        fixed = standing.workers[: standing.floor] if standing.is_elastic else standing.workers
        pods = (*fixed, *standing.all_launchers)
        for shape, places in draft.find_places(standing.job, pods):
            found[shape] += places
    return found
