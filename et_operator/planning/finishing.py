"""The end of a job: what is recorded, what is cleaned up, when it goes away."""

from __future__ import annotations

from collections.abc import Iterator

from et_operator.model.actions import Action, Delete
from et_operator.model.conditions import is_true
from et_operator.model.jobs import CleanPodPolicy, JobStatus
from et_operator.model.names import Role
from et_operator.model.pods import Pod
from et_operator.model.resources import PODS, TRAINING_JOBS, Ref
from et_operator.planning.drafts import Draft
from et_operator.planning.stopping import FINISHED, stop_scaling
from et_operator.planning.views import View, has_passed


def has_finished(status: JobStatus) -> bool:
    """Whether the job's end is recorded."""
    return is_true(status.conditions, "Succeeded") or is_true(status.conditions, "Failed")


def succeed(draft: Draft, message: str) -> None:
    """Record that the user's command ended well."""
    _finish(draft, "Succeeded", "JobSucceeded", message)


def fail(draft: Draft, reason: str, message: str) -> None:
    """Record that the job is given up, and why."""
    _finish(draft, "Failed", reason, message)


def check_deadline(draft: Draft) -> bool:
    """Give the job up when activeDeadlineSeconds are over; whether that was so."""
    limit, start = draft.spec.active_deadline, draft.status.start_time
    if limit is None or start is None:
        return False
    if not has_passed(draft.now, start, limit):
        draft.wake_at(start + limit)
        return False
    fail(draft, "DeadlineExceeded", f"the job ran longer than {limit.total_seconds():.0f} s")
    return True


def clean_up(draft: Draft) -> list[Action]:
    """Delete what the policy says must not stay; then, in its time, the job itself."""
    view, spec = draft.view, draft.view.job.spec
    policy = spec.clean_pod_policy if spec else CleanPodPolicy.RUNNING
    actions: list[Action] = [delete_pod(pod) for pod in _select_leftovers(view, policy)]
    ttl, end = spec.ttl_after_finished if spec else None, view.status.completion_time
    if ttl is None or end is None:
        return actions
    if has_passed(draft.now, end, ttl):
        job = view.job
        ref = Ref(TRAINING_JOBS, job.key.namespace, job.key.name)
        return [*actions, Delete(ref, job.uid, job.resource_version)]
    draft.wake_at(end + ttl)
    return actions


def delete_pod(pod: Pod) -> Delete:
    """Delete this very pod as it was seen."""
    return Delete(Ref(PODS, pod.namespace, pod.name), pod.uid, pod.resource_version)


def _finish(draft: Draft, kind: str, reason: str, message: str) -> None:
    stop_scaling(draft, FINISHED, "the job has ended")
    draft.change(completion_time=draft.now, workers=())
    draft.set_condition(kind, "True", reason, message)
    draft.tell(kind, message, is_warning=kind == "Failed")


def _select_leftovers(view: View, policy: CleanPodPolicy) -> Iterator[Pod]:
    for pod in view.snapshot.pods:
        is_over = pod.is_terminal or (pod.role is Role.LAUNCHER and pod.termination is not None)
        if not pod.is_deleting and _must_go(view, policy, is_over=is_over):
            yield pod


def _must_go(view: View, policy: CleanPodPolicy, *, is_over: bool) -> bool:
    if policy is CleanPodPolicy.ALL:
        return True
    if policy is CleanPodPolicy.RUNNING:
        return not is_over
    # a launcher that never told its end may have left processes in the workers
    has_told = view.report is not None and view.report.ended is not None
    return not is_over and not has_told and not is_true(view.status.conditions, "Foreign")
