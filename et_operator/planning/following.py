"""Jobs that are only looked at: those of another operator, and those whose spec cannot be used."""

from __future__ import annotations

from et_operator.model.conditions import is_true
from et_operator.model.pods import Pod
from et_operator.planning.drafts import Draft
from et_operator.planning.finishing import fail, succeed
from et_operator.planning.views import View


def is_only_followed(view: View) -> bool:
    """Whether the job is never scaled, replaced or restarted by us."""
    job = view.job
    is_foreign = job.is_foreign or is_true(job.status.conditions, "Foreign")
    return is_foreign or bool(job.invalid) or job.spec is None


def follow(draft: Draft) -> None:
    """Say why it is only followed, and record its launcher's end."""
    job = draft.view.job
    if job.is_foreign or is_true(job.status.conditions, "Foreign"):
        message = "this job was started by another operator and is followed to its end"
        draft.set_condition("Foreign", "True", "StartedElsewhere", message)
    elif job.status.epoch == 0:
        fail(draft, "InvalidSpec", job.invalid or "the spec cannot be used")
        return
    else:
        draft.set_condition("InvalidSpec", "True", "InvalidSpec", job.invalid)
    pod = _find_launcher(draft.view)
    if pod is not None and pod.is_container_running:
        draft.set_condition("Running", "True", "JobRunning", "the launcher runs")
    if pod is None or (pod.termination is None and not pod.is_terminal):
        return
    code = pod.termination.exit_code if pod.termination else None
    if code == 0 or (code is None and pod.phase == "Succeeded"):
        succeed(draft, "the launcher ended with 0")
    else:
        fail(draft, "LauncherFailed", f"the launcher ended with exit code {code}")


def _find_launcher(view: View) -> Pod | None:
    if view.status.epoch:
        return view.launcher
    return max(view.launchers, key=lambda pod: pod.created, default=None)
