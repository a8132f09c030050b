"""The gangs that could not start in a pass, and what they keep from whoever would grow.

Only reads, from what the starts have explained: so it is asked after them, by who gives room out or
has it given back (growing and filling, levelling, limiting).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from et_scheduler.model.reasons import FOR_ROOM, Reason
from et_scheduler.planning.drafts import ALLOWED, Draft
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

    For one who is not, nothing is kept and nobody gives: it would be in vain.
    """
    if not draft.queues[queue].limits:
        return
    kept = _Kept(draft, queue)
    for standing in draft.told_by_queue.get(queue, ()):
        is_owed = draft.explanations[standing.job.uid].reason in _FOR_LIMIT
        if is_owed and not (standing.has_failed or draft.find_spared(standing, ALLOWED)):
            workers = standing.least - standing.size
            more = draft.counting.get_amounts(standing, workers, launcher=not standing.is_admitted)
            above = kept.find(standing.job.priority)
            if not draft.ledger.exceeds_limit(queue, more, at_least=True, owed=above):
                yield standing, more


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
