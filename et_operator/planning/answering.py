"""The status of a ScaleIn or ScaleOut: derived from the job, never read but for a final phase.

Of a job's scalings it takes what planning/scaling.py has recorded, and changes nothing of that: its
only actions are about the scalings themselves, of which each that is refused waits for itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from et_kube.events import Event
from et_kube.resources import TRAINING_JOBS, Ref, is_name
from et_operator.model.actions import AcceptScaling, Action, AnswerScaling, Delete, Subject
from et_operator.model.conditions import Condition, find_condition
from et_operator.model.phases import ScalingPhase
from et_operator.model.plans import Plan
from et_operator.model.scalings import Scaling, ScalingStatus
from et_operator.model.snapshots import Refusal
from et_operator.model.statuses import Outcome, ScalingRecord
from et_operator.model.texts import MAX_MESSAGE, cut
from et_operator.planning.concluding import find_untold, get_scaling_resource
from et_operator.planning.drafts import Draft, find_pause, respect_refusal
from et_operator.planning.explaining import describe_scaling, describe_turns
from et_operator.planning.leaving import CERTAIN_AFTER, doubt_time
from et_operator.planning.standings import Standing
from et_operator.planning.turns import find_base, find_refusal, is_fixed, list_turns

MOST_ANSWERS = 64
"""So many writes of a pass are about scalings: whoever makes thousands of them must not keep the
job's workers waiting while each is written to."""
NEXT = "is the next one"
"""What is told of a scaling that waits for nothing but the next pass."""
ORPHAN_GRACE = timedelta(seconds=30)
"""How long a scaling may wait for a job that is not there yet."""


def answer_scalings(draft: Draft) -> list[Action]:
    """Whatever the job's scalings must be told, and those whose time is over.

    Oldest first, and no more of them than MOST_ANSWERS; what was written brings the next pass.
    """
    actions: list[Action] = []
    turns = list_turns(draft.view)
    waits = describe_turns(draft, turns)
    for scaling in draft.view.snapshot.scalings:
        if scaling.deletion_requested or respect_refusal(draft, _build_ref(scaling)):
            continue
        actions += _answer(draft, scaling, turns, waits.get(scaling.uid, ""))
        if len(actions) >= MOST_ANSWERS:
            break
    return actions


def plan_orphans(
    scalings: Collection[Scaling],
    now: datetime,
    complete_since: datetime | None,
    refusals: Mapping[Subject, Refusal],
) -> Plan:
    """Answers to all scalings that name one job that does not exist, a few writes at a time.

    One that may not be written to waits by itself, as a job's do (`refusals`: see Snapshot).
    """
    actions: list[Action] = []
    events: list[Event] = []
    waits: list[timedelta] = []
    for scaling in scalings:
        refusal = refusals.get(_build_ref(scaling))
        pause = refusal.at + find_pause(refusal) - now if refusal is not None else timedelta()
        if pause > timedelta():
            waits.append(pause)
            continue
        plan = plan_orphan(scaling, now, complete_since)
        actions += plan.actions
        events += plan.events
        waits += [] if plan.requeue_after is None else [plan.requeue_after]
        if len(actions) >= MOST_ANSWERS:
            break
    named = {Ref(TRAINING_JOBS, s.namespace, s.job_name) for s in scalings if is_name(s.job_name)}
    # one that was made since may not have been seen yet: its scaling would have failed for good
    premises = tuple(named) if events else ()
    return Plan(None, tuple(actions), tuple(events), min(waits, default=None), premises)


def plan_orphan(scaling: Scaling, now: datetime, complete_since: datetime | None) -> Plan:
    """What to do about a scaling whose job does not exist: refuse it after 30 s of grace."""
    if complete_since is None or scaling.deletion_requested:
        return Plan()
    if scaling.status.phase is not None and scaling.status.phase.is_final:
        end = find_expiry(scaling)
        if end is None:
            return Plan()
        end = max(end, complete_since + CERTAIN_AFTER)
        if now >= end:
            return Plan(actions=(Delete(*_pin(scaling)),))
        return Plan(requeue_after=end - now)
    end = max(scaling.created, complete_since) + ORPHAN_GRACE
    if now < end:
        return Plan(requeue_after=end - now)
    message = f"there is no TrainingJob {scaling.namespace}/{scaling.job_name}"
    status = conclude(scaling, Outcome(succeeded=False, reason="JobNotFound", message=message), now)
    event = Event(_build_ref(scaling), scaling.uid, "JobNotFound", message, is_warning=True)
    return Plan(actions=(AnswerScaling(*_pin(scaling), status),), events=(event,))


def find_expiry(scaling: Scaling) -> datetime | None:
    """When ttlSecondsAfterFinished are over."""
    ttl, end = scaling.ttl_after_finished, scaling.status.completion_time
    return end + ttl if ttl is not None and end is not None else None


def conclude(scaling: Scaling, outcome: Outcome, now: datetime) -> ScalingStatus:
    """The status with its final phase."""
    phase = ScalingPhase.SUCCEEDED if outcome.succeeded else ScalingPhase.FAILED
    status = replace(scaling.status, completion_time=now, observed_generation=scaling.generation)
    return _enter(status, phase, outcome.reason, outcome.message, now)


def _answer(draft: Draft, scaling: Scaling, turns: deque[Scaling], wait: str) -> Iterator[Action]:
    phase = scaling.status.phase
    if phase is not None and phase.is_final:
        end = find_expiry(scaling)
        if end is not None and not draft.wait_until(end) and not doubt_time(draft):
            yield Delete(*_pin(scaling))
        return
    untold = find_untold(draft.view, scaling)
    if untold is not None:
        yield AnswerScaling(*_pin(scaling), conclude(scaling, untold.outcome, draft.now))
        return
    refusal = _refuse(draft, scaling, turns)
    if refusal is not None:
        ref = _build_ref(scaling)
        text = refusal.message
        draft.events.append(Event(ref, scaling.uid, refusal.reason, text, is_warning=True))
        yield AnswerScaling(*_pin(scaling), conclude(scaling, refusal, draft.now))
        return
    if not scaling.is_accepted:
        yield AcceptScaling(*_pin(scaling), scaling.owners, draft.view.job.owner)
        return  # its status has to wait for the new resourceVersion
    status = _derive(draft, scaling, wait)
    if status != scaling.status:
        yield AnswerScaling(*_pin(scaling), status)


def _refuse(standing: Standing, scaling: Scaling, turns: deque[Scaling]) -> Outcome | None:
    """Why this scaling can never be done; None if it can, is being done, or is yet to be judged.

    `turns` are those that wait, the next one first: one that is refused leaves it to those behind.
    """
    view, record = standing.view, standing.status.scaling
    if record is not None and record.uid == scaling.uid:
        return None
    if scaling.is_of_other(view.job.uid):
        message = "the job that it was made for is gone, another one has its name"
        return _fail("JobReplaced", message)
    for kind in ("Foreign", "Failed", "Succeeded"):
        found = find_condition(view.status.conditions, kind)
        if found is not None and found.status == "True":
            what = "JobFinished" if view.status.has_finished else kind
            return _fail(what, f"the job is {kind}: {found.message}")
    decided = view.status.decided_replicas
    if record is not None or decided is None or view.is_only_followed:
        return None  # a record that cannot be read looks like none
    is_number_first = view.spec.worker.replicas != decided and not is_fixed(standing)
    if is_number_first or not turns or turns[0] is not scaling:
        return None
    refusal = find_refusal(standing, scaling, find_base(standing) or decided)
    if refusal is None:
        return None
    turns.popleft()
    return _fail(*refusal)


def _derive(draft: Draft, scaling: Scaling, wait: str) -> ScalingStatus:
    """What it is to be told now; `wait`: for what it waits before it begins."""
    view, record, now = draft.view, draft.view.status.scaling, draft.now
    status = replace(scaling.see(), job_uid=view.job.uid, observed_generation=scaling.generation)
    if not status.conditions:
        status = _enter(status, ScalingPhase.CREATED, "Accepted", wait or NEXT, now)
    elif status.phase is None:  # somebody has removed it, or made it unreadable
        status = replace(status, phase=_find_phase(status))
    if record is None or record.uid != scaling.uid:
        return _tell(status, ScalingPhase.CREATED, wait) if wait else status
    status = _copy_record(status, record)
    if find_condition(status.conditions, ScalingPhase.SCALING.value) is None:
        status = _enter(status, ScalingPhase.SCALING, "Started", "", now)
    status = _tell(status, ScalingPhase.SCALING, describe_scaling(draft, record))
    script = record.script
    is_executed = find_condition(status.conditions, ScalingPhase.SCRIPT_EXECUTED.value) is not None
    if script is not None and script.code == 0 and not is_executed:
        message = f"attempt {script.number} ended with 0"
        status = _enter(status, ScalingPhase.SCRIPT_EXECUTED, "Executed", message, now)
    if record.outcome is None:
        return status
    return conclude(replace(scaling, status=status), record.outcome, now)


def _copy_record(status: ScalingStatus, record: ScalingRecord) -> ScalingStatus:
    script = record.script
    return replace(
        status,
        start_time=record.started,
        to_delete_pods=tuple(worker.name for worker in record.victims),
        add_pods=tuple(worker.name for worker in record.added),
        workers=record.workers,
        script_attempts=script.number if script else 0,
        script_output=script.output if script else "",
    )


def _enter(
    status: ScalingStatus, phase: ScalingPhase, reason: str, message: str, now: datetime
) -> ScalingStatus:
    """The last condition is the current one, as et-operator's clients read it."""
    message = cut(message, MAX_MESSAGE)
    condition = Condition(phase.value, "True", reason, message, now, status.observed_generation)
    others = tuple(c for c in status.conditions if c.type != phase.value)
    return replace(status, phase=phase, conditions=(*others, condition))


def _tell(status: ScalingStatus, phase: ScalingPhase, message: str) -> ScalingStatus:
    """With these words for a phase that was entered: since when stays as it is."""
    message = cut(message, MAX_MESSAGE)
    told = (replace(c, message=message) if c.type == phase else c for c in status.conditions)
    return replace(status, conditions=tuple(told))


def _find_phase(status: ScalingStatus) -> ScalingPhase:
    """What the last condition says that is a phase."""
    known = {phase.value: phase for phase in ScalingPhase}
    said = (known[c.type] for c in reversed(status.conditions) if c.type in known)
    return next(said, ScalingPhase.CREATED)


def _fail(reason: str, message: str) -> Outcome:
    return Outcome(succeeded=False, reason=reason, message=message)


def _build_ref(scaling: Scaling) -> Ref:
    return Ref(get_scaling_resource(scaling.kind), scaling.namespace, scaling.name)


def _pin(scaling: Scaling) -> tuple[Ref, str, str]:
    """What pins an action to a scaling as it was seen: the object, its uid, its version."""
    return _build_ref(scaling), scaling.uid, scaling.resource_version
