"""A job that cannot be planned: what its author is told in place of a plan.

Called by reconciling.py where a planner raised: so it looks at the job alone, at none of its pods
and by no view, for what has raised may be there.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from et_kube.events import Event
from et_operator.model.conditions import (
    Condition,
    find_condition,
    name_troubles,
    with_condition,
)
from et_operator.model.jobs import TrainingJob
from et_operator.model.plans import Plan

KIND = "PlanningFailed"
"""The condition's type and the Event's reason; planning/status clears it in the next good pass."""


def plan_defect(job: TrainingJob, error: Exception, now: datetime) -> Plan:
    """Tell the job that a pass over it raised `error`; nothing else is done about it.

    Empty where the job has been told of an error of this kind: errors may name addresses in memory,
    and a condition that changes with each pass would be written with each.
    """
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    reason = type(error).__name__
    old = find_condition(job.status.conditions, KIND)
    is_told = old is not None and (old.status, old.reason) == ("True", reason)
    if is_told or job.deletion_requested:
        return Plan()
    message = (
        f"{error}: the operator cannot go on with this job and leaves its pods as they are; it "
        "tries again each minute. Most often a field of a pod template has another type than in "
        "any pod (see kubectl explain pod.spec): correct it, or report this defect"
    )
    condition = Condition(KIND, "True", reason, message, observed_generation=job.generation)
    conditions = with_condition(job.status.conditions, condition, now)
    status = replace(job.status, conditions=conditions, trouble=name_troubles(conditions))
    event = Event(job.key.ref, job.uid, KIND, f"{reason}: {message}", is_warning=True)
    return Plan(status, events=(event,))
