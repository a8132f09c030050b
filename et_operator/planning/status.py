"""What people see: phase, conditions and counts, computed from what is there.

Called last in a pass, once all is decided. No rule reads its phase or counts back; whether they are
worth a write is judged here, so that numbers on the move cause none.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from et_contract.admissions import ADMITTED, REFUSED, WAITING
from et_contract.documents import DRIVER_STALLED, NO_RING, RING_NOT_BROKEN, WORKERS_IDLE
from et_kube.resources import PODS
from et_operator.model.conditions import (
    AWAITING,
    END_UNSEEN,
    RECOVERING,
    find_condition,
    is_true,
    name_troubles,
)
from et_operator.model.phases import JobPhase
from et_operator.model.pods import Pod
from et_operator.model.statuses import JobStatus, ReplicaStatuses, RoleCounts
from et_operator.model.texts import count
from et_operator.planning import defects
from et_operator.planning.awaiting import describe_ends
from et_operator.planning.creating import find_needed_names
from et_operator.planning.drafts import Draft
from et_operator.planning.ends import NEEDS_PYTHON, is_image_unfit
from et_operator.planning.exhausting import describe_stop
from et_operator.planning.explaining import describe_scaling, describe_waits
from et_operator.planning.finishing import describe_held_deadline
from et_operator.planning.leaving import describe_held_drains
from et_operator.planning.lingering import describe_unseen
from et_operator.planning.noticing import describe_notices
from et_operator.planning.recovering import note_listed
from et_operator.planning.refusing import tell_refusals
from et_operator.planning.renewing import describe_outdated, describe_renewal
from et_operator.planning.replacing import describe_failing
from et_operator.planning.silence import describe_silence
from et_operator.planning.stalling import (
    describe_idle,
    describe_ring,
    describe_stall,
    describe_unbroken,
)
from et_operator.planning.standings import Standing
from et_operator.planning.troubles import (
    CONFIGS,
    PULLS,
    UNSCHEDULABLE,
    list_troubles,
    tell_troubles,
)
from et_operator.planning.turns import describe_held_number, describe_too_few
from et_operator.planning.views import View

CHANGING = timedelta(seconds=5)
"""Numbers alone are not written while pods come, or are deleted, since less than this."""
NAME_TAKEN_AFTER = timedelta(seconds=60)
_OF_LIFE = (
    "Running",
    "Restarting",
    "Scaling",
    AWAITING,
    RECOVERING,
    END_UNSEEN,
    "DeadlineHeldUp",
)
"""Types of the conditions that end with the job."""
_ALL_LISTED = "the launcher has a stream to its workers"
_SOME_LISTED = "the launcher has a stream to as many of its workers as it starts with"
LOOK_AT_ACCOUNTS = timedelta(seconds=60)
"""How often it is looked whether an account is another job's no more: its events name that job."""
_CORRECT_IMAGE = (
    "the pod starts once the image can be pulled; for another image correct the job's template, "
    "and the pod is replaced"
)
_CORRECT_CONFIG = (
    "the pod starts once what it refers to is there; else correct the job's template, and the "
    "pod is replaced"
)


def describe(draft: Draft) -> None:
    """Complete the draft's status with what people see."""
    draft.clear_condition(defects.KIND, "Resolved")
    if draft.status.has_finished:
        for kind in _OF_LIFE:
            draft.clear_condition(kind, "JobFinished")
    elif not draft.view.is_only_followed:
        _describe_progress(draft)
        _describe_waits(draft)
        _describe_troubles(draft)
    describe_ends(draft)
    others = [subject for subject in draft.view.snapshot.refusals if subject != PODS]
    _show(draft, "WritesRefused", "WritesRefused", tell_refusals(draft, others))
    _count(draft)
    phase = _find_phase(draft.status)
    if phase is JobPhase.CREATED and draft.view.is_only_followed:
        phase = draft.status.phase or phase  # what its own operator said last
    draft.change(
        phase=phase,
        trouble=name_troubles(draft.status.conditions),
        observed_generation=draft.view.job.generation,
    )


def check_worth_writing(draft: Draft, *, touches_pods: bool) -> bool:
    """Whether the described status differs in more than numbers that are about to change again."""
    old, new = draft.view.status, draft.status
    if old == new:
        return False
    if _without_numbers(old) != _without_numbers(new):
        return True
    if touches_pods:
        return False
    ends = [end for pod in draft.view.snapshot.pods if (end := _find_changing(draft.view, pod))]
    if not ends:
        return True
    draft.wake_at(max(ends))
    return False


def _find_changing(view: View, pod: Pod) -> datetime | None:
    """Until when the pod counts as coming or going, which makes numbers about it short-lived."""
    is_coming = not pod.is_terminal and not pod.is_container_running
    since = pod.deletion_requested or (pod.created if is_coming else None)
    end = since + CHANGING if since is not None else view.now
    return end if view.now < end else None


def _without_numbers(status: JobStatus) -> JobStatus:
    return replace(
        status,
        replica_statuses=ReplicaStatuses(),
        target_workers=(),
        current_workers=(),
        replicas=0,
    )


def _describe_progress(draft: Draft) -> None:
    view, status = draft.view, draft.status
    scaling = status.scaling
    is_scaling = scaling is not None and scaling.outcome is None
    if is_scaling and scaling is not None:
        draft.set_condition("Scaling", "True", scaling.kind.value, describe_scaling(draft, scaling))
    else:
        draft.clear_condition("Scaling", "Done")
    if status.is_suspended or status.epoch != view.status.epoch:
        draft.clear_condition("Running", "Suspended" if status.is_suspended else "Restarting")
        draft.clear_condition("HostsListed", "NoLauncher")
        draft.clear_condition(RECOVERING, "NoLauncher")
        return
    _describe_running(draft)
    _describe_hosts(draft)


def _describe_waits(draft: Draft) -> None:
    told = describe_waits(draft)
    if told:
        draft.set_condition(AWAITING, "True", AWAITING, told)
    else:
        draft.clear_condition(AWAITING, "Over")


def _describe_running(draft: Draft) -> None:
    view = draft.view
    if not view.is_launcher_running:
        draft.clear_condition("Running", "LauncherNotRunning")
        return
    running = sum(pod.is_container_running for pod in draft.select_roster())
    if running < draft.needed_workers or is_true(draft.status.conditions, "Running"):
        return
    draft.set_condition("Running", "True", "JobRunning", "the launcher and its workers run")
    of = f"{running} of {count(draft.status.decided_replicas, 'worker')}"
    draft.tell("Running", f"the launcher runs, with {of}")
    draft.clear_condition("Restarting", "Restarted")


def _describe_hosts(draft: Draft) -> None:
    view = draft.view
    if view.report is None:
        draft.clear_condition("HostsListed", "NoReport")
        return
    status = draft.status
    listed = sum(pod.uid in view.listed for pod in draft.select_roster())
    note_listed(draft, listed)
    told = find_condition(status.conditions, "HostsListed")
    message = _ALL_LISTED if listed >= (status.decided_replicas or 0) else _SOME_LISTED
    if told is not None and told.status == "True":
        if told.message != _SOME_LISTED or message != _ALL_LISTED:
            return
    elif listed < draft.needed_workers:
        return
    draft.set_condition("HostsListed", "True", "StreamsOpen", message)
    is_all, of = message == _ALL_LISTED, f"{listed} of {status.decided_replicas} workers"
    verb = "is listed as host" if listed == 1 else "are listed as hosts"
    who = count(listed, "worker") if is_all else of
    draft.tell("HostsListed", f"{who} {verb}")


def _describe_troubles(draft: Draft) -> None:
    view = draft.view
    is_waiting = bool(draft.select_unborn()) or not draft.status.launcher_uid
    pods = tell_refusals(draft, [PODS]) if is_waiting else ""
    _show(draft, "PodsRefused", "PodsRefused", pods)
    _show(draft, "WorkersFailing", "EarlyLosses", describe_failing(draft))
    _show(draft, "RanksFailing", "GivenUp", describe_stop(draft))
    _show(draft, "ImageUnfit", "ContainerNotStarted", _find_unfit(view))
    troubles = list_troubles(draft)
    pull = _advise(tell_troubles(troubles, PULLS), _CORRECT_IMAGE)
    _show(draft, "ImagePullFailing", "ImagePull", pull)
    config = _advise(tell_troubles(troubles, CONFIGS), _CORRECT_CONFIG)
    _show(draft, "ContainerConfigInvalid", "Config", config)
    unplaced = tell_troubles(troubles, frozenset({UNSCHEDULABLE}))
    _show(draft, "Unschedulable", "Unschedulable", unplaced)
    _show(draft, "RuntimeMissing", "RuntimeMissing", _find_missing_runtime(draft))
    _show(draft, "AccountRefused", "AnotherJobs", _describe_borrowed(draft))
    _show(draft, END_UNSEEN, "NotSeen", describe_unseen(draft))
    _show(draft, "DriverStalled", "DriverStalled", describe_stall(view))
    told = view.report.problems.items() if view.report else ()
    _show(draft, "WorkersIdle", "NoProcesses", describe_idle(view, draft.spec))
    _show(draft, "NoRing", "RanksSilent", describe_ring(view))
    _show(draft, "RingNotBroken", "RanksBare", describe_unbroken(view))
    known = {DRIVER_STALLED, NO_RING, RING_NOT_BROKEN, WORKERS_IDLE}
    problems = sorted(problem for problem in told if problem[0] not in known)
    silence = describe_silence(draft)
    problems += [("ReportMissing", silence)] if silence else []
    text = "; ".join(f"{reason}: {message}" for reason, message in problems)
    _show(draft, "LauncherTrouble", problems[0][0] if problems else "", text)
    _show(draft, "DrainHeldUp", "WatchCut", describe_held_drains(draft))
    _show(draft, "DeadlineHeldUp", "TimeInDoubt", describe_held_deadline(draft))
    _show(draft, "NotElastic", "ReplicasHeld", describe_held_number(draft))
    _show(draft, "TemplateChanged", "Edited", describe_outdated(draft), is_warning=False)
    _show(draft, "RestartingWorkers", "Asked", describe_renewal(draft), is_warning=False)
    _show(draft, "NodesLeaving", "Notice", describe_notices(draft))
    _show(draft, "TooFewWorkers", "BelowLeast", describe_too_few(draft))
    draft.clear_condition("InvalidSpec", "Corrected")
    draft.clear_condition("StatusDamaged", "Corrected")
    _describe_taken_names(draft)


def _show(draft: Draft, kind: str, reason: str, message: str, *, is_warning: bool = True) -> None:
    """A condition that is True with its message, or False once its cause has gone."""
    if not message:
        draft.clear_condition(kind, "Resolved")
        return
    if not is_true(draft.status.conditions, kind):
        draft.tell(kind, message, is_warning=is_warning)
    draft.set_condition(kind, "True", reason, message)


def _describe_taken_names(draft: Draft) -> None:
    """Named after 60 s: most often a former job's child holds a name on its way out."""
    view, kind = draft.view, "NameTaken"
    needed = find_needed_names(view) if view.status.epoch and not draft.spec.suspend else ()
    taken = [name for name in needed if name in view.snapshot.taken_names]
    old = find_condition(draft.status.conditions, kind)
    if not needed:
        draft.clear_condition(kind, "Resolved")
    elif taken and (old is None or old.status == "False"):
        draft.set_condition(kind, "Unknown", "Waiting", f"somebody else holds {', '.join(taken)}")
    elif (
        old is not None
        and old.status == "Unknown"
        and old.last_transition_time is not None
        and not draft.wait_until(old.last_transition_time + NAME_TAKEN_AFTER)
    ):
        _show(draft, kind, "NameTaken", f"{old.message}: remove it, or rename the job")


def _describe_borrowed(draft: Draft) -> str:
    names = sorted(draft.view.snapshot.borrowed)
    if not names:
        return ""
    draft.wake_at(draft.now + LOOK_AT_ACCOUNTS)
    return (
        f"ServiceAccount {', '.join(names)} is that of another job's launcher, with its rights: no "
        "pod is created with it; name an account of your own in the template, or none"
    )


def _find_unfit(view: View) -> str:
    pod = next((p for p in view.snapshot.pods if is_image_unfit(p)), None)
    if pod is None:
        return ""
    words = pod.termination.message if pod.termination else pod.waiting_message
    what = f"container {pod.container} of {pod.name} could not be started"
    return f"{what}: {words.strip()}; {NEEDS_PYTHON}"


def _advise(trouble: str, advice: str) -> str:
    return f"{trouble}; {advice}" if trouble else ""


def _find_missing_runtime(standing: Standing) -> str:
    runtime = standing.status.runtime
    if runtime is None or standing.has_runtime:
        return ""
    return (
        f"ConfigMap edl-runtime-{runtime.digest} is not there and this operator ships another "
        "version: suspend and resume the job to move it to that one"
    )


def _count(draft: Draft) -> None:
    view = draft.view
    roster = [] if draft.status.has_finished else draft.select_roster()
    alive = [p for p in view.workers if not view.is_gone(p)]
    draft.change(
        replica_statuses=ReplicaStatuses(
            launcher=_count_role(view, view.launchers), worker=_count_role(view, view.workers)
        ),
        target_workers=(
            *(pod.name for pod in roster),
            *(record.name for record in draft.select_unborn()),
        ),
        current_workers=tuple(pod.name for pod in roster if pod.is_container_running),
        replicas=len(alive),
        current_scaler=_name_scaler(draft),
    )


def _count_role(view: View, pods: tuple[Pod, ...]) -> RoleCounts:
    return RoleCounts(
        active=sum(pod.phase == "Running" and not view.is_gone(pod) for pod in pods),
        succeeded=sum(pod.phase == "Succeeded" for pod in pods),
        failed=sum(pod.phase == "Failed" for pod in pods),
    )


def _name_scaler(standing: Standing) -> str:
    scaling, namespace = standing.status.scaling, standing.view.job.key.namespace
    if scaling is None or not scaling.name:
        return ""
    return f"{scaling.kind.value}:{namespace}/{scaling.name}"


_PHASES = (
    ("Failed", JobPhase.FAILED),
    ("Succeeded", JobPhase.SUCCEEDED),
    ("Suspended", JobPhase.SUSPENDED),
    ("Restarting", JobPhase.RESTARTING),
    ("Scaling", JobPhase.SCALING),
    ("Running", JobPhase.RUNNING),
)


def _find_phase(status: JobStatus) -> JobPhase:
    """The first condition in this order that is True says it."""
    true = (phase for kind, phase in _PHASES if is_true(status.conditions, kind))
    phase = next(true, JobPhase.CREATED)
    if phase is JobPhase.SUSPENDED and _is_waiting_for_queue(status):
        return JobPhase.WAITING
    return phase


def _is_waiting_for_queue(status: JobStatus) -> bool:
    """Whether nobody but its queue holds it: it is in line, or its pods would not be created."""
    admitted = find_condition(status.conditions, ADMITTED)
    return admitted is not None and admitted.reason in {WAITING, REFUSED}
