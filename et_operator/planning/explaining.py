"""What is told of waits: for what, since when, until when. One voice, in jobs and their scalings.

All times are absolute, and what is quick is not told: so nothing is written while nothing happens,
and no more than before where all goes well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from et_kube.resources import PODS
from et_operator.model.pods import Pod
from et_operator.model.scalings import Scaling
from et_operator.model.specs import LauncherCreation
from et_operator.model.statuses import ScalingKind, ScalingRecord, WorkerRecord, WorkerState
from et_operator.model.texts import count, cut, name_some, show_time
from et_operator.planning.admitting import awaits_room
from et_operator.planning.concluding import MOST_UNTOLD
from et_operator.planning.drafts import LONGEST_REFUSAL_WAIT, LONGEST_WAIT, Draft, find_pause
from et_operator.planning.holding import await_state
from et_operator.planning.leaving import FORCED
from et_operator.planning.replacing import find_spacing
from et_operator.planning.stopping import name_scaling
from et_operator.planning.troubles import MOST_WORDS, SLOW, Trouble, diagnose, tell_groups
from et_operator.planning.turns import is_part_admitted

Tell = Callable[[Trouble], str]
SLOW_START = timedelta(seconds=60)
"""A start without a trouble that takes longer is worth a word."""


def describe_scaling(draft: Draft, scaling: ScalingRecord) -> str:
    """How far it goes and, while it goes on, what it waits for.

    In a job that is only followed nothing goes on, and there may be no spec that could tell.
    """
    steps = f"{scaling.base} -> {count(scaling.target, 'worker')}"
    is_at_rest = draft.status.is_suspended or draft.view.is_only_followed
    if scaling.outcome is not None or is_at_rest:
        return steps
    if awaits_room(draft.view.job, scaling):
        return f"{steps}, once et-scheduler lets the job have as many"
    added = frozenset(worker.name for worker in scaling.added)
    victims = frozenset(victim.uid for victim in scaling.victims)
    leaving = [r for r in draft.select_records(WorkerState.LEAVING) if r.uid in victims]
    waits = [*_list_starts(draft, added, str), *_list_drains(draft, leaving)]
    waits += _list_script(draft, scaling)
    live = draft.view.find_scaling(scaling)
    if waits and added and live is not None and live.timeout is not None:
        waits.append(f"given up at {show_time(scaling.started + live.timeout)} (its timeout)")
    return f"{steps}; waits: {'; '.join(waits)}" if waits else steps


def describe_turns(draft: Draft, turns: Sequence[Scaling]) -> Mapping[str, str]:
    """For what each scaling that has not begun waits, by uid; whoever is missing is next.

    Each but the first is told who goes right before it: that stays as it is until its own turn is
    near, however many there are.
    """
    record, told = draft.status.scaling, {}
    begun = record.uid if record is not None else ""
    before = name_scaling(record) if record is not None else _explain_bar(draft, turns)
    for scaling in turns:
        if scaling.uid == begun:
            continue
        if before:
            told[scaling.uid] = f"waits for {before}"
        before = f"{scaling.kind.value} {scaling.name}"
    return told


def describe_waits(draft: Draft) -> str:
    """What a job waits for, but for its scaling: starts, drains, launchers, replacements."""
    scaling = draft.status.scaling
    if draft.status.is_suspended:
        return ""
    own = scaling if scaling is not None and scaling.outcome is None else None
    added = {worker.name for worker in own.added} if own else set()
    victims = {victim.uid for victim in own.victims} if own else set()
    roster = {pod.name for pod in draft.select_roster()}
    unborn = {record.name for record in draft.select_unborn()}
    drains = [r for r in draft.select_records(WorkerState.LEAVING) if r.uid not in victims]
    starts = _list_starts(draft, (roster | unborn) - added, _name)
    return "; ".join([*_list_launcher(draft), *starts, *_list_drains(draft, drains)])


def _name(trouble: Trouble) -> str:
    """Without the words of it, which a condition of its own has."""
    return trouble.reason


def _explain_bar(draft: Draft, turns: Sequence[Scaling]) -> str:
    """What the first one waits for that is no other scaling."""
    if draft.status.decided_replicas is None:
        return "the job's start"
    if len(draft.status.untold) >= MOST_UNTOLD:
        return "the ends of others, which the API server lets nobody write"
    if turns and await_state(draft, turns[0]):
        whose = "a worker that stays, on a node that is heard,"
        return f"{whose} to have the training's state, a minute after it is listed"
    is_held = bool(turns) and turns[0].kind is ScalingKind.OUT and is_part_admitted(draft.view)
    if not is_held:
        return ""
    asked, has = draft.view.asked.worker.replicas, draft.status.decided_replicas
    return (
        f"the {asked} workers that worker.replicas asks for, of which et-scheduler lets the job "
        f"have {has}: lower worker.replicas, or delete this {turns[0].kind.value}, to end the wait"
    )


def _list_launcher(draft: Draft) -> Iterator[str]:
    view, backoff = draft.view, draft.status.launch_backoff
    pod = view.pods.get(draft.status.launcher_uid)
    if pod is not None:
        if not pod.is_container_running and not pod.has_ended and not pod.is_deleting:
            yield from _list_pods(draft, [pod], _name)
        return
    if draft.status.launcher_uid:
        return
    if draft.spec.launcher_creation is LauncherCreation.WAIT_FOR_WORKERS_READY:
        running = sum(pod.is_container_running for pod in draft.select_roster())
        if running < draft.needed_workers:
            yield f"the launcher is created once {count(draft.needed_workers, 'worker')} run"
            return
    wait = timedelta(seconds=2 ** min(backoff.count - 1, 10)) if backoff is not None else None
    if backoff is not None and wait is not None:
        end = backoff.at + min(wait, LONGEST_WAIT)
        if end > draft.now:
            yield f"the next launcher is created at {show_time(end)}"


def _list_starts(draft: Draft, names: Collection[str], tell: Tell) -> Iterator[str]:
    """Of workers that are to come: who is not there, does not run, or is not listed."""
    if not names:
        return
    born = [draft.view.names[name] for name in names if name in draft.view.names]
    yield from _list_pods(draft, [p for p in born if p.uid not in draft.view.listed], tell)
    unborn = [record for record in draft.select_unborn() if record.name in names]
    yield from _list_unborn(draft, unborn)


def _list_unborn(draft: Draft, unborn: Sequence[WorkerRecord]) -> Iterator[str]:
    refusal = draft.view.snapshot.refusals.get(PODS)
    due: dict[datetime, list[str]] = {}
    for record in unborn:
        if record.since is not None:
            due.setdefault(record.since + find_spacing(record.retries), []).append(record.name)
    for moment, names in sorted(due.items()):
        if moment > draft.now:
            yield f"{name_some(sorted(names))}: created at {show_time(moment)}"
    if not unborn or refusal is None or refusal.generation != draft.view.job.generation:
        return
    if find_pause(refusal) > timedelta():
        who = name_some(sorted(record.name for record in unborn))
        words = cut(refusal.message, MOST_WORDS)
        most = int(LONGEST_REFUSAL_WAIT.total_seconds() // 60)
        # without the time of the next try, which would be news with each of them
        yield f"{who}: refused ({words}), tried again within {most} min each time"


def _list_pods(draft: Draft, pods: Sequence[Pod], tell: Tell) -> Iterator[str]:
    ordered = sorted(pods, key=lambda pod: (pod.index or 0, pod.name))
    told = [(pod.name, pod.created, why) for pod in ordered if (why := _explain(draft, pod, tell))]
    if told:
        yield tell_groups(told)


def _explain(draft: Draft, pod: Pod, tell: Tell) -> str:
    """Why this pod is not of use yet; "" where it may just need a moment."""
    trouble = diagnose(draft, pod)
    if trouble is not None:
        return tell(trouble)
    if pod.is_deleting or pod.has_ended or draft.wait_out(pod.created, SLOW_START):
        return ""
    if not pod.is_container_running:
        return pod.waiting_reason or "Pending"
    launcher = draft.view.launcher if draft.view.is_launcher_running else None
    if launcher is None or draft.wait_out(launcher.started, SLOW_START):
        return ""
    return "runs, and is on no list yet"


def _list_drains(draft: Draft, leaving: Sequence[WorkerRecord]) -> Iterator[str]:
    view = draft.view
    ends: dict[tuple[datetime, datetime], list[str]] = {}
    gone: dict[str, list[str]] = {}
    for record in leaving:
        pod = view.pods.get(record.uid)
        if pod is None or draft.wait_out(pod.deletion_requested or record.since, SLOW):
            continue
        if pod.is_deleting:
            end = f", until {show_time(pod.grace_end)} at the latest" if pod.grace_end else ""
            gone.setdefault(end, []).append(record.name)
        elif record.waiting_since and record.reason != FORCED and record.uid not in view.closed:
            forced = record.waiting_since + draft.spec.drain_timeout
            ends.setdefault((forced, record.waiting_since), []).append(record.name)
    for (forced, asked), names in sorted(ends.items()):
        yield (
            f"{name_some(sorted(names))}: asked at {show_time(asked)} to end their processes, as "
            f"Horovod does at the next commit; ended by force at {show_time(forced)} "
            "(drainTimeoutSeconds)"
        )
    for text, names in sorted(gone.items()):
        yield f"{name_some(sorted(names))}: their pods end{text}"


def _list_script(draft: Draft, scaling: ScalingRecord) -> Iterator[str]:
    script = scaling.script
    if script is None or draft.wait_out(script.started, SLOW):
        return
    if script.code is None:
        yield f"its script runs since {show_time(script.started)} (attempt {script.number})"
    elif script.code != 0 and script.next_at is not None and script.next_at > draft.now:
        again = show_time(script.next_at)
        yield f"its script ended with {script.code}, the next attempt is at {again}"
