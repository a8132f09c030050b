"""The ends of a job and of a scaling, and what becomes of a scaling's workers half-way.

The only place that records that either has succeeded or failed; who calls has judged that it is so.
What has begun to drain goes on to leave: that is never taken back.
"""

from __future__ import annotations

from dataclasses import replace

from et_contract.documents import MemberState
from et_operator.model.statuses import Outcome, ScalingKind, ScalingRecord, WorkerId, WorkerState
from et_operator.model.texts import MAX_MESSAGE, cut
from et_operator.planning.admitting import count_allowed
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import leave
from et_operator.planning.scripting import close_script

SUSPENDED = "Suspended"
_FINISHED = "JobFinished"
_NUMBER_STAYS = frozenset({SUSPENDED, _FINISHED})
"""A number that somebody wrote into the spec outlives these, and is met at the next start."""
PREEMPTED = "Preempted"
"""Reason of a scaling that ended because a ScaleIn does not wait for its workers."""
SUPERSEDED = "Superseded"
"""Reason of a scaling that ended because somebody wrote another number of replicas."""


def succeed(draft: Draft, message: str) -> None:
    """Record that the user's command ended well."""
    _finish(draft, "Succeeded", "JobSucceeded", message)


def fail(draft: Draft, reason: str, message: str) -> None:
    """Record that the job is given up, and why."""
    _finish(draft, "Failed", reason, message)


def _finish(draft: Draft, kind: str, reason: str, message: str) -> None:
    stop_scaling(draft, _FINISHED, "the job has ended")
    leaving = draft.select_records(WorkerState.LEAVING)  # what has begun to leave does leave
    draft.change(completion_time=draft.now, workers=leaving)
    draft.set_condition(kind, "True", reason, message)
    draft.tell(kind, message, is_warning=kind == "Failed")


def stop_scaling(draft: Draft, reason: str, message: str) -> None:
    """End the scaling that is going on, if one is, with what has been reached so far.

    Draining is one-way: victims that a written config named draining finish leaving, the others
    stay. Added workers that were listed stay, the others leave or are never created. But a number
    that a user wrote into the spec is not taken back by a ScaleIn, which counts from there: its
    workers stay awaited, and as they do not run they are the first to be chosen as victims. So they
    do where a growth is superseded by another number: what is starting for it is not thrown away.
    """
    scaling = draft.status.scaling
    if scaling is None or scaling.outcome is not None:
        return
    if _is_kept_whole(scaling, reason):
        draft.change(decided_replicas=scaling.target)
        end_scaling(draft, Outcome(succeeded=False, reason=reason, message=message))
        return
    lost = sum(not _keep_victim(draft, victim) for victim in scaling.victims)
    won = sum(_keep_added(draft, added) for added in scaling.added)
    outcome = Outcome(succeeded=False, reason=reason, message=message)
    reached = scaling.base + won - lost
    if scaling.kind.is_number and reason in _NUMBER_STAYS:
        draft.change(decided_replicas=scaling.target)
        end_scaling(draft, outcome)
        return
    draft.change(decided_replicas=count_allowed(draft.view.job, reached))
    end_scaling(draft, outcome, final=None if reason == SUPERSEDED else reached)


def end_scaling(draft: Draft, outcome: Outcome, final: int | None = None) -> None:
    """Record how the current scaling ended; from now on it cannot be superseded."""
    if (scaling := draft.status.scaling) is None:
        return
    scaling, words = close_script(draft.view, scaling)
    message = "; ".join(filter(None, (outcome.message, words)))
    outcome = replace(outcome, message=cut(message, MAX_MESSAGE))
    draft.change(scaling=replace(scaling, outcome=outcome, final=final, ended=draft.now))
    verb = "succeeded" if outcome.succeeded else "was stopped"
    draft.tell(
        "ScaleSucceeded" if outcome.succeeded else "ScaleFailed",
        f"{name_scaling(scaling)} {verb}: {outcome.message}",
        is_warning=not outcome.succeeded,
    )


def name_scaling(scaling: ScalingRecord) -> str:
    """What people know it by."""
    if scaling.kind.is_number:
        return f"the change of {name_number(scaling)} to {scaling.target}"
    return f"{scaling.kind.value} {scaling.name}"


def name_number(scaling: ScalingRecord) -> str:
    """Where the number is that a scaling follows, or writes."""
    return "admission.workers" if scaling.kind is ScalingKind.QUEUE else "worker.replicas"


def _is_kept_whole(scaling: ScalingRecord, reason: str) -> bool:
    """Whether all the workers that it was to bring are wanted still."""
    if reason == PREEMPTED:
        return scaling.kind.is_number
    is_begun = scaling.kind.is_number or bool(scaling.added)
    return reason == SUPERSEDED and scaling.base < scaling.target and is_begun


def _keep_victim(draft: Draft, victim: WorkerId) -> bool:
    """Whether the victim stays; if so, it is not leaving any more."""
    record, view = draft.find_record(victim.name), draft.view
    member = view.members.get(victim.uid)
    is_draining = member is not None and member.state in {MemberState.DRAINING, MemberState.GONE}
    pod = view.pods.get(victim.uid)
    is_ending = pod is None or pod.is_deleting or view.is_gone(pod)
    if is_draining or is_ending or record is None or record.state is not WorkerState.LEAVING:
        return False
    draft.forget(victim.name)
    return True


def _keep_added(draft: Draft, added: WorkerId) -> bool:
    """Whether the added worker has joined; if not, it leaves."""
    record, pod = draft.find_record(added.name), draft.view.names.get(added.name)
    if pod is None:
        if record is not None and record.state is WorkerState.JOINING:
            draft.forget(added.name)
        return False
    is_staying = record is None or record.state is WorkerState.JOINING
    if is_staying and pod.uid in draft.view.listed and not pod.is_deleting:
        return True
    leave(draft, pod.name, pod.uid, "Stopped")
    return False
