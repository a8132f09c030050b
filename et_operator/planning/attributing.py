"""Whose an end is that a broker told: the command's own, or of who had told it to end.

Reads a view and its launcher's pod, and changes nothing. Where nobody can tell, it says that nobody
has told: blaming the command is for judging.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from et_operator.codec.pods import has_pre_stop
from et_operator.model.conditions import END_UNSEEN, find_condition, is_true
from et_operator.model.pods import Pod, Termination
from et_operator.planning.ends import is_disrupted
from et_operator.planning.views import View

TERMINATED = 128 + 15
"""The exit code of a command that SIGTERM has ended."""
CLOCKS = timedelta(seconds=5)
"""Times of two machines that differ by no more do not tell what came first."""
UNSEEN_AFTER = timedelta(minutes=2)
"""So long after the end of a command was heard its container is waited for (lingering.py)."""


def find_told_end(view: View) -> datetime | None:
    """When a command ended of which that was told, and whose container is not seen to end."""
    conditions = view.status.conditions
    condition = find_condition(conditions, END_UNSEEN)
    said = condition.last_transition_time if condition is not None else None
    if said is None or not is_true(conditions, END_UNSEEN):
        return None
    told = said - UNSEEN_AFTER
    return min(view.snapshot.told_since or told, told)


def show_told_end(view: View, pod: Pod | None) -> Pod | None:
    """The launcher's pod as it would be had its container been seen to end when that was told.

    Its deletion is our own doing then, and whatever is seen of it later follows from that.
    """
    end = find_told_end(view)
    if pod is None or end is None or view.report is None or view.report.ended is None:
        return pod
    told, seen = Termination(view.report.ended, finished=end), pod.termination
    if seen is not None and seen.exit_code == told.exit_code:
        told = replace(seen, finished=end)  # late, and with the command's last words
    return replace(pod, termination=told, deletion_requested=None, deletion_grace_seconds=None)


def is_done(view: View, pod: Pod | None) -> bool:
    """Whether the command ended with 0 of its own accord; `pod` is its launcher's, if still there.

    The word of a former broker, which does not say who ended it, is taken for that.
    """
    report = view.report
    if report is None or not report.is_done:
        return False
    return not _may_be_of_hook(view, pod) and not may_be_of_script(view)


def find_own_end(view: View, pod: Pod | None) -> Termination | None:
    """How the command ended before it was told to; None where its broker has not said so.

    An end by SIGTERM says nothing: a node that goes down may send it to all processes at once, and
    the command ends before its PID 1 has seen its own.
    """
    report = view.report
    if report is None or report.ended in {None, TERMINATED}:
        return None
    if report.is_told_to_end is not False or _may_be_of_hook(view, pod) or may_be_of_script(view):
        return None
    shown = pod.termination if pod is not None else None
    is_same = shown is not None and shown.exit_code == report.ended
    return shown if is_same else Termination(report.ended)


def is_told_to_end(view: View) -> bool:
    """Whether PID 1 had sent SIGTERM to the command before it ended."""
    return view.report is not None and view.report.is_told_to_end is True


def may_be_of_script(view: View) -> bool:
    """Whether the job's own script may have had the command save and end, before its node does.

    That ran in this launcher, or had, and the launcher was to end for that. Of one that stays, what
    its command does later is its own.
    """
    move = view.status.launcher_move
    if move is None or move.uid != view.status.launcher_uid or move.started is None:
        return False
    return move.code is None or move.at is not None


def _may_be_of_hook(view: View, pod: Pod | None) -> bool:
    """Whether whoever ended the pod may have ended the command through its preStop hook.

    A kubelet runs that first, and PID 1 knows of the SIGTERM alone that follows. Of a pod that is
    gone nobody knows when its command ended; but where that was told long before.
    """
    if is_true(view.status.conditions, END_UNSEEN):
        return False
    if pod is None:
        spec = view.job.spec
        return spec is not None and has_pre_stop(spec.launcher_template["spec"]["containers"][0])
    if not pod.has_pre_stop or not (is_disrupted(pod) or pod.pod_reason):
        return False
    asked, end = pod.end_requested, pod.termination.finished if pod.termination else None
    return asked is None or end is None or end + CLOCKS >= asked
