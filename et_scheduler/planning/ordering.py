"""Who is looked at first: queues by what they are due, jobs as their queue says.

Only reads: what follows for who is first is decided in starting.py and reserving.py. Each start
changes the books, and with them the order of queues, so `walk` asks them anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush

from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.refusing import find_stray
from et_scheduler.planning.standings import Standing

Order = Callable[[Standing, Draft], int]
"""A key of a job: lower is earlier."""


def _find_age(standing: Standing, draft: Draft) -> int:
    """Since when it asks: who runs has used up the place from which it was started."""
    if standing.is_admitted:
        return (
            draft.now if standing.admission.unfit_since is None else standing.admission.unfit_since
        )
    return standing.admission.queued_at


ORDERS: Mapping[str, Order] = {
    "priority": lambda standing, _: -standing.job.priority,
    "fairness": lambda standing, _: standing.dominate(standing.size) if standing.size else 0,
    "age": _find_age,
    "size": lambda standing, _: standing.dominate(standing.least),
}


def rank_job(draft: Draft, standing: Standing) -> tuple[object, ...]:
    """A job's place in the line, who asks for a larger least size as who asks for a start."""
    queue = draft.queues[draft.get_queue(standing)]
    keys = [ORDERS[name](standing, draft) for name in queue.order if name in ORDERS]
    job = standing.job
    return (*keys, job.created, job.namespace, job.name, job.uid)


def list_lines(draft: Draft) -> dict[str, list[Standing]]:
    """Who waits in each queue, in order, and may use it. Those that nobody waits in are left out.

    Who cannot be written is passed by: others start in what is free, if he does not hold it.
    """
    lines: dict[str, list[Standing]] = {}
    for standing in draft.list_waiting():
        queue = draft.get_queue(standing)
        stray = find_stray(draft.queues, queue, standing.job.namespace)
        if stray is None and not standing.job.is_frozen:
            lines.setdefault(queue, []).append(standing)
    for line in lines.values():
        line.sort(key=lambda standing: rank_job(draft, standing))
    return lines


def walk(draft: Draft, lines: Mapping[str, list[Standing]]) -> Iterator[Standing]:
    """One after the other; each start changes which queue is next."""
    left = {queue: deque(line) for queue, line in lines.items()}
    heap = [(*rank_queue(draft, queue), queue) for queue in left]
    heapify(heap)
    while heap:
        *_, queue = heappop(heap)
        yield left[queue].popleft()
        if left[queue]:
            heappush(heap, (*rank_queue(draft, queue), queue))


def rank_queue(draft: Draft, queue: str) -> tuple[int, int]:
    """Priority first, then what it has of what it is due."""
    return (-draft.queues[queue].priority, draft.ledger.get_ratio(queue))
