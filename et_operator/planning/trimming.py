"""Pods that have ended: how long they stay for their logs, and which hold room that is short.

Launchers of former epochs go by it too. How short room is, it reads from the words of quota and
scheduler; who gives up room that is in use is chosen in yielding.py.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from et_contract.pods import Role
from et_kube.resources import PODS
from et_operator.model.actions import Action
from et_operator.model.pods import Pod
from et_operator.model.snapshots import Refusal
from et_operator.model.statuses import JobStatus, WorkerState
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import delete_pod, doubt_time
from et_operator.planning.standings import Standing
from et_operator.planning.views import View

INSUFFICIENT = "Insufficient"
"""What the scheduler says of a node that would do, were there more left of something on it
(k8s.io/kubernetes, pkg/scheduler/framework/plugins/noderesources/fit.go)."""
QUOTA = "exceeded quota"
"""What the server's quota says (k8s.io/apiserver, plugin/pkg/admission/resourcequota)."""
COUNTED = "count/pods"
"""The quota on how many pods there are; that on "pods" leaves out those that have ended."""
KEPT_FAILED = 5
"""So many failed workers stay for their logs until the job is cleaned up."""
OUTLIVED = timedelta(seconds=30)
"""So long others may work on beside a worker's container that has ended, and beside a launcher's
where room is short: they hold the resources of the whole pod. Then they have their grace."""
OUTLIVED_LAUNCHER = timedelta(minutes=10)
"""So long they may beside a launcher's: one may upload the result that the command has left."""
TOLD_WITHIN = timedelta(seconds=30)
"""A broker outlives its launcher's command, and tells how that ended, by less than this."""
HOLDING = timedelta(minutes=2)
"""So long what is being deleted is waited for where room is short: its grace may be an hour."""


def delete_old_failures(draft: Draft) -> list[Action]:
    """Trim ended pods: all but the newest few failed workers and the last launcher.

    Those stay for their logs. A job that goes on is worth more than a log: where room is short,
    none stays that holds some.
    """
    view = draft.view
    ended = sorted(list_ended(view), key=lambda pod: (pod.created, pod.index or 0))
    workers = [pod for pod in ended if pod.role is Role.WORKER]
    former = [pod for pod in view.launchers if (pod.epoch or 0) < view.status.epoch]
    last = [p for p in former if p.is_over and (p.epoch or 0) == view.status.epoch - 1]
    kept = [pod for pod in (*last, *workers[-KEPT_FAILED:]) if not check_outlived(draft, pod)]
    stay = {pod.uid for pod in kept}
    if are_ended_counted(view):
        stay -= {pod.uid for pod in list_holders(draft) if pod.is_terminal}
    going = (pod for pod in (*former, *workers) if pod.uid not in stay and not pod.is_deleting)
    return [delete_pod(pod) for pod in going]


def check_outlived(draft: Draft, pod: Pod) -> bool:
    """Whether containers beside the one that has ended have had their time."""
    is_long = pod.role is Role.LAUNCHER and not is_room_short(draft.view)
    return check_outlived_by(draft, pod, OUTLIVED_LAUNCHER if is_long else OUTLIVED)


def check_outlived_by(draft: Draft, pod: Pod, span: timedelta) -> bool:
    """Whether others run in it that have had this time since the end of the one that counts.

    By the operator's clock, for that of its node may be wrong; while it is in doubt, or where
    nothing of ours tells the time, no.
    """
    if pod.is_terminal or pod.termination is None:
        return False
    noted = _find_noted_end(draft, pod)
    return noted is not None and not draft.wait_out(noted, span) and not doubt_time(draft)


def _find_noted_end(standing: Standing, pod: Pod) -> datetime | None:
    """When we knew for the first time that its container had ended, or its job; None: not yet."""
    status = standing.status
    if status.completion_time is not None:
        return status.completion_time
    if pod.role is Role.WORKER:
        record = standing.find_record(pod.name)
        is_noted = record is not None and record.uid == pod.uid
        return record.since if record and is_noted and record.state is WorkerState.GONE else None
    if (pod.epoch or 0) >= status.epoch:
        return None
    return find_launcher_loss(status)


def find_launcher_loss(status: JobStatus) -> datetime | None:
    """When the end of the launcher before was noted; where there was none, when the job began."""
    return status.launch_backoff.at if status.launch_backoff else status.start_time


def is_room_short(view: View) -> bool:
    """Whether the launcher that is to come has none; a job that has ended waits for none."""
    if view.status.completion_time is not None:
        return False
    return find_launcher_refusal(view) is not None or is_unplaced(view)


def find_launcher_refusal(view: View) -> Refusal | None:
    """The refusal of the launcher, by name, by a quota, and lately; None where there is none.

    That it refused a worker says nothing: an elastic job may ask for more than there is each time.
    """
    refusal = view.snapshot.refusals.get(PODS)
    if refusal is None or not view.is_launcher_missing or refusal.name != view.launcher_name:
        return None
    return refusal if QUOTA in refusal.message else None


def is_unplaced(view: View) -> bool:
    """Whether the launcher is there and no node has enough left for it."""
    pod = view.launcher
    if pod is None or pod.is_deleting or pod.has_ended:
        return False
    return INSUFFICIENT in pod.unschedulable_message


def are_ended_counted(view: View) -> bool:
    """Whether a quota on the number of objects, those of ended pods too, refused a pod lately."""
    refusal = view.snapshot.refusals.get(PODS)
    return refusal is not None and QUOTA in refusal.message and COUNTED in refusal.message


def list_ended(view: View) -> list[Pod]:
    """Pods whose end is recorded, and which stay for their logs alone; also those on their way."""
    gone = {record.uid for record in view.status.workers if record.state is WorkerState.GONE}
    workers = [pod for pod in view.workers if pod.has_ended and pod.uid in gone]
    launchers = [
        pod for pod in view.launchers if pod.has_ended and (pod.epoch or 0) < view.status.epoch
    ]
    return [*launchers, *workers]


def list_holders(draft: Draft) -> list[Pod]:
    """Ended pods that hold room: other containers live on there, or a quota counts them all.

    Whose grace is long is, once deleted, not waited for until it is over.
    """
    view = draft.view
    is_counted = are_ended_counted(view)
    return [
        pod
        for pod in list_ended(view)
        if (is_counted and not pod.is_deleting)
        or (not view.is_silent(pod) and _check_holding(draft, pod))
    ]


def _check_holding(draft: Draft, pod: Pod) -> bool:
    return not pod.is_deleting or draft.wait_out(pod.deletion_requested, HOLDING)
