"""Which workers should exist, which are leaving, and which are lost.

The roster of a job is its live workers that are not leaving, plus the names that were decided and
whose pods are yet to come. Every rule here moves the roster towards `decided_replicas`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from et_contract.documents import MemberState
from et_kube.resources import PODS
from et_operator.model.pods import Pod
from et_operator.model.statuses import (
    Leaving,
    ScalingRecord,
    WorkerId,
    WorkerOutcome,
    WorkerRecord,
    WorkerState,
)
from et_operator.model.texts import MAX_REASON, cut, find_reason_limit, keep_end, name_some
from et_operator.planning.displacing import dismiss_displaced
from et_operator.planning.drafts import Draft
from et_operator.planning.excusing import is_ours, list_tracked, was_taken
from et_operator.planning.exhausting import dismiss_used_up
from et_operator.planning.forgetting import forget_many_ends
from et_operator.planning.holding import note_listings
from et_operator.planning.leaving import FORCED, leave
from et_operator.planning.naming import reserve_names
from et_operator.planning.noticing import dismiss_noticed, note_drain, note_notices
from et_operator.planning.pairing import avoid_taken_names, place_successors
from et_operator.planning.ranking import rank_victims
from et_operator.planning.recovering import note_losses
from et_operator.planning.renewing import dismiss_outdated, renew_workers
from et_operator.planning.replacing import Cause, Vacancy, find_spacing, judge_loss
from et_operator.planning.standings import Standing
from et_operator.planning.views import View

SOON = timedelta(seconds=1)
"""A wait that is shorter is not worth a word."""


def note_workers(draft: Draft) -> list[Vacancy]:
    """Take in what became of the workers: born, lost, or deleted by somebody.

    Returns the places of those that are to be replaced.
    """
    _note_births(draft)
    _forget_joined(draft)
    _dismiss_found(draft)
    ends = [_note_end(draft, name, uid) for uid, name in tuple(_select_ended(draft))]
    _note_outcomes(draft, [end for end in ends if isinstance(end, WorkerOutcome)])
    vacancies = [end for end in ends if isinstance(end, Vacancy)]
    _tell_losses(draft, vacancies)
    forget_many_ends(draft)
    for pod in draft.view.workers:
        if pod.is_deleting and not draft.view.is_gone(pod):
            vacancies += _note_deletion(draft, pod)
    vacancies += _dismiss_spent(draft)
    vacancies += dismiss_used_up(draft)
    _note_lost_hosts(draft, vacancies)
    note_listings(draft)
    note_notices(draft)
    vacancies += [*dismiss_displaced(draft), *dismiss_noticed(draft, vacancies)]
    vacancies += dismiss_outdated(draft)
    vacancies += renew_workers(draft)
    for member in draft.view.members.values():
        if member.state is MemberState.DRAINING and not draft.view.is_uid_gone(member.uid):
            # a config that was written without its record, as when somebody removed that
            leave(draft, member.name, member.uid, "Draining")
    return vacancies


def keep_roster(draft: Draft, vacancies: Sequence[Vacancy] = ()) -> None:
    """Decide names for the workers that are missing; let surplus ones leave."""
    _avoid_taken_names(draft)
    vacancies, successors = place_successors(draft, vacancies)
    _replace_added(draft, successors)
    unborn = draft.select_unborn()
    missing = (draft.status.decided_replicas or 0) - len(draft.select_roster()) - len(unborn)
    if missing > 0:
        names = reserve_names(draft, missing)
        _fill(draft, names, vacancies)
        _replace_added(draft, map(WorkerId, names))
        if draft.view.status.epoch:  # those of the first start are no news
            draft.rest_on(PODS, "")
            wait = _describe_wait(draft, names)
            message = f"creating {name_some(names)} for workers that are missing{wait}"
            draft.tell("WorkersAdded", message)
    for record in unborn[missing:] if missing < 0 else ():
        draft.forget(record.name)
    surplus = -missing - len(unborn)
    if surplus > 0:
        for pod in rank_victims(draft)[:surplus]:
            leave(draft, pod.name, pod.uid, "Surplus")


def _note_births(draft: Draft) -> None:
    born: dict[str, WorkerId] = {}
    for record in (*draft.select_unborn(), *draft.select_held()):
        pod = draft.view.names.get(record.name)
        if pod is not None and not record.uid:
            draft.remember(replace(record, uid=pod.uid, since=draft.now))
            born[record.name] = WorkerId(pod.name, pod.uid)
    _name_added(draft, born)


def _forget_joined(draft: Draft) -> None:
    """A member's joining is over, also where it came to run between number and config."""
    for record in draft.select_records(WorkerState.JOINING):
        member = draft.view.members.get(record.uid)
        if member is not None and member.state is MemberState.ACTIVE:
            draft.forget(record.name)


def _select_ended(standing: Standing) -> Iterator[tuple[str, str]]:
    """(uid, name) of every worker that has ended and is not known to have."""
    known = {r.uid for r in standing.select_records(WorkerState.GONE)}
    tracked = list_tracked(standing).items()
    return ((u, n) for u, n in tracked if u not in known and standing.view.is_uid_gone(u))


def _note_end(draft: Draft, name: str, uid: str) -> WorkerOutcome | Vacancy | None:
    """Remember that it has ended; returns how, of one that was leaving, else its place."""
    record, pod = draft.find_record(name), draft.view.pods.get(uid)
    if pod is None:
        draft.rest_on(PODS, name)
    reason = _describe_end(pod)
    end: WorkerOutcome | Vacancy | None = None
    if record is not None and record.state is WorkerState.LEAVING:
        end = _describe_outcome(draft, record, reason)
        note_drain(draft, record, end)
    elif not draft.view.status.is_suspended:  # what suspension ended is no loss
        end = judge_loss(draft, name, pod, reason)
    reason = cut(reason, _find_reason_limit(draft))
    if pod is None and not draft.view.is_held(uid):
        draft.forget(name)
    else:
        taken, ours = was_taken(record, pod), is_ours(record, pod) or None
        gone = WorkerRecord(name, uid, WorkerState.GONE, reason, draft.now, taken=taken, ours=ours)
        draft.remember(gone)
    return end


def _tell_losses(draft: Draft, lost: Iterable[Vacancy]) -> None:
    """Losses of one cause are one Event."""
    names: dict[str, list[str]] = {}
    for vacancy in lost:
        names.setdefault(vacancy.reason, []).append(vacancy.name)
    for reason, ended in names.items():
        who = f"worker {ended[0]}" if len(ended) == 1 else f"workers {name_some(ended)}"
        draft.tell("WorkerLost", f"{who} ended: {reason}", is_warning=True)


def _note_lost_hosts(draft: Draft, vacancies: Iterable[Vacancy]) -> None:
    """Of those that are lost, the ones that the command had as hosts."""
    listed = draft.view.listed
    hosts = {member.name for uid, member in draft.view.members.items() if uid in listed}
    note_losses(draft, [vacancy.name for vacancy in vacancies if vacancy.name in hosts])


def _note_deletion(draft: Draft, pod: Pod) -> list[Vacancy]:
    record = draft.find_record(pod.name)
    if record is not None and record.state is not WorkerState.JOINING:
        return []
    vacancy = judge_loss(draft, pod.name, pod, "Deleted")
    leave(draft, pod.name, pod.uid, "Deleted", taken=True)
    if draft.view.status.is_suspended:
        return []
    why = f" ({pod.disruption_reason})" if pod.disruption_reason else ""
    message = f"somebody deletes worker {pod.name}{why}: it leaves the host list and is replaced"
    draft.tell("WorkerLeaving", message)
    return [vacancy]


def _dismiss_found(draft: Draft) -> None:
    """A worker that was noted as gone and lives: its place is another's by now, so it leaves.

    A list that lacked it, or another operator, has misled us; and whom nobody lists or lets leave,
    holds a node's resources for as long as the job runs.
    """
    for record in draft.select_records(WorkerState.GONE):
        pod = draft.view.pods.get(record.uid)
        if pod is None or pod.is_deleting or draft.view.is_gone(pod):
            continue
        draft.rest_on(PODS, pod.name)
        draft.forget(record.name)
        leave(draft, pod.name, pod.uid, "Found", taken=record.taken, ours=record.ours)
        message = f"worker {pod.name} was noted as gone and lives: it leaves, for it was replaced"
        draft.tell("WorkerLeaving", message)


def _dismiss_spent(draft: Draft) -> list[Vacancy]:
    """A worker that has closed, or is never listed, is of no use, though nobody remembers why.

    So it is where somebody removed the record, or etcd was restored from before it. A worker may
    say so as often as it likes: each place has its waits.
    """
    vacancies: list[Vacancy] = []
    spent = draft.view.closed | draft.unlisted
    for pod in draft.select_roster() if spent else ():
        if pod.uid not in spent:
            continue
        is_closed = pod.uid in draft.view.closed
        vacancies.append(judge_loss(draft, pod.name, pod, "Spent", Cause.TAKEN))
        reason = "Closed" if is_closed else "Unlisted"
        leave(draft, pod.name, pod.uid, reason, taken=True, ours=True)
        why = "takes no process any more" if is_closed else "can never be on the host list again"
        draft.tell("WorkerLeaving", f"worker {pod.name} {why}: it leaves and is replaced")
    return vacancies


def _describe_outcome(standing: Standing, record: WorkerRecord, reason: str) -> WorkerOutcome:
    seconds = (standing.now - (record.since or standing.now)).total_seconds()
    result = _judge_leaving(standing.view, record)
    brief = cut(reason, _find_reason_limit(standing))
    return WorkerOutcome(record.name, result, max(round(seconds, 3), 0), brief, record.uid)


def _find_reason_limit(standing: Standing) -> int:
    """How long the reason of a worker's end may be: all of them have to fit into one status."""
    wanted = standing.decided.decided_replicas or 0
    return find_reason_limit(max(wanted, len(standing.view.workers)))


def _note_outcomes(draft: Draft, outcomes: Iterable[WorkerOutcome]) -> None:
    """Record with the scaling how its victims left."""
    scaling = draft.decided.scaling
    uids = {victim.uid for victim in scaling.victims} if scaling is not None else set()
    own = tuple(outcome for outcome in outcomes if outcome.uid in uids)
    if scaling is not None and own:
        draft.change(scaling=replace(scaling, workers=(*scaling.workers, *own)))


def _judge_leaving(view: View, record: WorkerRecord) -> Leaving:
    if record.reason == FORCED:
        return Leaving.FORCED
    has_no_process = record.generation is None or record.uid in view.closed
    if has_no_process or not view.can_command_run:
        return Leaving.GRACEFUL
    return Leaving.GONE


def _describe_end(pod: Pod | None) -> str:
    if pod is None:
        return "its pod was deleted"
    why = pod.disruption_reason or pod.pod_reason
    if why:
        return f"{why} {pod.pod_message}".strip()
    if pod.termination is None and pod.node is None and pod.is_deleting:
        return "its pod was deleted before it had a node"
    if pod.termination is None:
        return f"its node {pod.node} was lost" if pod.is_deleting else "its pod ended"
    end = pod.termination
    who = f"init container {end.init_container}: " if end.init_container else ""
    how = f"{who}exit code {end.exit_code} {end.reason}"
    return f"{how} {keep_end(end.message.strip(), MAX_REASON // 2)}".strip()


def _fill(draft: Draft, names: Iterable[str], vacancies: Iterable[Vacancy]) -> None:
    """New workers take the places of those that were lost, and wait as these places must."""
    for name, vacancy in zip(names, vacancies, strict=False):
        record = draft.find_record(name)
        if record is not None:
            ours = vacancy.is_of_used_up or None
            new = replace(record, ours=ours, since=vacancy.since, retries=vacancy.retries)
            draft.remember(new)


def _describe_wait(standing: Standing, names: Iterable[str]) -> str:
    records = (standing.find_record(name) for name in names)
    dues = [(r.since or standing.now) + find_spacing(r.retries) for r in records if r is not None]
    wait = max(dues, default=standing.now) - standing.now
    return f", the last one in {wait.total_seconds():.0f} s" if wait >= SOON else ""


def _avoid_taken_names(draft: Draft) -> None:
    avoid_taken_names(draft)
    taken = [r for r in draft.select_unborn() if r.name in draft.view.snapshot.taken_names]
    for record in taken:
        draft.forget(record.name)
    names = reserve_names(draft, len(taken)) if taken else ()
    for name, old in zip(names, taken, strict=True):
        draft.remember(replace(old, name=name))
    _replace_added(draft, map(WorkerId, names))


def _replace_added(draft: Draft, workers: Iterable[WorkerId]) -> None:
    """A replacement takes the place of an added worker that did not live."""
    alive = {pod.name for pod in draft.select_roster()} | {r.name for r in draft.select_unborn()}
    scaling = draft.decided.scaling
    added = scaling.added if scaling and scaling.outcome is None else ()
    lost = (worker.name for worker in added if worker.name not in alive)
    _name_added(draft, dict(zip(lost, workers, strict=False)))


def _name_added(draft: Draft, workers: Mapping[str, WorkerId]) -> None:
    """Record with the scaling who stands behind these names of its added workers now."""
    scaling: ScalingRecord | None = draft.decided.scaling
    if scaling is None or workers.keys().isdisjoint(w.name for w in scaling.added):
        return
    added = tuple(workers.get(w.name, w) for w in scaling.added)
    draft.change(scaling=replace(scaling, added=added))
