"""Leaving: how it is recorded, how long it may take, and when a pod may be deleted for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from et_contract.documents import MemberState
from et_contract.names import build_config_name
from et_contract.pods import Role
from et_kube.resources import CONFIG_MAPS, PODS, Ref
from et_operator.model.actions import Action, Delete
from et_operator.model.blacklists import USED_UP
from et_operator.model.pods import Pod
from et_operator.model.snapshots import Refusal
from et_operator.model.statuses import JobStatus, ScalingKind, WorkerRecord, WorkerState
from et_operator.model.texts import name_some
from et_operator.planning.drafts import Draft
from et_operator.planning.scripting import is_script_done
from et_operator.planning.standings import Standing
from et_operator.planning.views import View

FORCED = "Forced"
"""Reason of a leaving worker whose drain time-out is over."""
CERTAIN_AFTER = timedelta(seconds=60)
"""So soon after the first complete view of the cluster, or a jump of the clock, no drain is cut
short, no deadline is over and no job is deleted for its age."""
HELD_UP = timedelta(minutes=2)
"""A drain that is over for so long is told to be held up by a view that does not get complete."""
LATE_WRITE = timedelta(seconds=10)
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


def leave(
    draft: Draft, name: str, uid: str, reason: str, *, taken: bool = False, ours: bool | None = None
) -> None:
    """Record that this worker leaves, and in which config it is first named draining.

    `taken`: what the command makes of that is no failure of its own; `ours`: as of a record.
    """
    record = draft.find_record(name)
    if record is not None and record.state in {WorkerState.LEAVING, WorkerState.GONE}:
        return
    member, view = draft.view.members.get(uid), draft.view
    is_draining = member is not None and member.state is MemberState.DRAINING
    held = view.was_held(uid)
    generation = view.written_generation if is_draining else draft.next_generation
    if not held:  # it will be deleted at once: a config that was not seen yet may list it
        draft.rest_on(CONFIG_MAPS, build_config_name(view.job.key.name))
    draft.remember(
        WorkerRecord(
            name,
            uid,
            WorkerState.LEAVING,
            reason,
            since=draft.now,
            generation=generation if held else None,
            waiting_since=draft.now if held else None,
            taken=taken,
            ours=ours,
        )
    )


def watch_drains(draft: Draft) -> None:
    """Move the clocks of the workers that leave: served, and at last forced."""
    view = draft.view
    for record in draft.select_records(WorkerState.LEAVING):
        pod = view.pods.get(record.uid)
        is_closed = record.uid in view.closed
        if pod is None or pod.is_deleting or is_closed or record.reason == FORCED:
            continue
        if not _is_written(view, record):
            _wait_for_writing(draft, record)
        elif not record.served and _is_served(view, record):
            draft.remember(replace(record, served=True, waiting_since=draft.now))
        else:
            _check_drain_timeout(draft, record)


def delete_leavers(draft: Draft) -> list[Action]:
    """Delete the workers that the observed status names as leaving and that may go now."""
    actions: list[Action] = []
    view = draft.view
    for record in view.status.workers:
        pod = view.pods.get(record.uid)
        if record.state is not WorkerState.LEAVING or pod is None or pod.is_deleting:
            continue
        if may_delete(draft, record):
            actions.append(delete_pod(pod))
    return actions


def may_delete(draft: Draft, record: WorkerRecord) -> bool:
    """Whether this leaving worker has no process, can get none, or has had its time."""
    view = draft.view
    if record.reason == FORCED:
        return True
    if _is_held_by_script(view, record):
        return False
    if record.generation is None and not view.is_held(record.uid):
        return True
    if record.uid in view.closed:
        return True
    if not _is_written(view, record) or view.can_command_run:
        return False
    draft.rest_on(PODS, view.launcher_name)  # it may have come to run since
    return True


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
    kept = [pod for pod in (*last, *workers[-KEPT_FAILED:]) if not is_outlived(draft, pod)]
    stay = {pod.uid for pod in kept}
    if are_ended_counted(view):
        stay -= {pod.uid for pod in list_holders(draft) if pod.is_terminal}
    going = (pod for pod in (*former, *workers) if pod.uid not in stay and not pod.is_deleting)
    return [delete_pod(pod) for pod in going]


def is_outlived(draft: Draft, pod: Pod) -> bool:
    """Whether containers beside the one that has ended have had their time."""
    is_long = pod.role is Role.LAUNCHER and not is_room_short(draft.view)
    return has_outlived(draft, pod, OUTLIVED_LAUNCHER if is_long else OUTLIVED)


def has_outlived(draft: Draft, pod: Pod, span: timedelta) -> bool:
    """Whether others run in it that have had this time since the end of the one that counts.

    By our own clock: that of its node may be wrong. Where nothing of ours tells the time, no.
    """
    if pod.is_terminal or pod.termination is None:
        return False
    noted = _find_noted_end(draft, pod)
    return noted is not None and not draft.must_wait(noted, span)


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
    """That of a quota which refused the launcher, by name, and lately; None where none did.

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
    """Those of them that hold room: other containers live on there, or a quota counts them all.

    Whose grace is long is, once deleted, not waited for until it is over.
    """
    view = draft.view
    is_counted = are_ended_counted(view)
    return [
        pod
        for pod in list_ended(view)
        if (is_counted and not pod.is_deleting)
        or (not view.is_silent(pod) and _is_holding(draft, pod))
    ]


def _is_holding(draft: Draft, pod: Pod) -> bool:
    return not pod.is_deleting or draft.must_wait(pod.deletion_requested, HOLDING)


def delete_pod(pod: Pod) -> Delete:
    """Delete this very pod as it was seen."""
    return Delete(Ref(PODS, pod.namespace, pod.name), pod.uid, pod.resource_version)


def _is_written(view: View, record: WorkerRecord) -> bool:
    """Whether a config that was observed names this worker as draining."""
    return record.generation is not None and view.written_generation >= record.generation


def _wait_for_writing(draft: Draft, record: WorkerRecord) -> None:
    """Its time only begins with the config: a write that comes late costs the worker nothing."""
    if record.generation is None:
        if draft.view.is_held(record.uid):  # a write that was not known of has named it
            draft.remember(
                replace(record, generation=draft.next_generation, waiting_since=draft.now)
            )
    elif record.waiting_since is None or draft.now - record.waiting_since >= LATE_WRITE:
        draft.remember(replace(record, waiting_since=draft.now))


def _is_served(view: View, record: WorkerRecord) -> bool:
    report = view.report
    return report is not None and report.served_generation >= (record.generation or 0)


def _check_drain_timeout(draft: Draft, record: WorkerRecord) -> None:
    begun = record.waiting_since or record.since or draft.now
    if draft.must_wait(begun, draft.spec.drain_timeout):
        return
    if is_time_doubtful(draft):
        return
    is_others = record.taken or record.reason == ScalingKind.QUEUE  # another job gets its place
    ours = record.ours if is_others else True
    taken = _has_part(draft.view, record)
    draft.remember(replace(record, reason=FORCED, taken=taken, ours=ours))
    limit = draft.spec.drain_timeout.total_seconds()
    known = (
        f"left the host list {limit:.0f} s ago, and nothing tells that it has no process any more"
        if record.served
        else f"was to leave the host list {limit:.0f} s ago, and nothing tells that it has"
    )
    message = f"worker {record.name} {known} (drainTimeoutSeconds): its pod is deleted now"
    draft.tell("DrainTimedOut", message, is_warning=True)


def _has_part(view: View, record: WorkerRecord) -> bool:
    """Whether the command may be hurt where a leaving worker is ended by force.

    It has nothing in one that is used up, unless something was started there since: then its report
    calls it so no longer.
    """
    if record.reason != USED_UP:
        return True
    return view.report is not None and record.uid not in view.report.used_up


def is_time_doubtful(draft: Draft) -> bool:
    """Whether a time that has passed is yet to be believed, where its end cannot be taken back."""
    return draft.must_wait(draft.view.snapshot.complete_since, CERTAIN_AFTER)


def describe_held_drains(standing: Standing) -> str:
    """The drains whose time is long over while a watch is cut; "" where there are none."""
    seen = standing.view.snapshot.complete_since
    is_cut = seen is not None and seen >= standing.now  # see state/coverage.py
    if not is_cut:
        return ""
    limit = standing.spec.drain_timeout + HELD_UP
    held = [
        record.name
        for record in standing.select_records(WorkerState.LEAVING)
        if record.waiting_since is not None
        and record.waiting_since + limit < standing.now
        and record.reason != FORCED
        and record.uid not in standing.view.closed
    ]
    if not held:
        return ""
    return (
        f"{name_some(held)}: drainTimeoutSeconds are over, but nothing is heard of pods, config "
        "maps or jobs at the moment, so that they may have left: no worker is ended by force "
        "before the watch goes on; the operator's log says what keeps it"
    )


def _is_held_by_script(view: View, record: WorkerRecord) -> bool:
    scaling = view.status.scaling
    if scaling is None or scaling.outcome is not None:
        return False
    if record.uid not in view.victims:
        return False
    return not is_script_done(scaling, view.find_scaling(scaling))
