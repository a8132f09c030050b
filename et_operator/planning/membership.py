"""Which workers should exist, which are leaving, and which are lost.

The roster of a job is its live workers that are not leaving, plus the names that were decided and
whose pods are yet to come. Every rule here moves the roster towards `decided_replicas`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from et_operator.model.jobs import (
    Backoff,
    Leaving,
    ScalingRecord,
    WorkerId,
    WorkerOutcome,
    WorkerRecord,
    WorkerState,
)
from et_operator.model.names import build_worker_name
from et_operator.model.pods import Pod
from et_operator.model.resources import PODS
from et_operator.planning.drafts import GOOD_TIME, Draft, count_failure, is_waiting
from et_operator.planning.finishing import fail, is_suspended
from et_operator.planning.launching import BLAMED
from et_operator.planning.leaving import FORCED, leave
from et_operator.planning.views import is_disrupted
from launcher.documents import MemberState

SAME_EVENT = timedelta(seconds=1)
EARLY_LIMIT = 10
"""Workers in a row that may end before they ever said HELLO."""
REMEMBERED = timedelta(seconds=60)
"""How long the end of a worker whose pod is gone stays known, at least."""


def note_workers(draft: Draft) -> None:
    """Take in what became of the workers: born, lost, or deleted by somebody."""
    _note_births(draft)
    _forget_joined(draft)
    for uid, name in _select_ended(draft):
        _note_end(draft, name, uid)
    for pod in draft.view.workers:
        if pod.is_deleting and not draft.view.is_gone(pod):
            _note_deletion(draft, pod)
    for member in draft.view.members.values():
        if member.state is MemberState.DRAINING and not draft.view.is_uid_gone(member.uid):
            leave(draft, member.name, member.uid, "Draining")


def check_early_losses(draft: Draft) -> bool:
    """Give the job up when no worker comes to life; whether that was so.

    Judged at each further loss. A job that trains is not given up: one bad node can end every
    replacement, and the workers that the job has are worth more than those that it misses.
    """
    message = describe_early_losses(draft)
    is_news = draft.status.early_losses != draft.view.status.early_losses
    if not message or not is_news or draft.view.is_training:
        return False
    fail(draft, "WorkersFailing", message)
    return True


def describe_early_losses(draft: Draft) -> str:
    """That too many workers in a row ended before they could be used, and how; "" if not so."""
    losses = draft.status.early_losses
    if losses is None or losses.count < EARLY_LIMIT or _has_worker_listed_since(draft, losses):
        return ""
    ended = draft.select_records(WorkerState.GONE)
    last = max(ended, key=lambda r: r.since or draft.now, default=None)
    detail = f"; the last one, {last.name}: {last.reason}" if last else ""
    return f"{EARLY_LIMIT} or more workers in a row ended before they could be used{detail}"


def keep_roster(draft: Draft) -> None:
    """Decide names for the workers that are missing; let surplus ones leave."""
    _avoid_taken_names(draft)
    unborn = draft.select_unborn()
    missing = (draft.status.decided_replicas or 0) - len(draft.select_roster()) - len(unborn)
    if missing > 0 and not is_waiting(draft, draft.status.worker_backoff):
        names = reserve_names(draft, missing)
        _replace_added(draft, names)
        if draft.view.status.epoch:  # those of the first start are no news
            draft.rest_on(PODS, "")
            draft.tell("WorkersAdded", f"creating {', '.join(names)} for workers that are missing")
    for record in unborn[missing:] if missing < 0 else ():
        draft.forget(record.name)
    surplus = -missing - len(unborn)
    if surplus > 0:
        for pod in rank_victims(draft)[:surplus]:
            leave(draft, pod.name, pod.uid, "Surplus")


def reserve_names(draft: Draft, count: int) -> tuple[str, ...]:
    """Record names that no worker of this job has had; their pods are created in a later pass."""
    seen = max((pod.index or 0 for pod in draft.view.workers), default=-1)
    index = max(draft.status.last_worker_index, seen)
    job = draft.view.job.key.name
    names: list[str] = []
    while len(names) < count:
        index += 1
        name = build_worker_name(job, index)
        if name not in draft.view.snapshot.taken:
            names.append(name)
            draft.remember(WorkerRecord(name, "", WorkerState.JOINING, since=draft.now))
    draft.change(last_worker_index=index)
    return tuple(names)


def rank_victims(draft: Draft) -> list[Pod]:
    """The roster, best victims first."""
    return sorted(draft.select_roster(), key=lambda pod: _rank(draft, pod))


def explain_victim(draft: Draft, pod: Pod) -> str:
    """Why this worker and not another."""
    if not pod.is_container_running:
        return f"{pod.name}: not running"
    if draft.view.has_notice(pod):
        return f"{pod.name}: its node {pod.node} is cordoned or going away"
    if pod.deletion_cost:
        return f"{pod.name}: pod-deletion-cost {pod.deletion_cost}"
    return f"{pod.name}: among the newest"


def forget_old_ends(draft: Draft) -> None:
    """Drop what nobody needs to know any more; done only when the config is written anyway."""
    for record in draft.select_records(WorkerState.GONE):
        kept = BLAMED if record.taken else REMEMBERED
        is_old = record.since is None or draft.now - record.since > kept
        if is_old and record.uid not in draft.view.pods and not draft.view.is_held(record.uid):
            draft.forget(record.name)


def _rank(draft: Draft, pod: Pod) -> tuple[bool, bool, int, float, int]:
    is_late = draft.view.has_notice(pod)
    return (
        pod.is_container_running,
        not is_late,
        pod.deletion_cost,
        -pod.created.timestamp(),
        -(pod.index or 0),
    )


def _note_births(draft: Draft) -> None:
    for record in draft.select_unborn():
        pod = draft.view.names.get(record.name)
        if pod is not None:
            draft.remember(replace(record, uid=pod.uid))
            _name_added(draft, record.name, WorkerId(pod.name, pod.uid))


def _forget_joined(draft: Draft) -> None:
    """A member's joining is over, also where it came to run between number and config."""
    for record in draft.select_records(WorkerState.JOINING):
        member = draft.view.members.get(record.uid)
        if member is not None and member.state is MemberState.ACTIVE:
            draft.forget(record.name)


def _select_ended(draft: Draft) -> Iterator[tuple[str, str]]:
    """(uid, name) of every worker that has ended and is not known to have."""
    view = draft.view
    known = {r.uid for r in draft.select_records(WorkerState.GONE)}
    tracked = {m.uid: m.name for m in view.members.values() if m.state is not MemberState.GONE}
    tracked |= {r.uid: r.name for r in draft.status.workers if r.uid}
    tracked |= {p.uid: p.name for p in view.workers}
    return ((u, n) for u, n in tracked.items() if u not in known and view.is_uid_gone(u))


def _note_end(draft: Draft, name: str, uid: str) -> None:
    record, pod = draft.find_record(name), draft.view.pods.get(uid)
    if pod is None:
        draft.rest_on(PODS, name)
    reason = _describe_end(pod)
    taken = pod is None or pod.termination is None or is_disrupted(pod)
    if record is not None and record.state is WorkerState.LEAVING:
        taken = record.taken
        _note_outcome(draft, record, reason)
    elif not is_suspended(draft.view.status):  # what suspension ended is no loss
        _count_loss(draft, name, uid, pod, reason)
    if pod is None and not draft.view.is_held(uid):
        draft.forget(name)
    else:
        draft.remember(WorkerRecord(name, uid, WorkerState.GONE, reason, draft.now, taken=taken))


def _count_loss(draft: Draft, name: str, uid: str, pod: Pod | None, reason: str) -> None:
    _count_wait(draft)
    draft.tell("WorkerLost", f"worker {name} ended: {reason}", is_warning=True)
    if pod is not None and not is_disrupted(pod) and uid not in draft.view.listed:
        draft.change(early_losses=_count_early_loss(draft))


def _count_wait(draft: Draft) -> None:
    """Replacements wait longer after each loss; losses within a second have one cause."""
    old = draft.status.worker_backoff
    if old is None or draft.now - old.at >= SAME_EVENT:
        draft.change(worker_backoff=count_failure(old, draft.now))


def _count_early_loss(draft: Draft) -> Backoff:
    old = draft.status.early_losses
    if old is None or draft.now - old.at >= GOOD_TIME or _has_worker_listed_since(draft, old):
        return Backoff(1, draft.now)
    return Backoff(old.count + 1, draft.now)


def _has_worker_listed_since(draft: Draft, losses: Backoff) -> bool:
    live = draft.view.select_live_workers()
    return any(p.uid in draft.view.listed and p.created >= losses.at for p in live)


def _note_deletion(draft: Draft, pod: Pod) -> None:
    record = draft.find_record(pod.name)
    if record is not None and record.state is not WorkerState.JOINING:
        return
    leave(draft, pod.name, pod.uid, "Deleted", taken=True)
    if is_suspended(draft.view.status):
        return
    _count_wait(draft)
    why = f" ({pod.disruption_reason})" if pod.disruption_reason else ""
    message = f"somebody deletes worker {pod.name}{why}: it leaves the host list and is replaced"
    draft.tell("WorkerLeaving", message)


def _note_outcome(draft: Draft, record: WorkerRecord, reason: str) -> None:
    scaling = draft.status.scaling
    if scaling is None or not any(v.uid == record.uid for v in scaling.victims):
        return
    seconds = (draft.now - (record.since or scaling.started)).total_seconds()
    outcome = WorkerOutcome(
        record.name, record.uid, _judge_leaving(draft, record), round(seconds, 3), reason
    )
    draft.change(scaling=replace(scaling, workers=(*scaling.workers, outcome)))


def _judge_leaving(draft: Draft, record: WorkerRecord) -> Leaving:
    if record.reason == FORCED:
        return Leaving.FORCED
    has_no_process = record.generation is None or record.uid in draft.view.closed
    if has_no_process or not draft.view.can_command_run:
        return Leaving.GRACEFUL
    return Leaving.GONE


def _describe_end(pod: Pod | None) -> str:
    if pod is None:
        return "its pod was deleted"
    why = pod.disruption_reason or pod.pod_reason
    if why:
        return f"{why} {pod.pod_message}".strip()
    if pod.termination is None:
        return f"its node {pod.node} was lost" if pod.is_deleting else "its pod ended"
    end = pod.termination
    return f"exit code {end.exit_code} {end.reason} {end.message}".strip()


def _avoid_taken_names(draft: Draft) -> None:
    taken = [r for r in draft.select_unborn() if r.name in draft.view.snapshot.taken]
    for record in taken:
        draft.forget(record.name)
    _replace_added(draft, reserve_names(draft, len(taken)) if taken else ())


def _replace_added(draft: Draft, names: tuple[str, ...]) -> None:
    """A replacement takes the place of an added worker that did not live."""
    alive = {pod.name for pod in draft.select_roster()} | {r.name for r in draft.select_unborn()}
    for name in names:
        scaling = draft.status.scaling
        added = scaling.added if scaling and scaling.outcome is None else ()
        lost = next((w for w in added if w.name not in alive), None)
        if lost is not None:
            _name_added(draft, lost.name, WorkerId(name))


def _name_added(draft: Draft, name: str, worker: WorkerId) -> None:
    scaling: ScalingRecord | None = draft.status.scaling
    if scaling is None or all(w.name != name for w in scaling.added):
        return
    added = tuple(worker if w.name == name else w for w in scaling.added)
    draft.change(scaling=replace(scaling, added=added))
