"""The plan of one pass over a job: what is to be written, created, deleted and told.

planning/planner makes it. reconciling.py has its premises read first and looks again in time;
acting/executing does the rest. What a planner wants and is not in here, nobody does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from et_kube.events import Event
from et_kube.resources import Ref
from et_operator.model.actions import Action
from et_operator.model.statuses import JobStatus


@dataclass(frozen=True, slots=True)
class Plan:
    """Status first (if it differs), then the actions in order, then the events.

    If the status write fails, none of the actions runs. Consecutive creations may run in parallel,
    those of pods among themselves, and so may deletions of pods; anything else keeps its order. An
    action that fails stops the ones after it. But where it is this very object that the server, or
    somebody's webhook, does not want to be touched, what stands alone (see `stands_alone`) is
    not stopped, and stops nothing.

    An event is recorded once what the plan writes to its object was written.

    `premises` are objects that the decision rests on and that its write does not pin: each is read
    live first, and where one is not as it was believed to be, nothing of the plan is done. One
    without a name stands for all workers of the job, where some are missing.
    """

    status: JobStatus | None = None
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_after: timedelta | None = None
    premises: tuple[Ref, ...] = ()
