"""Jobs that are only followed: never scaled, mended, restarted or given up.

Who may not decide does not conclude. Of a job of our own nothing is recorded but what is certain
whatever its spec and status would say: that its command ended with 0. Every other end is judged
once the fault is corrected, by what the job then allows. One that another operator runs has its end
from its launcher alone.
"""

from __future__ import annotations

from et_operator.model.conditions import is_true
from et_operator.model.pods import Pod
from et_operator.planning.drafts import Draft
from et_operator.planning.judging import Ending, judge_launcher, note_launcher
from et_operator.planning.standings import Standing
from et_operator.planning.stopping import fail, succeed

UNJUDGED = "its launcher has ended, and what follows from that is decided once this is corrected"


def follow(draft: Draft) -> None:
    """Say why it is only followed, and record an end that is certain."""
    if draft.view.is_foreign:
        _follow_foreign(draft)
    elif _has_never_begun(draft):
        fail(draft, "InvalidSpec", draft.view.job.invalid or "the spec cannot be used")
    else:
        _follow_own(draft)


def _has_never_begun(standing: Standing) -> bool:
    """Whether the job was refused when it came: then it ends, nothing of it is there to go on."""
    status, view = standing.status, standing.view
    if view.job.unread or status.epoch or status.is_suspended:
        return False
    return not view.snapshot.pods


def _follow_foreign(draft: Draft) -> None:
    message = (
        "this job was started by another operator, which has written its status first, and is "
        "followed to its end: to have it run here, delete it and create it again"
    )
    draft.set_condition("Foreign", "True", "StartedElsewhere", message)
    pod = draft.view.launcher
    if not draft.status.epoch:
        pod = max(draft.view.launchers, key=lambda pod: pod.created, default=None)
    _show_running(draft, pod)
    if pod is None or not pod.has_ended:
        return
    code = pod.termination.exit_code if pod.termination else None
    if code == 0 or (code is None and pod.phase == "Succeeded"):
        succeed(draft, "the launcher ended with 0")
    else:
        how = f"ended with exit code {code}" if code is not None else "failed"
        fail(draft, "LauncherFailed", f"the launcher pod {pod.name} {how}")


def _follow_own(draft: Draft) -> None:
    view, uid = draft.view, draft.view.status.launcher_uid
    note_launcher(draft)
    _show_running(draft, view.launcher)
    verdict = judge_launcher(draft)
    if verdict is not None and verdict.ending is Ending.SUCCEEDED:
        succeed(draft, verdict.message)
        return
    end = ""
    if uid and view.is_uid_gone(uid):
        draft.clear_condition("Running", "LauncherNotRunning")
        end = f"; {UNJUDGED}"
    if view.job.unread:
        _tell_damage(draft, end)
    else:
        message = (view.job.invalid or "the spec cannot be used") + end
        draft.set_condition("InvalidSpec", "True", "InvalidSpec", message)


def _show_running(draft: Draft, pod: Pod | None) -> None:
    if pod is not None and pod.is_container_running and not draft.view.is_gone(pod):
        draft.set_condition("Running", "True", "JobRunning", "the launcher runs")


def _tell_damage(draft: Draft, end: str) -> None:
    """Nothing is guessed: what a decision was that cannot be read, only its writer knows."""
    is_told = is_true(draft.status.conditions, "StatusDamaged")
    faults = "; ".join(draft.view.job.unread.values())
    why = f"{faults}: the job is only followed until that is corrected, or its operator is back"
    draft.set_condition("StatusDamaged", "True", "Unreadable", why + end)
    if not is_told:
        draft.tell("StatusDamaged", why, is_warning=True)
