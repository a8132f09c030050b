"""One scaling at a time: how it starts, what it changes, when it has ended.

The only place that begins a scaling. Each step is recorded in the draft and nothing is deleted or
created here: leaving.py and creating.py act on what was stored.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from et_operator.model.commands import explain_surplus
from et_operator.model.scalings import Scaling
from et_operator.model.statuses import Outcome, ScalingKind, ScalingRecord, WorkerId, WorkerState
from et_operator.model.texts import MAX_MESSAGE, count, cut
from et_operator.planning.admitting import awaits_room, count_allowed, is_queued
from et_operator.planning.concluding import (
    MOST_UNTOLD,
    check_obstacle,
    forget_told,
    get_scaling_resource,
    put_away,
)
from et_operator.planning.drafts import Draft
from et_operator.planning.holding import await_state
from et_operator.planning.leaving import leave
from et_operator.planning.naming import reserve_names
from et_operator.planning.ranking import explain_victim, rank_victims
from et_operator.planning.replicas import (
    find_due_number,
    find_number,
    find_refusal_since,
    is_applied,
    is_superseded,
)
from et_operator.planning.scripting import TIMED_OUT, advance_script, has_failed_for_good
from et_operator.planning.standings import Standing
from et_operator.planning.stopping import (
    PREEMPTED,
    SUPERSEDED,
    end_scaling,
    name_number,
    name_scaling,
    stop_scaling,
)
from et_operator.planning.turns import (
    describe_too_few,
    find_base,
    find_bound,
    find_next,
    find_refusal,
    find_target,
    is_fixed,
    is_part_admitted,
)
from et_operator.planning.views import View

RESIZES = 3
"""So many of the times that a job took to grow are kept."""
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
    elif (stop := _check_stop(draft, scaling)) is not None:
        stop_scaling(draft, *stop)
    elif awaits_room(draft.view.job, scaling):
        _grow_once_admitted(draft, scaling)
    else:
        _follow(draft, scaling)


def put_away_scaling(draft: Draft) -> None:
    """For a job that has ended: nothing is started any more."""
    forget_told(draft)
    scaling = draft.status.scaling
    if scaling is not None and scaling.outcome is not None:
        _put_away(draft, scaling)


def _start_next(draft: Draft) -> None:
    decided, wanted = draft.status.decided_replicas, draft.spec.worker.replicas
    base = find_base(draft)
    if decided is None or base is None:
        return
    if wanted != decided and not is_fixed(draft):
        kind = ScalingKind.QUEUE if is_queued(draft.view.job) else ScalingKind.REPLICAS
        _start(draft, ScalingRecord(kind, "", "", decided, wanted, draft.now))
        return
    scaling = find_next(draft.view)
    if scaling is None or not scaling.is_accepted or len(draft.status.untold) >= MOST_UNTOLD:
        return  # who may not write to it cannot tell its end
    if scaling.kind is ScalingKind.OUT and is_part_admitted(draft.view):
        return  # as behind any other growth that goes on
    if find_refusal(draft, scaling, base) is not None:
        return  # its refusal is written to its own status, and then the next one has its turn
    if await_state(draft, scaling):
        return
    target = find_target(scaling, base)
    draft.rest_on(get_scaling_resource(scaling.kind), scaling.name)
    record = ScalingRecord(scaling.kind, scaling.name, scaling.uid, base, target, draft.now)
    _start(draft, record, scaling.pod_names)


def _start(draft: Draft, record: ScalingRecord, names: tuple[str, ...] = ()) -> None:
    """Record the decision whole: who leaves and why, or what those who join are called."""
    is_later = awaits_room(draft.view.job, record)
    number = record.base if is_later else record.target
    draft.change(decided_replicas=count_allowed(draft.view.job, number))
    if draft.status.is_suspended or is_later:
        draft.change(scaling=record)
    elif record.target > record.base:
        added = reserve_names(draft, record.target - record.base)
        draft.change(scaling=replace(record, added=tuple(WorkerId(name) for name in added)))
    else:
        _start_leaving(draft, record, names)
    choice = draft.status.scaling.choice if draft.status.scaling else ""
    why = f" ({choice})" if choice else ""
    draft.tell("Scaling", f"{name_scaling(record)}: {record.base} -> {record.target} workers{why}")
    surplus = explain_surplus(draft.spec, record.target)
    if surplus and record.target > record.base and not draft.view.is_launcher_outdated:
        draft.tell("CommandWarning", surplus, is_warning=True)


def _grow_once_admitted(draft: Draft, scaling: ScalingRecord) -> None:
    """A ScaleOut's time, too, begins when et-scheduler lets the job have its workers."""
    if draft.spec.worker.replicas != scaling.target:
        return
    names = reserve_names(draft, scaling.target - scaling.base)
    begun = replace(scaling, added=tuple(map(WorkerId, names)), started=draft.now)
    draft.change(scaling=begun, decided_replicas=scaling.target)
    draft.tell("Scaling", f"{name_scaling(scaling)}: its {len(names)} workers may come now")


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


def _is_outgrown(standing: Standing, scaling: ScalingRecord) -> bool:
    """Whether a growth is to go further: what is starting for it is not thrown away."""
    is_growth = scaling.kind.is_number and scaling.target > scaling.base
    is_raised = standing.spec.worker.replicas > scaling.target
    return is_growth and is_raised and not standing.status.is_suspended


def _extend(draft: Draft, scaling: ScalingRecord) -> None:
    number = draft.spec.worker.replicas
    names = reserve_names(draft, number - scaling.target)
    added = (*scaling.added, *map(WorkerId, names))
    draft.change(scaling=replace(scaling, target=number, added=added), decided_replicas=number)
    message = f"{name_number(scaling)} was raised again: {scaling.base} -> {number} workers"
    draft.tell("Scaling", message)


def _check_stop(draft: Draft, scaling: ScalingRecord) -> tuple[str, str] | None:
    """Why the current scaling must be stopped (reason, message); None if it goes on."""
    if is_superseded(draft.view, scaling):
        number = find_number(draft.view, scaling)
        return SUPERSEDED, f"{name_number(scaling)} became {number} meanwhile"
    if scaling.kind is ScalingKind.QUEUE:
        return None  # et-scheduler says another number, or waits as well
    stop = None if scaling.kind.is_number else _check_wish(draft, scaling)
    stop = stop or _find_lack(draft, scaling)
    return stop or _check_preemption(draft, scaling) or check_obstacle(draft, scaling)


def _check_wish(draft: Draft, scaling: ScalingRecord) -> tuple[str, str] | None:
    """Why what a ScaleIn or ScaleOut asked for is not gone on with."""
    live = draft.view.find_scaling(scaling)
    if live is None:
        draft.rest_on(get_scaling_resource(scaling.kind), scaling.name)
    if live is None or live.deletion_requested:
        return "Cancelled", "it was deleted before it had ended"
    if (bar := _find_bar(draft.view, scaling)) is not None:
        return bar
    if (late := _check_lateness(draft, scaling, live)) is not None:
        return late
    if has_failed_for_good(scaling, live):
        return "ScriptFailed", _describe_script(scaling)
    return None


def _find_lack(standing: Standing, scaling: ScalingRecord) -> tuple[str, str] | None:
    """That et-scheduler, which had let the job have these workers, does not any more.

    Or those from which a ScaleOut that waits has counted.
    """
    number, is_later = standing.spec.worker.replicas, awaits_room(standing.view.job, scaling)
    had = scaling.base if is_later else scaling.target
    if scaling.target < scaling.base or number >= had or not is_applied(standing.view, scaling):
        return None
    return "NotAdmitted", f"et-scheduler lets the job have {number} workers, and no more"


def _find_bar(view: View, scaling: ScalingRecord) -> tuple[str, str] | None:
    """What keeps its number out of the spec, where it is not written yet."""
    if is_applied(view, scaling):
        return None
    words = find_refusal_since(view, scaling)
    if words:
        return "Refused", f"the API server refuses {scaling.target} replicas: {words}"
    return find_bound(view.asked.worker, scaling.target)


def _check_lateness(draft: Draft, scaling: ScalingRecord, live: Scaling) -> tuple[str, str] | None:
    """A ScaleOut whose hosts are not listed in time; a ScaleIn has the job's drain time-out."""
    if live.timeout is None or not scaling.added or _are_added_listed(draft.view, scaling):
        return None
    if draft.wait_until(scaling.started + live.timeout):
        return None
    limit = live.timeout.total_seconds()
    return "TimedOut", f"its workers were not hosts within its timeout of {limit:.0f} s"


def _check_preemption(draft: Draft, scaling: ScalingRecord) -> tuple[str, str] | None:
    """A ScaleIn never waits behind workers that may never come."""
    rival, is_later = find_next(draft.view, ScalingKind.IN), awaits_room(draft.view.job, scaling)
    if not (scaling.added or is_later) or rival is None or not rival.is_accepted:
        return None
    pods = [draft.view.names.get(w.name) for w in scaling.added]
    is_waiting = is_later or any(pod is None or not pod.is_container_running for pod in pods)
    if not is_waiting and draft.wait_until(scaling.started + PATIENCE):
        return None
    joined = sum(pod is not None and pod.uid in draft.view.listed for pod in pods)
    is_kept = scaling.kind.is_number
    if find_refusal(draft, rival, scaling.target if is_kept else scaling.base + joined) is not None:
        return None
    return PREEMPTED, f"ScaleIn {rival.name} goes first, for these workers are not there yet"


def _follow(draft: Draft, scaling: ScalingRecord) -> None:
    number = find_number(draft.view, scaling)
    if number != scaling.target or not is_applied(draft.view, scaling):
        return
    if draft.status.is_suspended:
        _succeed(draft, f"{scaling.target} workers from the next start on")
        return
    live = draft.view.find_scaling(scaling)
    if scaling.target < scaling.base:
        are_gone = not _select_leaving(draft, scaling)
        is_due = are_gone or _are_victims_off_the_list(draft, scaling)
        advance_script(draft, scaling, live, is_due=is_due)
        if are_gone and draft.view.is_script_done(scaling):
            _succeed(draft, _describe_number(draft, scaling))
    elif _are_added_listed(draft.view, scaling):
        advance_script(draft, scaling, live, is_due=True)
        if draft.view.is_script_done(scaling):
            _succeed(draft, _describe_number(draft, scaling))


def _describe_number(draft: Draft, scaling: ScalingRecord) -> str:
    has, number = draft.status.decided_replicas, scaling.target
    there = f"the job has {count(has, 'worker')}"
    rest = "" if has == number else f"worker.replicas is {number}: it waits in line for the rest"
    return "; ".join(filter(None, (there, rest, describe_too_few(draft))))


def _succeed(draft: Draft, message: str) -> None:
    scaling = draft.status.scaling
    if scaling is not None and scaling.added:
        seconds = max(int((draft.now - scaling.started).total_seconds()), 0)
        draft.change(resize_seconds=(*draft.status.resize_seconds, seconds)[-RESIZES:])
    end_scaling(draft, Outcome(succeeded=True, reason="ScaleSucceeded", message=message))


def _put_away(draft: Draft, scaling: ScalingRecord) -> None:
    """First its end is recorded, then what the end does to the number is written."""
    if draft.view.status.scaling == scaling and find_due_number(draft.view) is None:
        put_away(draft, scaling)


def _select_leaving(standing: Standing, scaling: ScalingRecord) -> list[WorkerId]:
    leaving = {r.uid for r in standing.select_records(WorkerState.LEAVING)}
    return [v for v in scaling.victims if v.uid in leaving]


def _are_victims_off_the_list(standing: Standing, scaling: ScalingRecord) -> bool:
    """Whether horovodrun has read a list without them (those never listed need no reading)."""
    report = standing.view.report
    served = report.served_generation if report else -1
    records = [standing.find_record(v.name) for v in scaling.victims]
    generations = [r.generation for r in records if r is not None and r.generation is not None]
    return all(served >= generation for generation in generations)


def _are_added_listed(view: View, scaling: ScalingRecord) -> bool:
    pods = [view.names.get(w.name) for w in scaling.added]
    return all(pod is not None and pod.uid in view.listed for pod in pods)


def _describe_script(scaling: ScalingRecord) -> str:
    script = scaling.script
    if script is None:
        return ""
    times = "once" if script.number == 1 else f"{script.number} times"
    how = "by time-out" if script.code == TIMED_OUT else f"with exit code {script.code}"
    return f"the script failed {times}, the last time {how}"
