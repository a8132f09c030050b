"""One scaling at a time: which is next, what it changes, when it has ended."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta

from et_contract.documents import MAX_WORKERS
from et_kube.resources import TRAINING_JOBS
from et_operator.model.actions import Action, Patch
from et_operator.model.jobs import (
    MANY_WORKERS,
    Outcome,
    ScalingKind,
    ScalingRecord,
    WorkerId,
    WorkerSpec,
    WorkerState,
)
from et_operator.model.names import ANNOTATION_APPLIED_SCALING
from et_operator.model.scalings import Scaling
from et_operator.model.texts import MAX_MESSAGE, cut
from et_operator.planning.concluding import (
    MOST_UNTOLD,
    find_obstacle,
    find_untold,
    forget_told,
    get_scaling_resource,
    needs_no_word,
    put_away,
)
from et_operator.planning.drafts import Draft
from et_operator.planning.finishing import is_suspended
from et_operator.planning.leaving import leave
from et_operator.planning.membership import explain_victim, rank_victims, reserve_names
from et_operator.planning.scripting import (
    TIMED_OUT,
    advance_script,
    find_script_refusal,
    has_failed_for_good,
    is_script_done,
)
from et_operator.planning.stopping import (
    PREEMPTED,
    SUPERSEDED,
    end_scaling,
    name_scaling,
    stop_scaling,
)
from et_operator.planning.views import View, has_passed

REFUSALS = 5
"""So often in a row, within about three seconds, a number of replicas is refused by a server that
means it: a webhook that restarts, or a right that has just been granted, refuses less often."""
PATIENCE = timedelta(seconds=60)
"""How long a ScaleIn waits for a ScaleOut whose workers run and only have to be listed."""


def advance_scaling(draft: Draft) -> None:
    """Start, follow, stop, end or put away the job's current scaling."""
    forget_told(draft)
    scaling = draft.status.scaling
    if scaling is None:
        _start_next(draft)
    elif scaling.outcome is not None:
        _put_away(draft, scaling)
    elif _is_outgrown(draft, scaling):
        _extend(draft, scaling)
    elif (stop := _find_stop(draft, scaling)) is not None:
        stop_scaling(draft, *stop)
    else:
        _follow(draft, scaling)


def put_away_scaling(draft: Draft) -> None:
    """For a job that has ended: nothing is started any more."""
    forget_told(draft)
    scaling = draft.status.scaling
    if scaling is not None and scaling.outcome is not None:
        _put_away(draft, scaling)


def write_replicas(view: View) -> list[Action]:
    """The one patch of `worker.replicas` with the annotation that says for whom, if it is due."""
    scaling, job = view.status.scaling, view.job
    number = _find_due_number(view)
    if scaling is None or number is None:
        return []
    body: dict[str, object] = {"spec": {"etReplicaSpecs": {"worker": {"replicas": number}}}}
    if scaling.kind is not ScalingKind.REPLICAS:
        body["metadata"] = {"annotations": {ANNOTATION_APPLIED_SCALING: scaling.uid}}
    return [Patch(job.key.ref, job.uid, body, job.resource_version)]


def find_refusal(draft: Draft, scaling: Scaling, base: int) -> tuple[str, str] | None:
    """Why this scaling cannot be started on a job of `base` workers; None if it can."""
    if scaling.invalid:
        return "InvalidSpec", scaling.invalid
    if draft.view.job.annotations.get(ANNOTATION_APPLIED_SCALING) == scaling.uid:
        return "RecordLost", "it was begun, and the job's record of it is lost: the number stays"
    if script := find_script_refusal(draft.spec, scaling):
        return "ScriptRefused", script
    if is_fixed(draft):
        return "NotElastic", f"{_describe_fixed(draft)}; suspend it, scale it, and resume it"
    names = {pod.name for pod in draft.select_roster()}
    unknown = [name for name in scaling.pod_names if name not in names]
    if unknown:
        return "UnknownPods", f"not workers of this job, or leaving already: {', '.join(unknown)}"
    return _find_bound(draft.spec.worker, _find_target(scaling, base))


def is_fixed(draft: Draft) -> bool:
    """Whether the number of workers can only change between two launchers."""
    has_launcher = bool(draft.status.launcher_uid) and not is_suspended(draft.status)
    return has_launcher and not draft.view.is_elastic


def describe_held_number(draft: Draft) -> str:
    """That the spec's number of workers is not met now, and why; "" where it is."""
    wanted, decided = draft.spec.worker.replicas, draft.status.decided_replicas
    if decided in {None, wanted} or draft.status.scaling is not None or not is_fixed(draft):
        return ""
    now = f"worker.replicas is {wanted}, and {decided} take part"
    return f"{now}: {_describe_fixed(draft)}; suspend and resume it, and the new number holds"


def _describe_fixed(draft: Draft) -> str:
    what = "the launcher that runs" if draft.spec.is_elastic else draft.spec.launcher
    return f"{what} starts all its processes at once: no worker joins or leaves then"


def find_next(view: View, kind: ScalingKind | None = None) -> Scaling | None:
    """The oldest scaling (of this kind) that has not ended.

    One that could not be written to yet comes last: it is not begun before (see _start_next).
    """
    waiting = (s for s in view.snapshot.scalings if kind in {None, s.kind})
    waiting = (s for s in waiting if is_waiting_for_turn(view, s))
    return min(waiting, key=_find_place, default=None)


def list_turns(view: View) -> deque[Scaling]:
    """All that have not ended, in the order in which find_next gives them."""
    waiting = (s for s in view.snapshot.scalings if is_waiting_for_turn(view, s))
    return deque(sorted(waiting, key=_find_place))


def _find_place(scaling: Scaling) -> tuple[bool, tuple[datetime, int, str]]:
    return not scaling.is_accepted, scaling.order


def is_waiting_for_turn(view: View, scaling: Scaling) -> bool:
    """Whether it may still be started: not ended, not being deleted, meant for this very job."""
    is_over = needs_no_word(scaling) or find_untold(view, scaling) is not None
    return not is_over and not scaling.is_of_other(view.job.uid)


def _start_next(draft: Draft) -> None:
    base, wanted = draft.status.decided_replicas, draft.spec.worker.replicas
    if base is None:
        return
    if wanted != base and not is_fixed(draft):
        _start(draft, ScalingRecord(ScalingKind.REPLICAS, "", "", base, wanted, draft.now))
        return
    scaling = find_next(draft.view)
    if scaling is None or not scaling.is_accepted or len(draft.status.untold) >= MOST_UNTOLD:
        return  # who may not write to it cannot tell its end
    if find_refusal(draft, scaling, base) is not None:
        return  # its refusal is written to its own status, and then the next one has its turn
    target = _find_target(scaling, base)
    draft.rest_on(get_scaling_resource(scaling.kind), scaling.name)
    record = ScalingRecord(scaling.kind, scaling.name, scaling.uid, base, target, draft.now)
    _start(draft, record, scaling.pod_names)


def _start(draft: Draft, record: ScalingRecord, names: tuple[str, ...] = ()) -> None:
    """Record the decision whole: who leaves and why, or what those who join are called."""
    draft.change(decided_replicas=record.target)
    if is_suspended(draft.status):
        draft.change(scaling=record)
    elif record.target > record.base:
        added = reserve_names(draft, record.target - record.base)
        draft.change(scaling=replace(record, added=tuple(WorkerId(name) for name in added)))
    else:
        _start_leaving(draft, record, names)
    choice = draft.status.scaling.choice if draft.status.scaling else ""
    why = f" ({choice})" if choice else ""
    draft.tell("Scaling", f"{name_scaling(record)}: {record.base} -> {record.target} workers{why}")


def _start_leaving(draft: Draft, record: ScalingRecord, names: tuple[str, ...]) -> None:
    ranked = rank_victims(draft)
    if names:
        named = frozenset(names)
        victims = [pod for pod in ranked if pod.name in named]
        choice = "named by podNames"
    else:
        missing = max(record.base - len(ranked), 0)  # those who are yet to come go first
        victims = ranked[: max(record.base - record.target - missing, 0)]
        choice = "; ".join(explain_victim(draft, pod) for pod in victims)
    draft.change(
        scaling=replace(
            record,
            victims=tuple(WorkerId(pod.name, pod.uid) for pod in victims),
            choice=cut(choice, MAX_MESSAGE),
        )
    )
    for pod in victims:
        leave(draft, pod.name, pod.uid, record.kind.value)


def _is_outgrown(draft: Draft, scaling: ScalingRecord) -> bool:
    """Whether a growth is to go further: what is starting for it is not thrown away."""
    is_growth = scaling.kind is ScalingKind.REPLICAS and scaling.target > scaling.base
    is_raised = draft.spec.worker.replicas > scaling.target
    return is_growth and is_raised and not is_suspended(draft.status)


def _extend(draft: Draft, scaling: ScalingRecord) -> None:
    number = draft.spec.worker.replicas
    names = reserve_names(draft, number - scaling.target)
    added = (*scaling.added, *map(WorkerId, names))
    draft.change(scaling=replace(scaling, target=number, added=added), decided_replicas=number)
    message = f"worker.replicas was raised again: {scaling.base} -> {number} workers"
    draft.tell("Scaling", message)


def _find_stop(draft: Draft, scaling: ScalingRecord) -> tuple[str, str] | None:
    """Why the current scaling must be stopped (reason, message); None if it goes on."""
    view = draft.view
    if _is_superseded(view, scaling):
        number = draft.spec.worker.replicas
        return SUPERSEDED, f"somebody set worker.replicas to {number} meanwhile"
    if scaling.kind is not ScalingKind.REPLICAS:
        live = view.find_scaling(scaling)
        if live is None:
            draft.rest_on(get_scaling_resource(scaling.kind), scaling.name)
        if live is None or live.deletion_requested:
            return "Cancelled", "it was deleted before it had ended"
        if (bar := _find_bar(view, scaling)) is not None:
            return bar
        if (late := _find_lateness(draft, scaling, live)) is not None:
            return late
        if has_failed_for_good(scaling, live):
            return "ScriptFailed", _describe_script(scaling)
    return _find_preemption(draft, scaling) or find_obstacle(draft, scaling)


def _find_bar(view: View, scaling: ScalingRecord) -> tuple[str, str] | None:
    """What keeps its number out of the spec, where it is not written yet."""
    if _is_applied(view, scaling):
        return None
    words = _find_refusal_since(view, scaling)
    if words:
        return "Refused", f"the API server refuses {scaling.target} replicas: {words}"
    return _find_bound(view.spec.worker, scaling.target)


def _find_lateness(draft: Draft, scaling: ScalingRecord, live: Scaling) -> tuple[str, str] | None:
    """A ScaleOut whose hosts are not listed in time; a ScaleIn has the job's drain time-out."""
    if live.timeout is None or not scaling.added or _are_added_listed(draft, scaling):
        return None
    if has_passed(draft.now, scaling.started, live.timeout):
        limit = live.timeout.total_seconds()
        return "TimedOut", f"its workers were not hosts within its timeout of {limit:.0f} s"
    draft.wake_at(scaling.started + live.timeout)
    return None


def _find_preemption(draft: Draft, scaling: ScalingRecord) -> tuple[str, str] | None:
    """A ScaleIn never waits behind workers that may never come."""
    rival = find_next(draft.view, ScalingKind.IN)
    if not scaling.added or rival is None or not rival.is_accepted:
        return None
    pods = [draft.view.names.get(w.name) for w in scaling.added]
    is_waiting = any(pod is None or not pod.is_container_running for pod in pods)
    if not is_waiting and draft.now < scaling.started + PATIENCE:
        draft.wake_at(scaling.started + PATIENCE)
        return None
    joined = sum(pod is not None and pod.uid in draft.view.listed for pod in pods)
    is_kept = scaling.kind is ScalingKind.REPLICAS
    if find_refusal(draft, rival, scaling.target if is_kept else scaling.base + joined) is not None:
        return None
    return PREEMPTED, f"ScaleIn {rival.name} goes first, for these workers are not there yet"


def _follow(draft: Draft, scaling: ScalingRecord) -> None:
    if draft.spec.worker.replicas != scaling.target or not _is_applied(draft.view, scaling):
        return
    if is_suspended(draft.status):
        _succeed(draft, f"{scaling.target} workers from the next start on")
        return
    live = draft.view.find_scaling(scaling)
    if scaling.target < scaling.base:
        are_gone = not _select_leaving(draft, scaling)
        is_due = are_gone or _are_victims_off_the_list(draft, scaling)
        advance_script(draft, scaling, live, is_due=is_due)
        if are_gone and is_script_done(scaling, live):
            _succeed(draft, f"the job has {scaling.target} workers")
    elif _are_added_listed(draft, scaling):
        advance_script(draft, scaling, live, is_due=True)
        if is_script_done(scaling, live):
            _succeed(draft, f"the job has {scaling.target} workers")


def _succeed(draft: Draft, message: str) -> None:
    end_scaling(draft, Outcome(succeeded=True, reason="ScaleSucceeded", message=message))


def _put_away(draft: Draft, scaling: ScalingRecord) -> None:
    """First its end is recorded, then what the end does to the number is written."""
    if draft.view.status.scaling == scaling and _find_due_number(draft.view) is None:
        put_away(draft, scaling)


def _find_target(scaling: Scaling, base: int) -> int:
    amount = len(set(scaling.pod_names)) or scaling.count or 0
    return base - amount if scaling.kind is ScalingKind.IN else base + amount


def _find_bound(worker: WorkerSpec, number: int) -> tuple[str, str] | None:
    """The bound that so many workers would break; None if they may be."""
    least, most = worker.min_replicas, worker.max_replicas
    if number > MAX_WORKERS:
        return "AboveMax", f"{number} workers: {MANY_WORKERS}"
    if most is not None and number > most:
        return "AboveMax", f"{number} workers would be more than maxReplicas {most}"
    if number >= (least or 1):
        return None
    bound = f"minReplicas {least}" if least else "1, as minReplicas is not given"
    return "BelowMin", f"{number} workers would be fewer than {bound}"


def _is_applied(view: View, scaling: ScalingRecord) -> bool:
    """Whether the number in the spec is this scaling's own doing."""
    if scaling.kind is ScalingKind.REPLICAS:
        return True
    return view.job.annotations.get(ANNOTATION_APPLIED_SCALING) == scaling.uid


def _is_superseded(view: View, scaling: ScalingRecord) -> bool:
    number = view.job.spec.worker.replicas if view.job.spec else scaling.base
    expected = scaling.target if _is_applied(view, scaling) else scaling.base
    return number != expected


def _find_due_number(view: View) -> int | None:
    """What `worker.replicas` must become; None: it is as it must be.

    Only the number that this scaling itself found or wrote is replaced: the newest number wins.
    """
    scaling, spec = view.status.scaling, view.job.spec
    if scaling is None or spec is None:
        return None
    current, is_applied = spec.worker.replicas, _is_applied(view, scaling)
    if current != (scaling.target if is_applied else scaling.base):
        return None
    if scaling.outcome is None:
        return None if is_applied else scaling.target
    final = scaling.final
    if final is None or final == current or _find_bound(spec.worker, final) is not None:
        return None
    return None if _find_refusal_since(view, scaling) else final  # what the spec says is met then


def _find_refusal_since(view: View, scaling: ScalingRecord) -> str:
    """The server's words, if it refuses this scaling's number again and again."""
    refusal = view.snapshot.refusals.get(TRAINING_JOBS)
    if refusal is None or not refusal.is_meant:
        return ""
    if refusal.at < scaling.started or refusal.count < REFUSALS:
        return ""
    return refusal.message


def _select_leaving(draft: Draft, scaling: ScalingRecord) -> list[WorkerId]:
    leaving = {r.uid for r in draft.select_records(WorkerState.LEAVING)}
    return [v for v in scaling.victims if v.uid in leaving]


def _are_victims_off_the_list(draft: Draft, scaling: ScalingRecord) -> bool:
    """Whether horovodrun has read a list without them (those never listed need no reading)."""
    report = draft.view.report
    served = report.served_generation if report else -1
    records = [draft.find_record(v.name) for v in scaling.victims]
    generations = [r.generation for r in records if r is not None and r.generation is not None]
    return all(served >= generation for generation in generations)


def _are_added_listed(draft: Draft, scaling: ScalingRecord) -> bool:
    pods = [draft.view.names.get(w.name) for w in scaling.added]
    return all(pod is not None and pod.uid in draft.view.listed for pod in pods)


def _describe_script(scaling: ScalingRecord) -> str:
    script = scaling.script
    if script is None:
        return ""
    times = "once" if script.number == 1 else f"{script.number} times"
    how = "by time-out" if script.code == TIMED_OUT else f"with exit code {script.code}"
    return f"the script failed {times}, the last time {how}"
