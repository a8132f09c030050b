"""Leaving: how it is recorded, how long it may take, and when a pod may be deleted for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from et_operator.model.actions import Action, Delete
from et_operator.model.jobs import WorkerRecord, WorkerState
from et_operator.model.names import build_config_name
from et_operator.model.pods import Pod
from et_operator.model.resources import CONFIG_MAPS, PODS, Ref
from et_operator.planning.drafts import Draft
from et_operator.planning.scripting import is_script_done
from et_operator.planning.views import View
from launcher.documents import MemberState

FORCED = "Forced"
"""Reason of a leaving worker whose drain time-out is over."""
FRESH_LISTS = timedelta(seconds=60)
"""No drain is cut short so soon after the first complete view of the cluster."""
LATE_WRITE = timedelta(seconds=10)
KEPT_FAILED = 5
"""So many failed workers stay for their logs until the job is cleaned up."""


def leave(draft: Draft, name: str, uid: str, reason: str, *, taken: bool = False) -> None:
    """Record that this worker leaves, and in which config it is first named draining.

    `taken`: not by our own decision.
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
        elif not record.served and _is_served(draft, record):
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


def delete_old_failures(view: View) -> list[Action]:
    """Trim ended pods: a leaving worker's, all but the newest few failed, older launchers."""
    known = {r.uid for r in view.status.workers if r.state is WorkerState.GONE}
    ended = [p for p in view.workers if p.is_terminal and p.uid in known and not p.is_deleting]
    ended.sort(key=lambda pod: (pod.created, pod.index or 0))
    actions = [delete_pod(pod) for pod in ended[:-KEPT_FAILED]]
    for pod in view.launchers:
        age = view.status.epoch - (pod.epoch or 0)
        if not pod.is_deleting and (age > 1 or (age == 1 and not _has_ended(view, pod.uid))):
            actions.append(delete_pod(pod))
    return list(actions)


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


def _is_served(draft: Draft, record: WorkerRecord) -> bool:
    report = draft.view.report
    return report is not None and report.served_generation >= (record.generation or 0)


def _check_drain_timeout(draft: Draft, record: WorkerRecord) -> None:
    complete = draft.view.snapshot.complete_since
    begun = record.waiting_since or record.since or draft.now
    end = max(begun + draft.spec.drain_timeout, (complete or draft.now) + FRESH_LISTS)
    if draft.now < end:
        draft.wake_at(end)
        return
    draft.remember(replace(record, reason=FORCED))
    limit = draft.spec.drain_timeout.total_seconds()
    message = (
        f"worker {record.name} still has a process {limit:.0f} s after it left the host list "
        "(drainTimeoutSeconds): its pod is deleted now"
    )
    draft.tell("DrainTimedOut", message, is_warning=True)


def _has_ended(view: View, uid: str) -> bool:
    pod = view.pods[uid]
    return pod.termination is not None or view.is_gone(pod)


def _is_held_by_script(view: View, record: WorkerRecord) -> bool:
    scaling = view.status.scaling
    if scaling is None or scaling.outcome is not None:
        return False
    if all(victim.uid != record.uid for victim in scaling.victims):
        return False
    return not is_script_done(scaling, view.find_scaling(scaling))
