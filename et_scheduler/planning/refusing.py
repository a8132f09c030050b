"""Whom a queue lets start nothing, whatever room there is.

Below all steps: it is asked wherever anything is counted, held or tried for somebody who waits.
"""

from __future__ import annotations

from collections.abc import Mapping

from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason

Obstacle = tuple[Reason, str]


def find_stray(queues: Mapping[str, Queue], name: str, namespace: str) -> Obstacle | None:
    """Why a job is in no line: its queue is not there, or is not for its namespace."""
    queue = queues.get(name)
    if queue is None:
        text = (
            f"there is no queue {name}: create a TrainingQueue of that name, or "
            "name another one in spec.queue"
        )
        return Reason.NO_QUEUE, text
    if queue.namespaces is not None and namespace not in queue.namespaces:
        text = f"queue {name} does not admit jobs of namespace {namespace}"
        return Reason.NOT_IN_QUEUE, text
    return None


def find_refusal(queues: Mapping[str, Queue], name: str, namespace: str) -> Obstacle | None:
    """Why its queue lets it start nothing. What it asks for counts for nothing there.

    Else anybody could ask in the name of any queue: that would be due all, and others nothing.
    """
    stray = find_stray(queues, name, namespace)
    if stray is not None:
        return stray
    if queues[name].is_stopped:
        return Reason.QUEUE_STOPPED, f"queue {name} is stopped: nothing new starts"
    return None
