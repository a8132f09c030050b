"""The gangs that could not start in a pass, and what they keep from whoever would grow.

Only reads, from what the starts have explained: so it is asked after them, by who gives room out or
has it given back (growing and filling, levelling, limiting).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from et_scheduler.model.reasons import FOR_ROOM, Reason
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import ALLOWED, Draft
from et_scheduler.planning.fitting import Gang
from et_scheduler.planning.rationing import share_out
from et_scheduler.planning.rooms import Counts
from et_scheduler.planning.standings import Standing

_FOR_LIMIT = (*FOR_ROOM, Reason.AT_LIMIT)


def find_wanted(draft: Draft) -> frozenset[str]:
    """The resources for which somebody waits, now or coming."""
    waiting = (draft.standings[uid].job for uid in draft.explanations if _is_short(draft, uid))
    shapes = {shape for job in waiting for shape in (job.launcher, job.worker)}
    return frozenset(name for shape in shapes for name, _ in shape.requests)


def _is_short(draft: Draft, uid: str) -> bool:
    return draft.explanations[uid].reason in FOR_ROOM


def is_room_coming(draft: Draft) -> bool:
    """Whether somebody waits for room that is being given back, and is kept for him.

    Who is not looked at in this pass may have been told so long ago.
    """
    told = draft.explanations.items()
    coming = (uid for uid, one in told if one.reason is Reason.ROOM_COMES)
    return any(draft.standings[uid].held is not None for uid in coming)


class Owed:
    """What within limits belongs to who waits, by queue: found once.

    It holds as long as no size changes, and nobody starts.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._found: dict[str, Counts] = {}

    def find(self, queue: str) -> Counts:
        """What belongs to the first of its line, for a start.

        Who runs does not grow into it: it would be asked to shrink again at once.
        """
        if queue not in self._found:
            nothing = np.zeros_like(self._draft.ledger.total)
            self._found[queue] = next((more for _, more in _list_owed(self._draft, queue)), nothing)
        return self._found[queue]


def find_asked(draft: Draft, queue: str) -> tuple[Standing, Counts] | None:
    """The first who may ask others of the queue to give, and what is owed to it."""
    owed = _list_owed(draft, queue)
    return next((one for one in owed if one[0].job.preempts), None)


def _list_owed(draft: Draft, queue: str) -> Iterator[tuple[Standing, Counts]]:
    """Who is within the limit once all that are of no higher priority have their least.

    For one who is not, nothing is kept and nobody gives: it would be in vain. So it is for one who
    would have no room even if all jobs went.
    """
    if not draft.queues[queue].limits:
        return
    kept = _Kept(draft, queue)
    for standing in draft.told_by_queue.get(queue, ()):
        is_owed = draft.explanations[standing.job.uid].reason in _FOR_LIMIT
        if is_owed and not (standing.has_failed or draft.find_spared(standing, ALLOWED)):
            launcher = None if standing.is_admitted else standing.job.launcher
            gang = Gang(launcher, standing.job.worker, standing.least - standing.size)
            more = draft.counting.get_gang(standing, gang)
            above = kept.find(standing.job.priority)
            is_over = draft.ledger.exceeds_limit(queue, more, at_least=True, owed=above)
            if not (is_over or _is_vain(draft, standing, gang)):
                yield standing, more


def _is_vain(draft: Draft, standing: Standing, gang: Gang) -> bool:
    """Whether the gang starts nowhere whatever others leave, as far as there is time to look.

    Who is looked at in this pass is known by that. Of the others as many kinds are looked for as
    their namespaces have a share of: whoever has more is owed something in his turns alone.
    """
    if standing.held is not None:
        return False
    namespace, is_known = standing.job.namespace, (gang.launcher, gang.worker) in draft.without_jobs
    if not (is_known or standing.is_admitted):
        if draft.owed_kinds is None:
            draft.owed_kinds = share_out(_list_kinds(draft), draft.rules.kinds)
        if not draft.owed_kinds.get(namespace):
            return True
        draft.owed_kinds[namespace] -= 1
    return not draft.could_ever_start(standing, gang)


def _list_kinds(draft: Draft) -> Iterator[tuple[str, tuple[Shape, Shape]]]:
    """What those ask for who wait within limits, and their namespaces."""
    for queue, told in draft.told_by_queue.items():
        if queue in draft.queues and draft.queues[queue].limits:
            for one in told:
                if draft.explanations[one.job.uid].reason in _FOR_LIMIT:
                    yield one.job.namespace, (one.job.launcher, one.job.worker)


class _Kept:
    """What jobs of a queue have above their least and give to nobody of a lower priority."""

    def __init__(self, draft: Draft, queue: str) -> None:
        self._draft, self._queue = draft, queue
        self._found: dict[int, Counts] = {}

    def find(self, priority: int) -> Counts:
        if priority not in self._found:
            found = np.zeros_like(self._draft.ledger.total)
            for one in self._by_priority:
                if one > priority:
                    found = found + self._by_priority[one]
            self._found[priority] = found
        return self._found[priority]

    @cached_property
    def _by_priority(self) -> dict[int, Counts]:
        found: dict[int, Counts] = {}
        for one in self._draft.admitted_by_queue.get(self._queue, ()):
            if one.size > one.floor:
                counting = self._draft.counting
                above = counting.get_held(one, one.size) - counting.get_held(one, one.floor)
                found[one.job.priority] = found.get(one.job.priority, 0) + above
        return found
