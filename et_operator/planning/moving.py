"""A launcher on a node that surely ends: another one takes its place elsewhere, before that.

It holds what all ranks meet by, so nothing of it can be made before: it ends as one whose place
the platform wanted, its workers stay, and the next one begins from the training's checkpoint. What
may end, or should have nothing new, moves no launcher, for that costs all of them their steps.

Nobody is moved in vain. The next one keeps off all nodes that are said to end, as workers do, and
who was put on such a node in spite of its word stays there. One that so finds no node is made anew:
that may go wherever there is room.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from et_contract.names import build_report_name
from et_kube.notices import Notice, is_long_over
from et_kube.resources import CONFIG_MAPS
from et_kube.times import format_time
from et_operator.model.actions import Action
from et_operator.model.avoiding import list_avoided
from et_operator.model.notices import MAX_REMEMBERED
from et_operator.model.pods import Pod
from et_operator.model.statuses import LauncherMove
from et_operator.model.texts import cut
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import delete_pod, find_margin
from et_operator.planning.standings import Standing

PLACELESS = timedelta(minutes=3)
"""So long the next one keeps off nodes that are said to end, where no other takes it: an autoscaler
may bring one."""
LOOK = timedelta(seconds=30)
"""How often it is looked whether what keeps one where it is does so still."""
YOUNG = timedelta(minutes=10)
"""So old is who is moved for what is not remembered: who takes its place may be put there, too."""
FURTHEST = timedelta(hours=1)
"""A later moment is asked for again then."""


def note_move(draft: Draft) -> None:
    """Record that the launcher is to end now, or that it stays after all."""
    pod, move = draft.view.launcher, draft.decided.launcher_move
    epoch = draft.decided.epoch
    if move is not None and move.epoch < epoch - 1:
        draft.change(launcher_move=None)
    if pod is None or pod.epoch != epoch or pod.is_deleting:
        return
    is_decided = move is not None and move.uid == pod.uid
    notice = _judge_word(draft, pod)
    if notice is not None and not is_decided:
        reason = cut(f"{pod.node}: {notice}", 2 * MAX_REMEMBERED)
        draft.change(launcher_move=LauncherMove(pod.uid, epoch, reason, draft.now))
        message = f"launcher {_describe_word(pod, notice)}: it ends now, and another one goes on"
        draft.tell("LauncherMoved", f"{message} elsewhere, from the training's checkpoint")
    elif notice is None and is_decided:
        draft.change(launcher_move=None)


def delete_moved_launcher(draft: Draft) -> list[Action]:
    """Delete the launcher that was decided to be moved, or one that has found no node since.

    Not before its report was read: its command may just have ended by itself.
    """
    view, pod = draft.view, draft.view.launcher
    move = view.status.launcher_move
    if pod is None or move is None or pod.is_deleting or view.is_gone(pod):
        return []
    if move.uid == pod.uid:
        draft.rest_on(CONFIG_MAPS, build_report_name(view.job.key.name))
        return [delete_pod(pod)]
    if pod.node is not None or not view.must_launcher_keep_off or not pod.avoids:
        return []
    if draft.wait_out(pod.created, PLACELESS):
        return []
    why = "has found no node but those that are said to end: the next one may go there, too"
    draft.tell("LauncherReplaced", f"{pod.name} {why}")
    return [delete_pod(pod)]


def describe_move(standing: Standing, pod: Pod) -> str:
    """What is surely said of the launcher's end, and what becomes of it; "" where nothing is."""
    notice = standing.view.find_firm_notice(pod)
    if notice is None:
        return ""
    word, deadline = _describe_word(pod, notice), notice.deadline
    at = f", at {_show(deadline)}" if deadline is not None else ""
    moment = _find_moment(standing, pod, notice)
    when = f"at {_show(moment)} it ends" if standing.now < moment else "it ends"
    moved = f"; {when}, and another launcher goes on elsewhere, from the training's checkpoint"
    return f"{word}{at}{_find_bar(standing, pod, notice) or moved}"


def check_come(draft: Draft, moment: datetime) -> bool:
    """Whether this moment has come; asks to be woken when it has."""
    if draft.now < moment:
        draft.wake_at(min(moment, draft.now + FURTHEST))
    return draft.now >= moment


def _judge_word(draft: Draft, pod: Pod) -> Notice | None:
    """What is said of a launcher for which it is to end by now; None where it is to go on."""
    view, notice = draft.view, draft.view.find_firm_notice(pod)
    if notice is None or pod.node is None or view.is_gone(pod) or draft.spec.suspend:
        return None
    if view.report is not None and view.report.ended is not None:
        return None  # its pod ends by itself
    if _find_bar(draft, pod, notice):
        if not (view.snapshot.has_quiet_nodes and view.snapshot.are_nodes_known):
            draft.wake_at(draft.now + LOOK)  # nobody tells of other nodes
        return None
    return notice if check_come(draft, _find_moment(draft, pod, notice)) else None


def _find_bar(standing: Standing, pod: Pod, notice: Notice) -> str:
    """Why it is not moved, whatever the time is, in words that follow others; "" where it is."""
    view = standing.view
    if is_long_over(notice.deadline, standing.now):
        return ", which is over: it stays"
    if pod.notice is None and pod.node in list_avoided(pod.avoids):
        return "; it was put there in spite of that, so it stays until its node ends"
    if not view.snapshot.has_quiet_nodes:
        return "; that is said of every node, so it stays until its own ends"
    if pod.notice is None and not view.snapshot.are_nodes_known:
        return "; nothing is heard of nodes at the moment, so it stays until something is"
    return ""


def _find_moment(standing: Standing, pod: Pod, notice: Notice) -> datetime:
    """When it ends: at once where nobody says until when it may go on.

    Where not all nodes that end can be named to the next one, a young one stays for a while.
    """
    view, now = standing.view, standing.now
    is_noted = bool(standing.list_noted(pod, notice))
    is_dated = is_noted or notice.lead is None or notice.since != now
    end = notice.deadline if is_dated else None
    moment = end - find_margin(standing) if end is not None else now
    if is_noted and len(view.avoided_nodes) == len(view.ending_nodes):
        return moment
    return max(moment, standing.find_end(pod.created, YOUNG) or moment)


def _describe_word(pod: Pod, notice: Notice) -> str:
    return f"{pod.name} on {pod.node}: {notice}"


def _show(moment: datetime) -> str:
    return format_time(moment.replace(microsecond=0))
