"""What follows from the end of a job, for now or for good: suspension, deadline, clean-up, TTL.

The only place that records that a job is suspended or goes on; that it has ended, stopping.py does.
A worker is not deleted while a launcher's command may need it to save.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from et_contract.admissions import WAITING
from et_contract.pods import Role
from et_operator.model.actions import Action, Delete
from et_operator.model.conditions import STOPPED, is_true
from et_operator.model.pods import Pod
from et_operator.model.specs import CleanPodPolicy
from et_operator.model.statuses import WorkerState
from et_operator.model.texts import name_some
from et_operator.planning.admitting import is_held, is_queued
from et_operator.planning.attributing import may_be_of_script
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import CERTAIN_AFTER, HELD_UP, delete_pod, doubt_time
from et_operator.planning.presence import has_passed
from et_operator.planning.standings import Standing
from et_operator.planning.stopping import SUSPENDED, fail, stop_scaling
from et_operator.planning.trimming import TOLD_WITHIN, check_outlived
from et_operator.planning.views import View


def restore_end_time(draft: Draft) -> None:
    """Where somebody removed the time of its end, its time after the end begins now."""
    if draft.status.completion_time is None:
        draft.change(completion_time=draft.now)


def check_deadline(draft: Draft) -> bool:
    """Give the job up when activeDeadlineSeconds are over; whether that was so."""
    limit, start = draft.spec.active_deadline, draft.status.start_time
    if limit is None or start is None:
        return False
    if draft.wait_until(start + limit) or doubt_time(draft):
        return False
    fail(draft, "DeadlineExceeded", f"activeDeadlineSeconds ({limit.total_seconds():.0f}) are over")
    return True


def describe_held_deadline(standing: Standing) -> str:
    """That the deadline is over for long, and time is in doubt still; "" where it is not."""
    limit, start = standing.spec.active_deadline, standing.decided.start_time
    seen, now = standing.view.snapshot.complete_since, standing.now
    is_late = has_passed(now, start, limit + HELD_UP if limit is not None else None)
    if not is_late or has_passed(now, seen, CERTAIN_AFTER):
        return ""
    return (
        "activeDeadlineSeconds are over, but what is heard of pods, config maps or jobs is not "
        "complete yet, or cut off again and again, so that the command may have ended before, or "
        "the operator's clock is far from the API server's: the job is not given up before that is "
        "over; the operator's log, or its readiness, says what it is"
    )


def check_suspension(draft: Draft) -> None:
    """Record that the job is suspended, by its author or in its queue, or that it goes on."""
    if draft.spec.suspend and not draft.status.is_suspended:
        _suspend(draft)
    elif not draft.spec.suspend and draft.status.is_suspended:
        _resume(draft)
    elif draft.spec.suspend:
        _note_why(draft)


def wait_to_resume(draft: Draft) -> None:
    """Say why a job that its author has resumed is suspended still."""
    view = draft.view
    names = name_some([pod.name for pod in view.awaited_launchers] or [view.launcher_name])
    message = f"goes on once the command in {names} has ended: it may save its state"
    draft.set_condition("Suspended", "True", "Resuming", message)


def delete_all(view: View) -> list[Action]:
    """The launchers and the workers, but for those that a resume waits with.

    A launcher that has ended stays for its log, unless containers beside it live on.
    """
    launchers = [pod for pod in view.launchers if not pod.is_terminal]
    is_resumed = view.job.spec is not None and not view.job.spec.suspend
    is_kept = is_resumed and not view.job.deletion_requested
    return _stop(view, launchers if is_kept else (*launchers, *view.workers))


def clean_up(draft: Draft) -> list[Action]:
    """Delete the pods that must not stay: as the policy says, and those that were leaving.

    Of a job that is being deleted nothing runs on, whatever the policy.
    """
    job, spec = draft.view.job, draft.view.job.spec
    if spec is None or job.deletion_requested:
        policy = CleanPodPolicy.RUNNING
    else:
        policy = spec.clean_pod_policy
    return _stop(draft.view, _select_leftovers(draft, policy))


def delete_job(draft: Draft) -> list[Action]:
    """Delete the job itself when its time after the end is over; its children go with it.

    All at once: a launcher that is still being stopped is waited for.
    """
    job, end = draft.view.job, draft.view.status.completion_time
    ttl = job.spec.ttl_after_finished if job.spec else None
    if ttl is None or end is None or job.deletion_requested or draft.view.awaited_launchers:
        return []
    if draft.wait_until(end + ttl) or doubt_time(draft):
        return []
    return [Delete(job.key.ref, job.uid, job.resource_version)]


def _suspend(draft: Draft) -> None:
    if draft.status.decided_replicas is None:
        draft.change(decided_replicas=draft.spec.worker.replicas)
    stop_scaling(draft, SUSPENDED, "the job was suspended")
    for record in (*draft.select_unborn(), *draft.select_held()):
        if not record.uid:
            draft.forget(record.name)
    draft.change(start_time=None, launch_backoff=None, lost_launchers=None)
    if not may_be_of_script(draft.view):  # which may end the command before its pod is told to
        draft.change(launcher_move=None)
    if _are_keys_doubtful(draft):
        draft.change(keys_secret="")
    _note_why(draft)
    has_begun = bool(draft.status.epoch or draft.view.own_pods)
    if not is_held(draft.view.snapshot.job):
        all_end, made_so = "all pods are ended", "made suspended: nothing of it is started"
        draft.tell("Suspended", f"{all_end if has_begun else made_so} until the job is resumed")
    elif draft.status.epoch:
        draft.tell("Evicted", "all pods are ended until the job is admitted again")


def _note_why(draft: Draft) -> None:
    """A job that waits may be suspended, and one that is resumed may have to wait."""
    if is_held(draft.view.snapshot.job):
        draft.set_condition("Suspended", "True", WAITING, "waits in a queue")
        return
    draft.change(given_up=None)  # somebody has looked at it
    if any(map(draft.view.is_awaited, draft.view.own_pods)):
        message = "suspended by spec.suspend; its pods end, each has its grace to save"
        draft.set_condition("Suspended", "True", "Stopping", message)
    else:
        draft.set_condition("Suspended", "True", STOPPED, "suspended by spec.suspend")


def _are_keys_doubtful(standing: Standing) -> bool:
    """Whether the Secret of keys may be gone: where it is to be mounted, nothing has started."""
    secret = standing.status.keys_secret
    pods = [p for p in standing.view.own_pods if p.keys_secret == secret and p.node]
    return bool(pods) and not any(pod.has_container_started for pod in pods)


def _resume(draft: Draft) -> None:
    """The next launcher is of the next epoch: it ends whatever the last one left behind.

    Its pods have the keys that the job has: the operator may delete none that are of no use any
    more. With another runtime come other keys, as that reads them.
    """
    draft.set_condition("Suspended", "False", "JobResumed", "the job may have pods")
    draft.clear_condition("Restarting", "Resumed")
    if is_queued(draft.view.job):
        draft.change(decided_replicas=draft.spec.worker.replicas)
    if draft.status.epoch == 0:
        return
    draft.change(epoch=draft.status.epoch + 1, launcher_uid="", start_time=draft.now)
    if all(draft.view.is_gone(pod) for pod in draft.view.own_pods):
        shipped = draft.view.snapshot.shipped.runtime
        keys_secret = draft.status.keys_secret if draft.status.runtime == shipped else ""
        draft.change(runtime=shipped, keys_secret=keys_secret)
    draft.tell("Resumed", "the job goes on with a new launcher")


def _stop(view: View, pods: Iterable[Pod]) -> list[Action]:
    """Delete these, a worker once no launcher is awaited: its command may need it to save."""
    going = (pod for pod in pods if not pod.is_deleting)
    are_kept = bool(view.awaited_launchers)
    return [delete_pod(pod) for pod in going if pod.role is Role.LAUNCHER or not are_kept]


def _select_leftovers(draft: Draft, policy: CleanPodPolicy) -> Iterator[Pod]:
    view = draft.view
    leaving = {r.uid for r in view.status.workers if r.state is WorkerState.LEAVING}
    for pod in view.snapshot.pods:
        is_over = pod.is_terminal or (pod.role is Role.LAUNCHER and pod.is_over)
        is_log = is_over and policy is CleanPodPolicy.RUNNING and not check_outlived(draft, pod)
        is_wanted = policy is CleanPodPolicy.NONE or is_log
        if not is_wanted or pod.uid in leaving or (not is_over and _await_told_end(draft)):
            yield pod


def _await_told_end(draft: Draft) -> bool:
    """Whether the launcher never told its end: then processes of its may live on in the workers."""
    view, end = draft.view, draft.view.status.completion_time
    has_told = view.report is not None and view.report.ended is not None
    if has_told or end is None or is_true(view.status.conditions, "Foreign"):
        return False
    return bool(view.awaited_launchers) or not draft.wait_until(end + TOLD_WITHIN)
