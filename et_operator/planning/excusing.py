"""Which workers were lost, noted or not, and whether that explains that a launcher failed.

At once, or once its command has waited in vain for others in their place.

A launcher's end is judged by what has become of its workers until then, not by what of it somebody
had seen: the operator may have been away, its watches cut, its writes refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from et_contract.documents import MemberState
from et_kube.resources import PODS
from et_operator.model.pods import Pod
from et_operator.model.shortages import Shortage
from et_operator.model.statuses import WorkerRecord, WorkerState
from et_operator.planning.attributing import CLOCKS, find_told_end
from et_operator.planning.drafts import Draft
from et_operator.planning.ends import is_disrupted, is_taken, is_unseen
from et_operator.planning.standings import Standing
from et_operator.planning.views import View

BLAMED = timedelta(minutes=5)
"""So long after the platform took a worker it is blamed for the failure of an elastic command.

horovodrun waits for a process that could not be started until its time-out, 120 s as we set it, and
ends with 1; it may have come to that a worker's grace period after the loss."""
AFTER = timedelta(seconds=60)
"""Who is asked to end so long after the launcher has ended is no cause of that: clocks of nodes
differ, and to run a command once more costs less than to give up a training."""
_RESERVE = 10.0
_SHARE = 0.25
"""So much of a worker's grace is kept to end its processes, which go on until then."""
_WITH_ITS_NODE = frozenset({"DeletionByPodGC", "DeletionByTaintManager"})
"""Reasons of disruptions which say that the node may have been lost long before."""


def excuse_failure(draft: Draft, launcher: Pod | None) -> tuple[WorkerRecord, ...]:
    """The workers of this launcher, which has failed, whose loss explains that.

    One that is not elastic ends with any worker that ends or is told to. An elastic one goes on
    without it, but for a moment: where horovodrun is just starting a process in it.
    """
    end = _find_end(draft.view, launcher)
    return tuple(loss for loss in _collect_losses(draft, end) if _explains(draft.view, loss, end))


def note_shortage(draft: Draft) -> None:
    """Remember since when a command that runs has had too few workers to go on, and until when.

    It waits for others then, for ten minutes unless told otherwise (`--elastic-timeout` of
    horovodrun, `join_timeout` of torchrun), and gives up. What explains that it waits explains its
    end as long as it does.
    """
    view, known = draft.view, _find_shortage(draft)
    if not view.is_launcher_running or view.report is None or view.report.ended is not None:
        return
    is_open = known is not None and known.until is None
    if _find_filled(draft, draft.now) is None:
        if not is_open and _check_loss(draft, draft.now):
            draft.change(shortage=Shortage(draft.status.epoch, draft.now))
    elif known is not None and is_open:
        draft.change(shortage=replace(known, until=draft.now))


def check_shortage(draft: Draft, launcher: Pod | None) -> bool:
    """Whether this launcher, which has failed, had too few workers to go on, for some were taken.

    Or until a moment before: it may have given up just then, or have had nobody left to begin from.
    What nobody has noted of that is judged by what can be seen now.
    """
    known, told = _find_shortage(draft), _find_end(draft.view, launcher)
    filled = _find_filled(draft, told) if told is not None else None
    until, end = known.until if known is not None else None, told or draft.now
    is_open = known is not None and until is None
    if filled is None and (is_open or _check_loss(draft, told)):
        return True
    if filled is not None and is_open and known is not None:  # when they were listed nobody knows
        # who was there before was given up by the command, which forgets that as it ends
        return filled < known.since or end <= filled + BLAMED
    return until is not None and end <= until + AFTER


def list_tracked(standing: Standing) -> dict[str, str]:
    """Uids and names of the workers that are known of: by a record, by the config or by a pod.

    One that is over and of which nothing is known had its end noted, and forgotten since.
    """
    view = standing.view
    tracked = {m.uid: m.name for m in view.members.values() if m.state is not MemberState.GONE}
    tracked |= {r.uid: r.name for r in standing.status.workers if r.uid}
    tracked |= {p.uid: p.name for p in view.workers if not is_over(view, p.uid)}
    return tracked


def is_over(view: View, uid: str) -> bool:
    """Whether nothing comes of its pod any more: it is gone, or has ended and is being deleted."""
    pod = view.pods.get(uid)
    return pod is None or (pod.is_deleting and view.is_gone(pod))


def was_taken(record: WorkerRecord | None, pod: Pod | None) -> bool:
    """Whether the platform, or somebody through it, ended a worker; `pod` None: nobody saw how.

    Of one that was leaving its record says it.
    """
    if record is not None and record.state is WorkerState.LEAVING:
        return record.taken
    return pod is None or pod.termination is None or is_disrupted(pod)


def was_wanted(view: View, lost: WorkerRecord) -> bool:
    """Whether somebody wanted its place. Pods that a kubelet evicted stay, the newest of them."""
    pod = view.pods.get(lost.uid)
    return lost.taken and not is_ours(lost, pod) and (pod is None or is_taken(pod))


def is_ours(record: WorkerRecord | None, pod: Pod | None) -> bool:
    """Whether we took it for the job's own sake, and nobody else has since."""
    return (
        record is not None and bool(record.ours) and not (pod is not None and pod.disruption_reason)
    )


def _find_shortage(standing: Standing) -> Shortage | None:
    """What is noted of this epoch's launcher."""
    shortage = standing.decided.shortage
    return shortage if shortage and shortage.epoch == standing.decided.epoch else None


def _find_filled(standing: Standing, end: datetime) -> datetime | None:
    """Since when so many workers of the list have run as the command goes on with; None: too few.

    They run and stay, or did for as long as the launcher went on; whom it has given up it lacks.
    """
    view, staying = standing.view, {pod.uid for pod in standing.select_usable()}
    listed = (p for p in view.workers if p.uid in view.listed and p.uid not in standing.spent)
    left = [pod for pod in listed if pod.uid in staying or _is_lost_after(standing, pod, end)]
    least = _find_least(view)
    starts = sorted(pod.started or pod.created for pod in left)[:least]
    return max(starts, default=end) if len(starts) == least else None


def _find_least(view: View) -> int:
    """With how few workers the command goes on: an elastic one that does not say needs one."""
    return max(view.command_least, int(view.is_elastic))


def _check_loss(draft: Draft, end: datetime | None) -> bool:
    """Whether the command, which had enough workers, has too few for the platform has taken some.

    A loss counts from when it is known here, however long before the worker had ended: nobody has
    looked since, and the command may have waited all the while.
    """
    view = draft.view
    if _count_had(draft) < _find_least(view):
        return False
    losses = _collect_losses(draft, end)
    return any(
        loss.taken and not is_ours(loss, view.pods.get(loss.uid)) and _is_recent(loss.since, end)
        for loss in losses
    )


def _count_had(standing: Standing) -> int:
    """How many workers the command had, before what was lost lately.

    A place whose worker was used up counts until another one is there, for the platform's loss may
    have begun it all, and be told later than it: Gloo aborts those beside a worker that is lost.
    """
    tracked, listed = list_tracked(standing), standing.view.listed
    had = [uid for uid in tracked if uid in listed]
    records = filter(None, (standing.find_record(tracked[uid]) for uid in had))
    leavers = sum(bool(record.ours) and not record.taken for record in records)
    heirs = sum(bool(r.ours) for r in standing.select_records(WorkerState.JOINING))
    return len(had) + max(heirs - leavers, 0)


def _find_end(view: View, launcher: Pod | None) -> datetime | None:
    """When the launcher ended; None where that cannot be known."""
    if launcher is None:
        return find_told_end(view)
    told = launcher.termination.finished if launcher.termination else None
    return min(told or view.now, view.now)


def _collect_losses(draft: Draft, end: datetime | None) -> Iterator[WorkerRecord]:
    """The workers of the list that were lost before their launcher's end, as far as is known.

    `since` is when that was noted, which may be long after, or when it is to be where they are
    there still; None where it is yet to be.
    """
    view, deleted = draft.view, draft.view.job.deletion_requested
    may_go_with_job = deleted is not None and end is not None and end <= deleted
    for uid, name in list_tracked(draft).items():
        if uid not in view.listed:
            continue
        loss = _find_noted(draft, name, uid)
        if loss is None and not may_go_with_job:
            loss = _foresee_loss(draft, name, uid)
        pod = view.pods.get(uid)
        is_later = pod is not None and end is not None and _is_lost_after(draft, pod, end)
        if loss is not None and not is_later:
            yield loss


def _find_noted(standing: Standing, name: str, uid: str) -> WorkerRecord | None:
    """What is recorded of a loss. The end of one that was leaving may be yet to be noted.

    One that is leaving is lost when its processes are ended, long after that was asked for.
    """
    record = standing.find_record(name)
    if record is None or record.uid != uid or record.state is WorkerState.JOINING:
        return None
    if record.state is WorkerState.GONE:
        return record
    pod = standing.view.pods.get(uid)
    if pod is None or standing.view.is_gone(pod):
        return None
    moments = filter(None, (record.since, _find_ended(standing, pod)))
    return replace(record, since=max(moments, default=None))


def _foresee_loss(draft: Draft, name: str, uid: str) -> WorkerRecord | None:
    """What the next pass would record of a loss; None where the worker lives and stays."""
    record, pod = draft.find_record(name), draft.view.pods.get(uid)
    if pod is None:
        draft.rest_on(PODS, name)
    if pod is None or draft.view.is_gone(pod):
        taken, ours = was_taken(record, pod), is_ours(record, pod) or None
        return WorkerRecord(name, uid, WorkerState.GONE, taken=taken, ours=ours)
    return WorkerRecord(name, uid, WorkerState.LEAVING, taken=True) if is_disrupted(pod) else None


def _explains(view: View, loss: WorkerRecord, end: datetime | None) -> bool:
    """Whether this loss by itself does."""
    pod = view.pods.get(loss.uid)
    if not view.is_elastic:
        return pod is None or view.is_gone(pod) or is_disrupted(pod)
    seen = pod.termination.finished if pod is not None and pod.termination else None
    return loss.taken and _is_recent(seen or loss.since, end)


def _is_recent(since: datetime | None, end: datetime | None) -> bool:
    """Whether what was lost then is blamed for what ended then."""
    return since is None or end is None or end - since <= BLAMED


def _is_lost_after(standing: Standing, pod: Pod, end: datetime) -> bool:
    """Whether the worker's processes were ended by nobody before its launcher had.

    That a node is lost is known a minute later, and its pods are deleted minutes after that: of
    those nobody knows. Nor of one that is gone and whose end nobody asked for, as far as is told:
    what its container took to end is not.
    """
    view, begun = standing.view, _find_ended(standing, pod)
    if is_unseen(pod) or view.is_node_sick(pod) or pod.disruption_reason in _WITH_ITS_NODE:
        return False
    if begun is None:
        return not view.is_gone(pod) and not _is_out(view, pod)
    ended = pod.termination.finished if pod.termination else None
    is_ours = view.status.is_suspended  # which asks all workers to end, soon after the launcher
    return min(begun, ended or begun) > end + (CLOCKS if is_ours else AFTER)


def _find_ended(standing: Standing, pod: Pod) -> datetime | None:
    """From when a worker's processes are ended, as far as is told; None where nobody asked for it.

    They have their grace, but for the end of it, where the broker has read what the config says of
    that (launcher/protocol/leaving.py), and no hook of the pod may end them before.
    """
    asked, end, view = pod.end_requested, pod.grace_end, standing.view
    if asked is None or end is None or pod.has_pre_stop or _is_out(view, pod):
        return asked
    record, report = standing.find_record(pod.name), view.report
    if record is None or record.uid != pod.uid or record.generation is None:
        return asked
    if report is None or report.observed_generation < record.generation:
        return asked
    return max(asked, end - timedelta(seconds=find_reserve(pod.deletion_grace_seconds or 0)))


def find_reserve(grace: float) -> float:
    """How long before the end of a worker's grace its processes are ended. In seconds."""
    return max(_RESERVE, _SHARE * grace)


def _is_out(view: View, pod: Pod) -> bool:
    """Whether the pod runs nothing, and this launcher's broker starts nothing in it again."""
    return pod.uid in view.closed or pod.uid in view.unlisted
