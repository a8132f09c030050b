"""A queue above its limits gives back what its jobs have above their least; nobody is evicted.

A step after the starts, before anybody grows. Who has most gives first, the newest workers first,
and nobody below his least size: what is above a limit beyond that stays.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from et_scheduler.model.jobs import ABOVE_ALL, Gift, Purpose
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.rooms import Counts
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.waiting import find_asked


def keep_limits(draft: Draft) -> None:
    """Shrink jobs, those with most first, until each queue is within its limits.

    So it is too where somebody of the same queue waits at the limit with his least size: for the
    first for whom they suffice those who are of no higher priority.
    """
    for queue in draft.queues:
        _keep_within(draft, queue, np.zeros_like(draft.ledger.total), ABOVE_ALL)
        asked = find_asked(draft, queue)
        if asked is not None:
            standing, wanted = asked
            _keep_within(draft, queue, wanted, standing.job.priority)


def _keep_within(draft: Draft, queue: str, wanted: Counts, priority: int) -> None:
    """Jobs of no higher priority shrink until there is room for this within the limits."""
    surplus = draft.ledger.find_surplus(queue, wanted)
    if not (surplus > 0).any():
        return
    willing = (one for one in draft.admitted_by_queue.get(queue, ()) if one.surplus > 0)
    donors = [one for one in willing if one.job.priority <= priority]
    donors.sort(key=lambda one: one.job.uid, reverse=True)
    given = [0] * len(donors)
    heap = [(-one.dominate(one.size), number) for number, one in enumerate(donors)]
    heapify(heap)
    while heap and (surplus > 0).any():
        _, number = heappop(heap)
        donor = donors[number]
        worker = _find_next(draft, donor, given[number])
        if ((surplus > 0) & (worker > 0)).any():
            given[number] += 1
            surplus = surplus - worker
            heappush(heap, (-donor.dominate(donor.size - given[number]), number))
    for donor, count in zip(donors, given, strict=True):
        if count:
            _shrink(draft, donor, count, queue)


def _find_next(draft: Draft, standing: Standing, given: int) -> Counts:
    """What the next worker takes that it gives, by resource; nothing where it can give no more."""
    left = len(standing.workers) - given
    following = standing.workers[left - 1 : left] if given < standing.surplus else []
    return draft.pools.sum_up(draft.counting.get_taken(standing, following))


def _shrink(draft: Draft, standing: Standing, count: int, queue: str) -> None:
    pods = standing.workers[-count:]
    for pod in pods:
        draft.expect_worker(standing, pod)
    text = f"queue {queue} is above its limit"
    draft.shrink(standing, pods, Gift(Purpose.LIMIT), text)
