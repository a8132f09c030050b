"""Notices: which workers are moved before their node ends, when, and where nothing new is put.

A worker of which it is said for sure that it ends is drained in time, as one that is taken, and
another one takes its place elsewhere: where there is time, one that was made before
(planning/pairing.py), so that the list changes once. Nothing of that is decided by a word about a
pod for any other pod: whoever may change pods of a namespace moves these alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from heapq import nsmallest

from et_kube.notices import OVER, Notice, is_long_over
from et_kube.resources import PODS
from et_kube.times import format_time
from et_operator.model.notices import MAX_REMEMBERED, NoticeKey, NoticeRecord, Place, build_key
from et_operator.model.pods import Pod
from et_operator.model.specs import NoticePolicy
from et_operator.model.statuses import Leaving, WorkerOutcome, WorkerRecord, WorkerState
from et_operator.model.texts import cut, name_some
from et_operator.planning.drafts import Draft
from et_operator.planning.holding import check_state_stays, list_keepers
from et_operator.planning.leaving import find_margin, leave
from et_operator.planning.moving import FURTHEST, YOUNG, check_come, describe_move
from et_operator.planning.pairing import (
    can_pair,
    end_pairs,
    find_successors,
    name_successors,
    select_replaced,
)
from et_operator.planning.replacing import Cause, Vacancy, judge_loss
from et_operator.planning.standings import Standing
from et_operator.planning.views import View

NOTICED = "Noticed"
"""Reason of a worker that leaves for it."""
EARLY = timedelta(minutes=10)
"""So long before that its successor is made: a large image may take as long to come."""
WAVERING = timedelta(seconds=30)
"""So long a successor is held after its worker was said to stay: a word that comes and goes, as of
a service that answers by turns, would else make and end a pod each time."""
KEPT = timedelta(hours=1)
"""So long a notice is remembered once it is over or withdrawn."""
MOST = 24
"""So many are remembered; of more, those that are said now, and of these who is remembered already.

Never the newest: who was pushed out by them would be new in the next pass, and push out others.
"""
TOLD = 5


def note_notices(draft: Draft) -> None:
    """Record what is said by now, and what is not any more."""
    said = _list_said(draft)
    noted = {record.key: record for record in draft.decided.notices}
    past = {key: _withdraw(draft, noted[key]) for key in noted.keys() - said.keys()}
    found = [*said, *(key for key, record in past.items() if not _is_old(draft.now, record))]

    def weigh(key: NoticeKey) -> tuple[bool, bool, int, NoticeKey]:
        rank, _ = said.get(key, (0, None))
        return key not in said, key not in noted, rank, key

    first = nsmallest(MOST, found, key=weigh)
    records = (past[key] if key in past else _note(draft, key, said[key][1]) for key in first)
    kept = tuple(sorted(records, key=_get_age))
    if kept != draft.decided.notices:
        draft.change(notices=kept)


def dismiss_noticed(draft: Draft, lost: Sequence[Vacancy] = ()) -> list[Vacancy]:
    """Let those leave whose time has come, or whose successors are ready; returns their places.

    Who has time has a successor made: `lost` tells of those that have ended since.
    """
    moving = [pod for pod in _list_movable(draft) if not _is_left_there(draft, pod)]
    due = [pod for pod in moving if check_come(draft, _find_moment(draft, pod)[0])]
    early = _leave_out(moving, due)
    end_pairs(draft, {pod.name for pod in (*moving, *_list_wavering(draft))})
    going = _spare_last(draft, [*due, *select_replaced(draft, early)])
    vacancies = [_judge_place(draft, pod) for pod in going]
    successors = find_successors(draft)
    for pod in going:
        _dismiss(draft, pod, successors.get(pod.name))
    _make_successors(draft, going, _leave_out(early, going), lost)
    return vacancies


def note_drain(draft: Draft, record: WorkerRecord, outcome: WorkerOutcome) -> None:
    """Remember how long this job's slowest drain has taken; tell of one that was moved in time.

    What was heard of late, or by a clock that has jumped meanwhile, has not taken so long.
    """
    is_drain = outcome.result is Leaving.GRACEFUL and record.generation is not None
    if is_drain and _is_seen_whole(draft.view, record):
        seconds = min(int(outcome.seconds) + 1, int(draft.spec.drain_timeout.total_seconds()))
        if seconds > draft.decided.slowest_drain:
            draft.change(slowest_drain=seconds)
    if record.reason == NOTICED:
        pod = draft.view.pods.get(record.uid)
        deadline = _find_noted_end(draft, pod) if pod is not None else None
        spare = _describe_spare(draft.now, deadline)
        draft.tell("WorkerMoved", f"worker {record.name} left: {outcome.result.value}{spare}")


def _is_seen_whole(view: View, record: WorkerRecord) -> bool:
    seen = view.snapshot.complete_since
    return seen is not None and record.since is not None and seen <= record.since


def find_disliked(view: View) -> tuple[str, ...]:
    """Nodes that were said to end, and are not any more: that may be said again."""
    nodes = {r.node for r in view.status.notices if r.withdrawn is not None and r.node}
    return tuple(sorted(nodes.difference(view.avoided_nodes)))


def describe_notices(draft: Draft) -> str:
    """Who is on a node that goes, and what becomes of him; "" where nobody is.

    A suspended job has no pods, for whatever is said of them. Looks again when a moment is over.
    """
    on_hold = draft.spec.suspend or draft.decided.is_suspended
    workers, launcher = ((), None) if on_hold else (draft.view.live_workers, draft.view.launcher)
    held = {record.name for record in draft.select_held()}
    pods = [pod for pod in workers if pod.name not in held and _is_acted_on(draft, pod)]
    words = _describe_workers(draft, pods[:TOLD])
    if launcher is not None and not draft.view.is_gone(launcher) and _is_acted_on(draft, launcher):
        move = describe_move(draft, launcher)
        words.append(move or f"{_describe_end(draft, launcher)}; a launcher is not moved for that")
        pods.append(launcher)
    _wake_when_over(draft, pods)
    words += [problem for problem in _list_misread(draft.view) if problem]
    untold = max(len(pods) - TOLD, 0) + max(len(words) - TOLD, 0)
    more = f"; and {untold} more" if untold else ""
    return "; ".join(words[:TOLD]) + more


def _get_age(record: NoticeRecord) -> tuple[datetime, NoticeKey]:
    return record.since, record.key


def _list_said(standing: Standing) -> dict[NoticeKey, tuple[int, Notice]]:
    """What counts of what is said, and how much weighs more of each node.

    Each sign is noted by itself: a lead counts from when that was seen, whatever was said before.
    """
    said: dict[NoticeKey, tuple[int, Notice]] = {}
    for place, notices in _list_places(standing):
        for rank, notice in enumerate(one for one in notices if _counts(standing, one)):
            said.setdefault(build_key(place, notice), (rank, notice))
    return said


def _list_places(standing: Standing) -> Iterator[tuple[Place, Sequence[Notice]]]:
    """What is said of the nodes that its pods are on, or that were noted, and of its pods.

    What moves nobody of this job is none of it, be it of a whole pool of nodes.
    """
    view = standing.view
    pods = [*view.live_workers, *(pod for pod in (view.launcher,) if pod is not None)]
    names = {pod.node for pod in pods if pod.node} | {r.node for r in standing.decided.notices}
    for name in sorted(names):
        yield (name, ""), view.node_notices.get(name, ())
    for pod in pods:
        if pod.notice is not None:
            place = ("", pod.uid)
            yield place, (view.date_notice(place, pod.notice),)


def _note(standing: Standing, key: NoticeKey, notice: Notice) -> NoticeRecord:
    node, uid, source = key
    old = next((r for r in standing.decided.notices if r.key == key), None)
    is_known = old is not None and old.withdrawn is None
    return NoticeRecord(
        cut(notice.reason, MAX_REMEMBERED),
        notice.kind,
        notice.since or standing.now,
        node,
        uid,
        deadline=notice.deadline,
        source=source,
        through=old.through if old and is_known else standing.decided.last_worker_index,
    )


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
    """Workers of the roster that are to be moved at some time; none whose command needs each."""
    view = standing.view
    if view.can_command_run and not view.is_elastic:
        return iter(())
    return (pod for pod in standing.select_roster() if _is_acted_on(standing, pod))


def _list_wavering(draft: Draft) -> Iterator[Pod]:
    """Workers with a successor of which it was said until just now that they end."""
    successors = find_successors(draft)
    for pod in (pod for pod in draft.select_roster() if pod.name in successors):
        places = {(pod.node or "", ""), ("", pod.uid)}
        noted = (r for r in draft.decided.notices if (r.node, r.uid) in places)
        last = max((r.withdrawn for r in noted if r.withdrawn is not None), default=None)
        if draft.wait_out(last, WAVERING):
            yield pod


def _is_acted_on(standing: Standing, pod: Pod) -> bool:
    notice = standing.view.find_notice(pod)
    return notice is not None and _counts(standing, notice)


def _counts(standing: Standing, notice: Notice) -> bool:
    return notice.is_firm or standing.spec.notice_policy is NoticePolicy.EAGER


def _leave_out(pods: Iterable[Pod], others: Iterable[Pod]) -> list[Pod]:
    uids = {pod.uid for pod in others}
    return [pod for pod in pods if pod.uid not in uids]


def _dismiss(draft: Draft, pod: Pod, successor: WorkerRecord | None) -> None:
    notice = draft.view.find_notice(pod)
    if pod.notice is not None:
        draft.rest_on(PODS, pod.name)
    leave(draft, pod.name, pod.uid, NOTICED, taken=True)
    message = f"worker {pod.name} on {pod.node}: {notice}: it leaves the host list in time"
    heir = successor.name if successor is not None else "another"
    draft.tell("WorkerLeaving", f"{message}, and {heir} takes its place elsewhere")


def _make_successors(
    draft: Draft, going: Sequence[Pod], early: Sequence[Pod], lost: Sequence[Vacancy]
) -> None:
    """Name successors of hosts that leave soon and have none; none of one that is kept for last."""
    if not early or not can_pair(draft):
        return
    successors = find_successors(draft)
    alone = [p for p in early if p.uid in draft.view.listed and p.name not in successors]
    movable = {pod.uid for pod in _spare_last(draft, [*going, *early])}
    pods = [pod for pod in alone if pod.uid in movable and _check_early(draft, pod)]
    if not pods:
        return
    names = name_successors(draft, map(partial(_judge_place, draft), pods), lost)
    who = name_some([pod.name for pod in pods])
    message = f"creating {name_some(names)}: once it is ready it takes the place of a worker whose "
    draft.tell("WorkersAdded", f"{message}node ends: {who}")


def _judge_place(standing: Standing, pod: Pod) -> Vacancy:
    """The place of one that is to leave. Where each who comes is told of an end it waits longer.

    A policy of the namespace may say that of each pod, or whoever tells pods.
    """
    return judge_loss(standing, pod.name, pod, NOTICED, Cause.TOLD)


def _check_early(draft: Draft, pod: Pod) -> bool:
    """Whether the pod leaves so soon that its successor is to be made; asks to be woken then.

    For a time that nobody says there is none, and for what is not noted it might be put there, too.
    """
    notice, (moment, deadline) = draft.view.find_notice(pod), _find_moment(draft, pod)
    if notice is None or deadline is None or not draft.list_noted(pod, notice):
        return False
    return check_come(draft, moment - EARLY)


def _is_left_there(standing: Standing, pod: Pod) -> bool:
    """Whether the pod is not moved: the notice is over, or a new one would be put there as well."""
    _, deadline = _find_moment(standing, pod)
    return is_long_over(deadline, standing.now) or _is_back(standing, pod)


def _find_moment(standing: Standing, pod: Pod) -> tuple[datetime, datetime | None]:
    """When it leaves, and until when it must have left, if anybody says that.

    At once where the time is short: the rest of it would not make up for being late. But where a
    successor may be ready first, that is worth the rest.
    """
    notice, now = standing.view.find_notice(pod), standing.now
    if notice is None:
        return now, None
    moment, deadline = now, standing.find_deadline(pod, notice)
    if deadline is not None:
        since = notice.since or now
        margin = find_margin(standing)
        least = margin if can_pair(standing) else 2 * margin
        moment = since if deadline - since < least else deadline - margin
    grown = None if standing.list_noted(pod, notice) else standing.find_end(pod.created, YOUNG)
    return max(moment, grown or moment), deadline


def _is_back(standing: Standing, pod: Pod) -> bool:
    """Whether the pod was put there in spite of what is said, once successors were made already.

    Nothing keeps it off (a node without a label for that, too many nodes to name), so the next one
    might be put there as well, and so on.
    """
    notice = standing.view.find_notice(pod)
    noted = standing.list_noted(pod, notice) if notice is not None else []
    if not noted or any(r.through is None or (pod.index or 0) <= r.through for r in noted):
        return False
    moment, deadline = _find_moment(standing, pod)
    is_at_once = deadline is None or notice is None or moment == notice.since
    return is_at_once or pod.created >= (moment - EARLY).replace(microsecond=0)


def _find_noted_end(standing: Standing, pod: Pod) -> datetime | None:
    """When it was to end by what is noted of it and its node, which may be gone by now."""
    places = {(pod.node or "", ""), ("", pod.uid)}
    found = (r for r in standing.decided.notices if (r.node, r.uid) in places)

    def rank(one: NoticeRecord) -> tuple[bool, tuple[bool, bool, datetime]]:
        return one.withdrawn is not None, standing.view.weigh_notice(one)

    counts = min(found, key=rank, default=None)
    return counts.deadline if counts is not None else None


def _spare_last(draft: Draft, going: list[Pod]) -> list[Pod]:
    """Without the one that lasts longest, where no host with the training's state would remain."""
    uids = {pod.uid for pod in going}
    if check_state_stays(draft, uids):
        return going

    def rank(pod: Pod) -> tuple[datetime, str]:
        return _find_moment(draft, pod)[1] or draft.now, pod.name

    groups = [group for group in list_keepers(draft) if all(pod.uid in uids for pod in group)]
    spared = {max(group, key=rank).uid for group in groups}
    return [pod for pod in going if pod.uid not in spared]


def _wake_when_over(draft: Draft, pods: Iterable[Pod]) -> None:
    """What counts of them then may be another word, and what is told of them is."""
    for pod in pods:
        _, deadline = _find_moment(draft, pod)
        if deadline is not None and not is_long_over(deadline, draft.now):
            draft.wake_at(min(deadline + OVER, draft.now + FURTHEST))


def _describe_workers(standing: Standing, pods: Sequence[Pod]) -> list[str]:
    movable = {pod.uid for pod in _list_movable(standing)} if pods else set()
    fates = (_describe_fate(standing, pod, is_movable=pod.uid in movable) for pod in pods)
    return [f"{_describe_end(standing, p)}{fate}" for p, fate in zip(pods, fates, strict=True)]


def _describe_end(standing: Standing, pod: Pod) -> str:
    _, deadline = _find_moment(standing, pod)
    at = f", at {format_time(deadline.replace(microsecond=0))}" if deadline is not None else ""
    return f"{pod.name} on {pod.node}: {standing.view.find_notice(pod)}{at}"


def _describe_fate(standing: Standing, pod: Pod, *, is_movable: bool) -> str:
    moment, deadline = _find_moment(standing, pod)
    record = standing.find_record(pod.name)
    if record is not None and record.state is WorkerState.LEAVING:
        return "; it leaves"
    if deadline is not None and is_long_over(deadline, standing.now):
        return ", which is over: it stays"
    if not is_movable:
        return "; its command cannot do without it, so it stays until its node ends"
    if _is_back(standing, pod):
        return "; it was put there in spite of that, so it stays until its node ends"
    if standing.now < moment:
        successor, at = find_successors(standing).get(pod.name), moment.replace(microsecond=0)
        when = f"once {successor.name} is ready, or " if successor is not None else ""
        return f"; it leaves {when}at {format_time(at)}"
    needs = "another host is listed for a minute"
    return f"; it stays until {needs}, for the command would end without any"


def _list_misread(view: View) -> list[str]:
    pods = (*view.live_workers, *(pod for pod in (view.launcher,) if pod is not None))
    nodes = sorted({pod.node for pod in pods if pod.node})
    found = [(name, view.snapshot.nodes.get(name)) for name in nodes]
    said = [f"{name}: {node.misread}" for name, node in found if node is not None and node.misread]
    return [*said, *(f"{pod.name}: {pod.misread}" for pod in pods if pod.misread)]


def _describe_spare(now: datetime, deadline: datetime | None) -> str:
    if deadline is None:
        return ""
    seconds = (deadline - now).total_seconds()
    return f", {abs(seconds):.0f} s {'before' if seconds >= 0 else 'after'} its end"
