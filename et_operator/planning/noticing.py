"""Notices: which workers are moved before their node ends, when, and where nothing new is put.

A worker of which it is said for sure that it ends is drained in time, as one that is taken, and
another one takes its place elsewhere. Nothing of that is decided by a word about a pod for any
other pod: whoever may change pods of a namespace moves these alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from et_contract.admissions import MAX_NODES
from et_kube.notices import Notice, is_long_over
from et_kube.resources import PODS
from et_kube.times import format_time
from et_operator.model.notices import NoticeRecord
from et_operator.model.pods import Pod
from et_operator.model.specs import NoticePolicy
from et_operator.model.statuses import Leaving, WorkerOutcome, WorkerRecord, WorkerState
from et_operator.model.texts import cut
from et_operator.planning.drafts import Draft
from et_operator.planning.holding import does_state_stay, select_holders
from et_operator.planning.leaving import leave
from et_operator.planning.replacing import Cause, Vacancy, judge_loss
from et_operator.planning.standings import Standing
from et_operator.planning.views import View

NOTICED = "Noticed"
"""Reason of a worker that leaves for it."""
MARGIN = timedelta(seconds=20)
"""So long before its end a worker leaves at the latest."""
KEPT = timedelta(hours=1)
"""So long a notice is remembered once it is over or withdrawn."""
MOST = 24
"""So many are remembered; of more, those that are said now, and of these who is remembered already.

Never the newest: who was pushed out by them would be new in the next pass, and push out others.
"""
FURTHEST = timedelta(hours=1)
"""A later moment is asked for again then."""
TOLD = 5
MAX_WORDS = 128
"""Of a reason with its source, as it is remembered."""

Place = tuple[str, str]
"""Of what it is said: a node, or the uid of a pod; the other one is ""."""


def note_notices(draft: Draft) -> None:
    """Record what is said by now, and what is not any more."""
    said = dict(_list_said(draft))
    noted = {(record.node, record.uid): record for record in draft.decided.notices}
    records = dict(noted)
    for place, notice in said.items():
        records[place] = _note(draft.now, place, notice, records.get(place))
    for place in records.keys() - said.keys():
        records[place] = _withdraw(draft, records[place])
    found = [place for place in records if place in said or not _is_old(draft.now, records[place])]
    found.sort(key=lambda place: (place not in said, place not in noted, place))
    kept = tuple(sorted(map(records.__getitem__, found[:MOST]), key=_get_age))
    if kept != draft.decided.notices:
        draft.change(notices=kept)


def dismiss_noticed(draft: Draft) -> list[Vacancy]:
    """Let those leave whose time has come; returns their places."""
    vacancies: list[Vacancy] = []
    going = _spare_last(draft, [pod for pod in _list_movable(draft) if _is_due(draft, pod)])
    for pod in going:
        notice = draft.view.find_notice(pod)
        if pod.notice is not None:
            draft.rest_on(PODS, pod.name)
        vacancies.append(judge_loss(draft, pod.name, pod, NOTICED, Cause.TAKEN))
        leave(draft, pod.name, pod.uid, NOTICED, taken=True)
        message = f"worker {pod.name} on {pod.node}: {notice}: it leaves the host list in time"
        draft.tell("WorkerLeaving", f"{message}, and another takes its place elsewhere")
    return vacancies


def note_drain(draft: Draft, record: WorkerRecord, outcome: WorkerOutcome) -> None:
    """Remember how long this job's slowest drain has taken; tell of one that was moved in time."""
    if outcome.result is Leaving.GRACEFUL and record.generation is not None:
        seconds = min(int(outcome.seconds) + 1, int(draft.spec.drain_timeout.total_seconds()))
        if seconds > draft.decided.slowest_drain:
            draft.change(slowest_drain=seconds)
    if record.reason == NOTICED:
        pod = draft.view.pods.get(record.uid)
        noted = _find_record(draft, pod) if pod is not None else None
        spare = _describe_spare(draft.now, noted.deadline if noted is not None else None)
        draft.tell("WorkerMoved", f"worker {record.name} left: {outcome.result.value}{spare}")


def find_avoided(view: View) -> tuple[str, ...]:
    """Nodes on which nothing new is put: those that surely end, or whatever a job is moved from."""
    nodes = set(view.snapshot.firm_nodes)
    if view.spec.notice_policy is NoticePolicy.EAGER:
        nodes |= view.snapshot.soft_nodes
    return tuple(sorted(nodes)[:MAX_NODES])


def find_disliked(view: View) -> tuple[str, ...]:
    """Nodes that were said to end, and are not any more: that may be said again."""
    avoided = find_avoided(view)
    nodes = {r.node for r in view.status.notices if r.withdrawn is not None and r.node}
    return tuple(sorted(nodes.difference(avoided)))


def describe_notices(standing: Standing) -> str:
    """Who is on a node that goes, and what becomes of him; "" where nobody is."""
    words = [*_describe_workers(standing), *_describe_launcher(standing)]
    words += [problem for problem in _list_misread(standing.view) if problem]
    more = f"; and {len(words) - TOLD} more" if len(words) > TOLD else ""
    return "; ".join(words[:TOLD]) + more


def _get_age(record: NoticeRecord) -> tuple[datetime, str, str]:
    return record.since, record.node, record.uid


def _list_said(standing: Standing) -> Iterator[tuple[Place, Notice]]:
    """What counts of what is said: of nodes that its pods are on, or that were noted, and of pods.

    What moves nobody of this job is none of it, be it of a whole pool of nodes.
    """
    view = standing.view
    pods = [*view.select_live_workers(), *(pod for pod in (view.launcher,) if pod is not None)]
    names = {pod.node for pod in pods if pod.node} | {r.node for r in standing.decided.notices}
    for name in sorted(names):
        node = view.snapshot.nodes.get(name)
        notice = view.choose_notice(node) if node is not None else None
        if notice is not None and _counts(standing, notice):
            yield (name, ""), notice
    for pod in pods:
        if pod.notice is not None and _counts(standing, pod.notice):
            yield ("", pod.uid), pod.notice


def _note(now: datetime, place: Place, notice: Notice, old: NoticeRecord | None) -> NoticeRecord:
    is_known = old is not None and old.withdrawn is None
    since = old.since if old is not None and is_known else min(notice.since or now, now)
    deadline = notice.deadline
    if deadline is None and notice.lead is not None:
        deadline = since + notice.lead
    reason = cut(str(notice), MAX_WORDS)
    return NoticeRecord(reason, notice.kind, since, *place, deadline=deadline)


def _withdraw(standing: Standing, record: NoticeRecord) -> NoticeRecord:
    """What is not there says nothing: only a node that is there, or a pod, takes its word back."""
    view = standing.view
    is_there = record.node in view.snapshot.nodes if record.node else record.uid in view.pods
    if record.withdrawn is not None or not is_there:
        return record
    return replace(record, withdrawn=standing.now)


def _is_old(now: datetime, record: NoticeRecord) -> bool:
    return now >= (record.withdrawn or record.deadline or record.since) + KEPT


def _list_movable(standing: Standing) -> Iterator[Pod]:
    """Those of the roster that are to be moved at some time; none whose command needs each."""
    view = standing.view
    if view.can_command_run and not view.is_elastic:
        return iter(())
    return (pod for pod in standing.select_roster() if _is_acted_on(standing, pod))


def _is_acted_on(standing: Standing, pod: Pod) -> bool:
    notice = standing.view.find_notice(pod)
    return notice is not None and _counts(standing, notice)


def _counts(standing: Standing, notice: Notice) -> bool:
    return notice.is_firm or standing.spec.notice_policy is NoticePolicy.EAGER


def _is_due(draft: Draft, pod: Pod) -> bool:
    """Whether it must leave now; asks to be woken when it must."""
    moment, deadline = _find_moment(draft, pod)
    if is_long_over(deadline, draft.now):
        return False
    if draft.now < moment:
        draft.wake_at(min(moment, draft.now + FURTHEST))
        return False
    return True


def _find_moment(standing: Standing, pod: Pod) -> tuple[datetime, datetime | None]:
    """When it leaves, and until when it must have left, if anybody says that.

    At once where the time is short: the rest of it would not make up for being late.
    """
    said = _find_record(standing, pod) or standing.view.find_notice(pod)  # not all are noted
    deadline, since = (said.deadline, said.since) if said is not None else (None, None)
    if deadline is None:
        return standing.now, None
    since = since or standing.now
    margin = max(MARGIN, 2 * timedelta(seconds=standing.decided.slowest_drain))
    return (since if deadline - since < 2 * margin else deadline - margin), deadline


def _find_record(standing: Standing, pod: Pod) -> NoticeRecord | None:
    """What is noted of the notice that counts for this pod."""
    notice = standing.view.find_notice(pod)
    place = ("", pod.uid) if notice is not None and notice is pod.notice else (pod.node or "", "")
    found = (r for r in standing.decided.notices if (r.node, r.uid) == place)
    return next(found, None)


def _spare_last(draft: Draft, going: list[Pod]) -> list[Pod]:
    """Without the one that lasts longest, where no host with the training's state would remain."""
    uids = {pod.uid for pod in going}
    if does_state_stay(draft, uids):
        return going
    own = select_holders(draft)
    ends = {pod.uid: _find_moment(draft, pod)[1] or draft.now for pod in own}
    last = max(own, key=lambda pod: (ends[pod.uid], pod.name))
    return [pod for pod in going if pod is not last]


def _describe_workers(standing: Standing) -> Iterator[str]:
    movable = {pod.uid for pod in _list_movable(standing)}
    for pod in standing.view.select_live_workers():
        if not _is_acted_on(standing, pod):
            continue
        who = f"{pod.name} on {pod.node}: {standing.view.find_notice(pod)}"
        yield f"{who}{_describe_fate(standing, pod, is_movable=pod.uid in movable)}"


def _describe_fate(standing: Standing, pod: Pod, *, is_movable: bool) -> str:
    moment, deadline = _find_moment(standing, pod)
    at = f", at {format_time(deadline.replace(microsecond=0))}" if deadline is not None else ""
    record = standing.find_record(pod.name)
    if record is not None and record.state is WorkerState.LEAVING:
        return f"{at}; it leaves"
    if deadline is not None and is_long_over(deadline, standing.now):
        return f"{at}, which is over: it stays"
    if not is_movable:
        return f"{at}; its command cannot do without it, so it stays until its node ends"
    if standing.now < moment:
        return f"{at}; it leaves at {format_time(moment.replace(microsecond=0))}"
    needs = "another host is listed for a minute"
    return f"{at}; it stays until {needs}, for the command would end without any"


def _describe_launcher(standing: Standing) -> Iterable[str]:
    pod = standing.view.launcher
    if pod is None or standing.view.is_gone(pod) or not _is_acted_on(standing, pod):
        return []
    notice = standing.view.find_notice(pod)
    return [f"{pod.name} on {pod.node}: {notice}; a launcher is not moved: it ends with its node"]


def _list_misread(view: View) -> list[str]:
    pods = list(view.select_live_workers())
    nodes = sorted({pod.node for pod in pods if pod.node})
    found = [(name, view.snapshot.nodes.get(name)) for name in nodes]
    said = [f"{name}: {node.misread}" for name, node in found if node is not None and node.misread]
    return [*said, *(f"{pod.name}: {pod.misread}" for pod in pods if pod.misread)]


def _describe_spare(now: datetime, deadline: datetime | None) -> str:
    if deadline is None:
        return ""
    seconds = (deadline - now).total_seconds()
    return f", {abs(seconds):.0f} s {'before' if seconds >= 0 else 'after'} its end"
