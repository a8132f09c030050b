"""Leaving: how it is recorded, how long it may take, and when a pod may be deleted for it.

Whoever lets a worker go, for whatever reason, calls `leave`, and whoever deletes a pod takes
`delete_pod`. Who is to go is chosen elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from et_contract.documents import MemberState
from et_contract.names import build_config_name
from et_kube.resources import CONFIG_MAPS, PODS, Ref
from et_operator.model.actions import Action, Delete
from et_operator.model.blacklists import USED_UP
from et_operator.model.pods import Pod
from et_operator.model.statuses import ScalingKind, WorkerRecord, WorkerState
from et_operator.model.texts import name_some
from et_operator.planning.drafts import Draft
from et_operator.planning.standings import Standing
from et_operator.planning.views import View

FORCED = "Forced"
"""Reason of a leaving worker whose drain time-out is over."""
CERTAIN_AFTER = timedelta(seconds=60)
"""So soon after the first complete view of the cluster, or a jump of the clock, no drain is cut
short, no deadline is over and no job is deleted for its age."""
HELD_UP = timedelta(minutes=2)
"""A drain, or a deadline, that has been over for so long is told to be held up by a view that does
not get complete."""
LATE_WRITE = timedelta(seconds=10)
MARGIN = timedelta(seconds=20)
"""So long before the end of its node a pod of the job ends at the latest."""


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


def find_margin(standing: Standing) -> timedelta:
    """How long before that: twice as long as this job's slowest worker has taken to leave."""
    return max(MARGIN, 2 * timedelta(seconds=standing.decided.slowest_drain))


def watch_drains(draft: Draft) -> None:
    """Move the clocks of the workers that leave: served, and at last forced."""
    view = draft.view
    for record in draft.select_records(WorkerState.LEAVING):
        if not _is_draining(view, record):
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
        if check_deletable(draft, record):
            actions.append(delete_pod(pod))
    return actions


def check_deletable(draft: Draft, record: WorkerRecord) -> bool:
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


def delete_pod(pod: Pod) -> Delete:
    """Delete this very pod as it was seen."""
    return Delete(Ref(PODS, pod.namespace, pod.name), pod.uid, pod.resource_version)


def tell_replaced(draft: Draft, pod: Pod, why: str) -> Delete:
    """Delete this launcher, and say why; once, however often the server refuses that."""
    delete = delete_pod(pod)
    if delete.subject not in draft.view.snapshot.refusals:
        draft.tell("LauncherReplaced", f"{pod.name} {why}")
    return delete


def _is_draining(view: View, record: WorkerRecord) -> bool:
    """Whether the worker's time goes on: its pod is there, not being deleted, nor has it closed."""
    pod = view.pods.get(record.uid)
    is_there = pod is not None and not pod.is_deleting
    return is_there and record.uid not in view.closed and record.reason != FORCED


def _is_written(view: View, record: WorkerRecord) -> bool:
    """Whether a config that was observed names this worker as draining."""
    return record.generation is not None and view.written_generation >= record.generation


def _wait_for_writing(draft: Draft, record: WorkerRecord) -> None:
    """The time only begins with the config: a write that comes late costs the worker nothing."""
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
    begun, limit = record.waiting_since or record.since or draft.now, draft.spec.drain_timeout
    if draft.wait_until(begun + limit) or doubt_time(draft):
        return
    is_others = record.taken or record.reason == ScalingKind.QUEUE  # another job gets its place
    ours = record.ours if is_others else True
    taken = _has_part(draft.view, record)
    draft.remember(replace(record, reason=FORCED, taken=taken, ours=ours))
    seconds = limit.total_seconds()
    known = (
        f"left the host list {seconds:.0f} s ago, and nothing tells that it has no process any more"
        if record.served
        else f"was to leave the host list {seconds:.0f} s ago, and nothing tells that it has"
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


def doubt_time(draft: Draft) -> bool:
    """Whether a time that has passed is yet to be believed, where its end cannot be taken back."""
    return draft.wait_out(draft.view.snapshot.complete_since, CERTAIN_AFTER)


def describe_held_drains(standing: Standing) -> str:
    """The drains whose time is over while a watch is cut, or a clock wrong; "" for none."""
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
        and _is_draining(standing.view, record)
    ]
    if not held:
        return ""
    return (
        f"{name_some(held)}: drainTimeoutSeconds are over, but nothing is heard of pods, config "
        "maps or jobs at the moment, so that they may have left, or the operator's clock is far "
        "from the API server's: no worker is ended by force before that is over; the operator's "
        "log, or its readiness, says what it is"
    )


def _is_held_by_script(view: View, record: WorkerRecord) -> bool:
    scaling = view.status.scaling
    if scaling is None or scaling.outcome is not None:
        return False
    if record.uid not in view.victims:
        return False
    return not view.is_script_done(scaling)
