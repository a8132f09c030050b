"""Holds nodes for those who have waited long: chosen once, kept until they start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, count_largest
from et_scheduler.planning.ledgers import SCALE
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts
from et_scheduler.planning.seating import get_gang
from et_scheduler.planning.standings import Standing


def reserve_all(draft: Draft, lines: Mapping[str, Sequence[Standing]]) -> None:
    """Complete what is held, and let each queue's first that fits nowhere hold nodes."""
    for uid in list(draft.holds.by_uid):
        hold = draft.holds.by_uid.get(uid)  # another's may have taken its nodes just now
        if hold is not None and not hold.standing.job.is_frozen:
            draft.holds.reserve(hold.standing, _choose(draft, hold.standing, hold.places))
    for queue, line in lines.items():
        standing = _find_first(draft, line)
        if standing is not None and not _has_equal(draft, queue, standing):
            draft.holds.reserve(standing, _choose(draft, standing, []))


def _choose(draft: Draft, standing: Standing, held: Sequence[int]) -> Sequence[int]:
    """What it holds, and nodes, the least rigid weight first, until the gang fits if they empty.

    Where all that may hold its workers leaves its launcher without a seat, the launcher looks for
    one elsewhere: nodes of launchers are shared by all, and nobody holds them for long. Where all
    that is not reserved for others would not do, nothing is added; where the whole cluster would
    not, launcher and all, because pods of others have come or nodes have gone, nothing is held.
    """
    gang = get_gang(standing)
    fits = draft.room.count_without_jobs(gang.worker)
    launchers = None
    if gang.launcher is not None:
        launchers = draft.room.count_without_jobs(gang.launcher)
    chosen = np.zeros(len(draft.room.nodes), dtype=np.bool_)
    chosen[list(held)] = True
    if _is_enough(draft, gang, fits, launchers, chosen):
        return held
    if count_largest(gang, draft.room.count_without_jobs) < gang.workers:
        return []
    owned = draft.holds.list_reserved(standing)
    promised = np.zeros(len(draft.room.nodes), dtype=np.bool_)
    promised[list(draft.holds.list_promised(standing))] = (
        True  # not to be had before others start there
    )
    ranked = np.lexsort((-fits, _weigh(draft), promised)).tolist()
    order = [p for p in ranked if fits[p] and not chosen[p] and p not in owned]
    everything = chosen.copy()
    everything[order] = True
    if not _is_enough(draft, gang, fits, launchers, everything):
        gang = replace(gang, launcher=None)
        if not _is_enough(draft, gang, fits, launchers, everything):
            return held
    for place in order:
        if _is_enough(draft, gang, fits, launchers, chosen):
            break
        chosen[place] = True
    return np.flatnonzero(chosen).tolist()


def _find_first(draft: Draft, line: Sequence[Standing]) -> Standing | None:
    for standing in line:
        told = draft.explanations.get(standing.job.uid)
        is_unfit = told is not None and told.reason is Reason.NO_ROOM and not standing.has_failed
        since = standing.admission.unfit_since
        if is_unfit and draft.has_passed(since, draft.rules.reserve_after):
            return standing
    return None


def _has_equal(draft: Draft, queue: str, standing: Standing) -> bool:
    """One at a time: another of this queue, or it itself, holds nodes already."""
    mine = draft.rank_priority(standing)
    return any(
        draft.get_queue(hold.standing) == queue
        and (hold.standing is standing or draft.rank_priority(hold.standing) >= mine)
        for hold in draft.holds.by_uid.values()
    )


def _is_enough(
    draft: Draft, gang: Gang, fits: Counts, launchers: Counts | None, chosen: Mask
) -> bool:
    total = int(fits[chosen].sum())
    if total < gang.workers or gang.launcher is None or launchers is None:
        return total >= gang.workers
    own = chosen & (launchers > 0)
    if not own.any():
        return False
    beside = draft.room.count_without_jobs(gang.worker, gang.launcher)
    return total - int((fits - beside)[own].min()) >= gang.workers


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
