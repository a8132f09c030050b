"""That a launcher was there, and what its end means: whose it is, and what is said of it.

What follows from an end is for finishing.py and restarting.py. Nobody is blamed for what was merely
not seen: such a verdict rests on live reads (`rest_on_launcher`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto

from et_contract.names import build_report_name
from et_kube.resources import CONFIG_MAPS, PODS
from et_operator.model.pods import Pod, Termination
from et_operator.model.statuses import WorkerRecord
from et_operator.model.texts import MAX_TAIL, keep_end
from et_operator.planning.attributing import (
    TERMINATED,
    find_own_end,
    is_done,
    is_told_to_end,
    may_be_of_script,
    show_told_end,
)
from et_operator.planning.drafts import Draft
from et_operator.planning.ends import (
    NEEDS_PYTHON,
    is_cut_off,
    is_disrupted,
    is_failed_by_node,
    is_image_unfit,
    is_taken,
    is_unseen,
)
from et_operator.planning.excusing import check_shortage, excuse_failure, is_ours, was_wanted
from et_operator.planning.views import View

TELLING = timedelta(seconds=60)
"""So long after a launcher's container has ended its broker may still tell how the command did."""


class Ending(Enum):
    """How a launcher ended, or must end: what that means for its job."""

    SUCCEEDED = auto()
    """The user's command ended with 0, of its own accord."""
    FAILED = auto()
    """The command failed before anybody told it to end, and not for a worker that was lost."""
    BROKEN = auto()
    """The command failed too, as far as seen: perhaps as it was told to end, or by its template."""
    STALLED = auto()
    """The command hangs: another launcher follows, whatever restartPolicy says."""
    LOST = auto()
    """Through the platform's fault; too many of these in a row, and the job is given up."""
    FORCED = auto()
    """Through what we did to its workers for the job's own sake: as LOST, and longer in a row."""
    TAKEN = auto()
    """The platform wanted its place, which says nothing about the job, however often."""

    @property
    def is_failure(self) -> bool:
        """Whether it is a failure of the job's own: restartPolicy says what follows."""
        return self in {Ending.FAILED, Ending.BROKEN, Ending.STALLED}


@dataclass(frozen=True, slots=True)
class Verdict:
    """An ending, with what is said of it; `code` is None when no container told one."""

    ending: Ending
    reason: str
    message: str
    code: int | None = None


_DELETED = "the launcher pod was deleted"
_SUCCESS = Verdict(Ending.SUCCEEDED, "LauncherSucceeded", "the user's command ended with 0", 0)


def note_launcher(draft: Draft) -> None:
    """Remember the launcher's uid, so that one that vanishes is known to have been there.

    One that vanished before anybody looked is known from its report. Not where a part of the status
    cannot be read, which may be just that.
    """
    view = draft.view
    if view.job.unread or draft.status.launcher_uid:
        return
    uid = view.launcher.uid if view.launcher is not None else _find_vanished_launcher(view)
    if view.launcher is None and uid:
        draft.rest_on(PODS, view.launcher_name)
    if uid:
        draft.change(launcher_uid=uid)


def judge_launcher(draft: Draft) -> Verdict | None:
    """What the end of this epoch's launcher means; None while it has not ended.

    Without a usable spec nothing but a success is certain (see following.py).
    """
    view = draft.view
    uid = view.status.launcher_uid
    if not uid:
        return None
    pod = view.pods.get(uid)
    if pod is not None and view.is_awaited(pod):
        return None
    pod = show_told_end(view, pod)
    if is_done(view, pod):
        return _SUCCESS
    if pod is not None and _await_report(draft, pod):
        return None  # whether the command had ended before somebody told it to
    verdict = _judge_end(draft, pod)
    if verdict.ending is Ending.SUCCEEDED:
        rest_on_launcher(draft)  # its report may say that the command had been told to end
    return verdict


def await_verdict(draft: Draft) -> bool:
    """Whether this epoch's command has ended, and `judge_launcher` is soon to say what that means.

    Until then nothing gives the job up or puts the epoch away: it may have ended with 0. An end
    with 0 is told before its container is seen to end; any other may be no news by then.
    """
    view = draft.view
    pod = view.pods.get(view.status.launcher_uid)
    if pod is None:
        return False
    if view.is_awaited(pod):
        return view.report is not None and view.report.is_done
    return await_told_end(draft)


def await_told_end(draft: Draft) -> bool:
    """Whether the launcher's container has ended, and its broker may yet tell how that went."""
    pod = draft.view.pods.get(draft.view.status.launcher_uid)
    return pod is not None and not draft.view.is_awaited(pod) and _await_report(draft, pod)


def rest_on_launcher(draft: Draft) -> None:
    """Somebody is blamed, or an end other than success recorded, only after live reads.

    Of the report, for the launcher's object may go, and be seen to go, before the news that its
    command had ended with 0, or had a worker that was lost; and of the launcher, where it is
    missing, for a list of pods may be older than the status that has its uid.
    """
    view = draft.view
    draft.rest_on(CONFIG_MAPS, build_report_name(view.job.key.name))
    if view.launcher is None:
        draft.rest_on(PODS, view.launcher_name)


def _find_vanished_launcher(view: View) -> str:
    """The uid of a launcher of this epoch that nobody has noted; "" where there was none.

    A report of this very epoch tells of it. Whoever may create ConfigMaps can have put one there
    before the job had pods, but not with uids of its workers in it.
    """
    report = view.snapshot.report
    if report is None or not view.status.epoch or report.epoch != view.status.epoch:
        return ""
    return "" if report.listed.isdisjoint(view.members) else report.launcher_uid


def _await_report(draft: Draft, pod: Pod) -> bool:
    """Whether the broker of a launcher that has ended may still report its command's end.

    Not for ever: containers beside it may live on when the broker has gone.
    """
    report = draft.view.report
    has_told = report is not None and report.ended is not None
    if has_told or draft.view.is_silent(pod):
        return False
    ended = pod.termination.finished if pod.termination else None
    return draft.wait_out(ended or pod.deletion_requested or pod.created, TELLING)


def _judge_end(draft: Draft, pod: Pod | None) -> Verdict:
    """Who caused the end of a launcher whose command was not told to have ended well.

    What the command did by itself is its own, whatever became of its pod since.
    """
    end = find_own_end(draft.view, pod)
    verdict = _judge_pod(draft.view, pod) if end is None else _judge_exit(pod, end)
    is_by_template = end is None and pod is not None and is_cut_off(pod)
    if not verdict.ending.is_failure or is_by_template:
        return verdict
    lost = excuse_failure(draft, pod)
    if not lost and not check_shortage(draft, pod):
        return verdict if end is None else replace(verdict, ending=Ending.FAILED)
    names = ", ".join(record.name for record in lost)
    were = "was" if len(lost) == 1 else "were"
    why = f"{names} {were} lost" if names else "too few workers were left for its command to go on"
    message = f"{why}, and {verdict.message}"
    return Verdict(_judge_losses(draft.view, lost), "WorkerLost", message)


def _judge_losses(view: View, lost: Iterable[WorkerRecord]) -> Ending:
    others = [record for record in lost if not was_wanted(view, record)]
    if not others:
        return Ending.TAKEN
    are_ours = all(is_ours(record, view.pods.get(record.uid)) for record in others)
    return Ending.FORCED if are_ours else Ending.LOST


def _judge_pod(view: View, pod: Pod | None) -> Verdict:
    """What the end means as far as the pod shows it."""
    if pod is None:
        return _find_move(view, None) or _lose("LauncherDeleted", _DELETED, is_taken=True)
    if is_cut_off(pod):
        return _judge_end_by_template(pod, f"{pod.pod_reason}: {pod.pod_message}")
    if pod.termination is None or _is_ended_by_platform(view, pod):
        message = _describe_disruption(pod)
        lost = _lose("LauncherDisrupted", message, is_taken=is_taken(pod))
        return _find_move(view, pod) or lost
    if is_told_to_end(view):
        return _judge_end_by_template(pod, "SIGTERM, as of a probe that failed")
    if (move := view.status.launcher_move) is not None and may_be_of_script(view):
        message = f"its command ended as spec.noticeScript ran, for its node ends: {move.reason}"
        return _lose("LauncherMoved", f"{view.launcher_name}: {message}", is_taken=True)
    return _judge_exit(pod, pod.termination)


def _find_move(view: View, pod: Pod | None) -> Verdict | None:
    """What is said of an end that was decided here, for its node's; None for any other."""
    move = view.status.launcher_move
    if move is None or move.at is None or move.uid != view.status.launcher_uid:
        return None
    if pod is not None and not pod.is_deleting:
        return None
    message = f"{view.launcher_name} was moved off its node before that ends: {move.reason}"
    return _lose("LauncherMoved", message, is_taken=True)


def _is_ended_by_platform(view: View, pod: Pod) -> bool:
    """Whether the launcher's exit code, if it has one, is of the platform's doing.

    A SIGTERM of which nothing on the pod tells is that of its node as it goes down without a word,
    or of a probe that its template asks for.
    """
    if is_disrupted(pod) or is_failed_by_node(pod) or pod.pod_reason:
        return True
    return is_told_to_end(view) and (not pod.is_probed or view.is_node_sick(pod))


def _judge_end_by_template(pod: Pod, why: str) -> Verdict:
    """What the author's own template has ended: a failure of the job, and no success by a 0.

    RestartPolicy ExitCode reads a SIGTERM, whatever the command made of it.
    """
    end = pod.termination
    how = f", and ended with exit code {end.exit_code}" if end else ""
    tail = keep_end(end.message.strip(), MAX_TAIL) if end else ""
    message = f"the launcher was told to end ({why}){how}" + (f": {tail}" if tail else "")
    return Verdict(Ending.BROKEN, "LauncherFailed", message, TERMINATED)


def _judge_exit(pod: Pod | None, end: Termination) -> Verdict:
    if end.exit_code == 0:
        return _SUCCESS
    tail = keep_end(end.message.strip(), MAX_TAIL)
    why = f" ({end.reason})" if end.reason not in {"", "Error"} else ""
    init = end.init_container
    who = f"the launcher's init container {init}" if init else "the launcher"
    message = f"{who} ended with exit code {end.exit_code}{why}" + (f": {tail}" if tail else "")
    if pod is not None and is_image_unfit(pod):
        return Verdict(Ending.BROKEN, "ImageUnfit", f"{message}; {NEEDS_PYTHON}", end.exit_code)
    reason = "InitContainerFailed" if init else "LauncherFailed"
    return Verdict(Ending.BROKEN, reason, message, end.exit_code)


def _lose(reason: str, message: str, *, is_taken: bool = False) -> Verdict:
    return Verdict(Ending.TAKEN if is_taken else Ending.LOST, reason, message)


def _describe_disruption(pod: Pod) -> str:
    end = pod.termination
    is_by_node = end is not None and (is_unseen(pod) or is_failed_by_node(pod))
    how, words = (end.reason, end.message) if end and is_by_node else ("ended from outside", "")
    why = pod.disruption_reason or pod.pod_reason or ("deleted" if pod.is_deleting else how)
    words = pod.pod_message or keep_end(words.strip(), MAX_TAIL)
    detail = f": {words}" if words else ""
    node = f" on node {pod.node}" if pod.node else ""
    return f"the launcher pod {pod.name} was disrupted{node} ({why}){detail}"
