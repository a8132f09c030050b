"""Whom a queue refuses: who may not use it, and whoever would start in one that is stopped.

What he asks for counts for nothing there. Nothing is changed here but what he is told.
"""

from __future__ import annotations

from et_scheduler.model.reasons import Reason
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.standings import Standing

Obstacle = tuple[Reason, str]


def find_stray(draft: Draft, standing: Standing) -> Obstacle | None:
    """Why a job is in no line: its queue is not there, or is not for its namespace."""
    name = draft.get_queue(standing)
    queue = draft.queues.get(name)
    if queue is None:
        text = (
            f"there is no queue {name}: create a TrainingQueue of that name, or "
            "name another one in spec.queue"
        )
        return Reason.NO_QUEUE, text
    if queue.namespaces is not None and standing.job.namespace not in queue.namespaces:
        text = f"queue {name} does not admit jobs of namespace {standing.job.namespace}"
        return Reason.NOT_IN_QUEUE, text
    return None


def find_refusal(draft: Draft, standing: Standing) -> Obstacle | None:
    """Why its queue lets it start nothing. What it asks for counts for nothing there.

    Else anybody could ask in the name of any queue: that would be due all, and others nothing.
    """
    stray = find_stray(draft, standing)
    if stray is not None:
        return stray
    queue = draft.queues[draft.get_queue(standing)]
    if queue.is_stopped:
        return Reason.QUEUE_STOPPED, f"queue {queue.name} is stopped: nothing new starts"
    return None


def explain_refused(draft: Draft) -> None:
    """Whom his queue refuses is tried by nobody, and is told here."""
    for standing in draft.list_waiting():
        refusal = find_refusal(draft, standing)
        if refusal is not None:
            draft.explain(standing, *refusal)
