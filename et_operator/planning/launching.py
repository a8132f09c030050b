"""The launcher: when it may start, and what its end means."""

from __future__ import annotations

from dataclasses import dataclass

from et_operator.model.jobs import LauncherCreation
from et_operator.model.names import build_launcher_name, build_worker_selector
from et_operator.model.pods import Pod
from et_operator.planning.drafts import Draft
from et_operator.planning.views import View, is_disrupted

UNFIT_REASONS = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})
COMMAND_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Ending:
    """How the launcher of the current epoch ended; `code` is None when no container told."""

    reason: str
    message: str
    code: int | None = None
    is_success: bool = False
    is_infrastructure: bool = False


def begin(draft: Draft) -> None:
    """The first decision about a job: what it runs, and that its first launcher comes."""
    draft.change(
        epoch=1,
        runtime=draft.view.snapshot.shipped.runtime,
        start_time=draft.now,
        selector=build_worker_selector(draft.view.job.key.name),
        decided_replicas=draft.spec.worker.replicas,
    )
    draft.set_condition("Created", "True", "TrainingJobCreated", "the job was accepted")
    draft.tell("Created", f"starting {draft.spec.worker.replicas} workers and the launcher")
    for warning in draft.view.job.warnings:
        draft.tell("SpecWarning", warning, is_warning=True)


def note_launcher(draft: Draft) -> None:
    """Remember the launcher's uid, so that one that vanishes is known to have been there."""
    pod = draft.view.launcher
    if pod is not None and not draft.status.launcher_uid:
        draft.change(launcher_uid=pod.uid)


def judge_launcher(view: View) -> Ending | None:
    """What the end of this epoch's launcher means; None while it has not ended."""
    uid = view.status.launcher_uid
    if not uid:
        return None
    pod = view.pods.get(uid)
    has_stopped = pod is None or pod.termination is not None or view.is_gone(pod)
    if not has_stopped:
        return None
    if view.report is not None and view.report.ended == 0:
        return Ending("LauncherSucceeded", "the user's command ended with 0", 0, is_success=True)
    if pod is None:
        return _lose("LauncherDeleted", "the launcher pod was deleted")
    if pod.termination is None or is_disrupted(pod):
        return _lose("LauncherDisrupted", _describe_disruption(pod))
    return _judge_exit(pod, pod.termination.exit_code)


def can_launch(draft: Draft) -> bool:
    """Whether the workers that the launcher waits for, if it does, run."""
    if draft.spec.launcher_creation is LauncherCreation.AT_STARTUP:
        return True
    worker = draft.spec.worker
    needed = worker.min_replicas or draft.status.decided_replicas or worker.replicas
    running = sum(pod.is_container_running for pod in draft.view.select_live_workers())
    return running >= needed


def is_image_unfit(pod: Pod) -> bool:
    """Whether the container could not be started with our PID 1 (most often: no python3 in it)."""
    end = pod.termination
    if end is not None and end.exit_code == COMMAND_NOT_FOUND and "python3" in end.message:
        return True
    reason = end.reason if end is not None else pod.waiting_reason
    return reason in UNFIT_REASONS


def describe_launcher(view: View) -> str:
    """The name that this epoch's launcher has or will have."""
    return build_launcher_name(view.job.key.name, view.status.epoch)


def _judge_exit(pod: Pod, code: int) -> Ending:
    if code == 0:
        return Ending("LauncherSucceeded", "the user's command ended with 0", 0, is_success=True)
    end = pod.termination
    tail = end.message.strip() if end is not None else ""
    why = f" ({end.reason})" if end is not None and end.reason not in {"", "Error"} else ""
    message = f"the launcher ended with exit code {code}{why}" + (f": {tail}" if tail else "")
    return Ending("ImageUnfit" if is_image_unfit(pod) else "LauncherFailed", message, code)


def _lose(reason: str, message: str) -> Ending:
    return Ending(reason, message, is_infrastructure=True)


def _describe_disruption(pod: Pod) -> str:
    why = pod.disruption_reason or pod.pod_reason or ("deleted" if pod.is_deleting else "ended")
    detail = f": {pod.pod_message}" if pod.pod_message else ""
    node = f" on node {pod.node}" if pod.node else ""
    return f"the launcher pod {pod.name} was disrupted{node} ({why}){detail}"
