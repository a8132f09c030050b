"""A launcher on a node that surely ends: another one takes its place elsewhere, before that.

It holds what all ranks meet by, so nothing of it can be made before: it ends as one whose place
the platform wanted, its workers stay, and the next one begins from the training's checkpoint. What
may end, or should have nothing new, moves no launcher, for that costs all of them their steps.

Nobody is moved in vain. The next one keeps off all nodes that are said to end, as workers do, and
who was put on such a node in spite of its word stays there. One that so finds no node is made anew:
that may go wherever there is room.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from et_contract.documents import ScriptOrder
from et_contract.names import ENV_DEADLINE, NOTICE_ORDER, build_report_name
from et_kube.notices import Notice, is_long_over
from et_kube.resources import CONFIG_MAPS
from et_kube.times import format_time
from et_operator.model.actions import Action
from et_operator.model.avoiding import list_avoided
from et_operator.model.notices import MAX_REMEMBERED
from et_operator.model.pods import Pod
from et_operator.model.specs import ScriptRight
from et_operator.model.statuses import LauncherMove
from et_operator.model.texts import MAX_TAIL, cut, keep_end
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import delete_pod, find_margin, tell_replaced
from et_operator.planning.presence import has_passed
from et_operator.planning.scripting import TIMED_OUT
from et_operator.planning.standings import Standing
from et_operator.planning.trimming import find_launcher_loss

PLACELESS = timedelta(minutes=3)
"""So long the next one keeps off nodes that are said to end, where no other takes it: an autoscaler
may bring one."""
LOOK = timedelta(seconds=30)
"""How often it is looked whether what keeps one where it is does so still."""
AHEAD = timedelta(minutes=10)
"""So long before it is to end its script is run: what is said for tomorrow may be taken back."""
STOPPING = timedelta(seconds=10)
"""So long after its time-out a script is waited for where nobody says when the node ends."""
YOUNG = timedelta(minutes=10)
"""So old is who is moved for what is not remembered: who takes its place may be put there, too."""
QUICK = 3
"""So many launchers in a row may each be moved young: by then each new one has a word of its own,
and the next would have one as well."""
FURTHEST = timedelta(hours=1)
"""A later moment is asked for again then."""
_FROM = "from the training's checkpoint"


def note_move(draft: Draft) -> None:
    """Record that its script runs, that the launcher is to end now, or that it stays after all."""
    pod, move, epoch = draft.view.launcher, draft.decided.launcher_move, draft.decided.epoch
    if move is not None and move.epoch < epoch - 1:
        draft.change(launcher_move=None)
    if pod is None or pod.epoch != epoch or pod.is_deleting:
        return
    if _has_told_end(draft) or draft.view.is_gone(pod):
        return  # its pod ends by itself, and what ran in it tells by whose doing
    notice = _find_word(draft, pod)
    if notice is None:
        _take_back(draft, pod)
        return
    _note_script(draft, pod, notice)
    move = _find_own(draft, pod)
    is_due = _check_due(draft, pod, notice)
    if is_due and (move is None or move.at is None):
        _decide(draft, pod, notice)
    elif not is_due and move is not None and move.at is not None:
        draft.change(launcher_move=_undo(draft, move))


def build_notice_orders(standing: Standing) -> tuple[ScriptOrder, ...]:
    """The job's script for the launcher's own end, for the config; nothing where none runs.

    Its argument is the pod that ends, as a scaling's is those that leave.
    """
    pod, script = standing.view.launcher, standing.spec.notice_script
    move = _find_own(standing, pod) if pod is not None else None
    if pod is None or script is None or move is None or move.at is not None:
        return ()
    if move.started is None or move.code is not None or _find_word(standing, pod) is None:
        return ()
    end = move.deadline
    return (
        ScriptOrder(
            id=_build_order_id(move),
            script=script.script,
            hosts=pod.name,
            env=((ENV_DEADLINE, str(int(end.timestamp())) if end is not None else ""),),
            timeout_seconds=round(script.timeout.total_seconds()),
            is_shell=standing.spec.scripts is ScriptRight.SHELL,
        ),
    )


def delete_moved_launcher(draft: Draft) -> list[Action]:
    """Delete the launcher that was decided to be moved, or one that has found no node since.

    Not before its report was read: its command may just have ended by itself.
    """
    view, pod = draft.view, draft.view.launcher
    move = view.status.launcher_move
    if pod is None or move is None or pod.is_deleting or view.is_gone(pod):
        return []
    if move.uid == pod.uid:
        if move.at is None or _has_told_end(draft):
            return []
        draft.rest_on(CONFIG_MAPS, build_report_name(view.job.key.name))
        return [delete_pod(pod)]
    if pod.node is not None or not view.must_launcher_keep_off or not pod.avoids:
        return []
    if not check_come(draft, _find_beginning(draft, pod) + PLACELESS):
        return []
    why = "has found no node but those that are said to end: the next one may go there, too"
    return [tell_replaced(draft, pod, why)]


def describe_move(standing: Standing, pod: Pod) -> str:
    """What is surely said of the launcher's end, and what becomes of it; "" where nothing is."""
    notice = standing.view.find_firm_notice(pod)
    if notice is None:
        return ""
    word, deadline = _describe_word(pod, notice), notice.deadline
    at = f", at {_show(deadline)}" if deadline is not None else ""
    bar = _find_bar(standing, pod, notice)
    return f"{word}{at}{bar or _describe_fate(standing, pod, notice)}"


def check_come(draft: Draft, moment: datetime) -> bool:
    """Whether this moment has come; asks to be woken when it has."""
    if draft.now < moment:
        draft.wake_at(min(moment, draft.now + FURTHEST))
    return draft.now >= moment


def _find_word(standing: Standing, pod: Pod) -> Notice | None:
    """What is surely said of its end and counts by now; None where it is to go on, or ends."""
    view, notice = standing.view, standing.view.find_firm_notice(pod)
    if notice is None or pod.node is None or view.is_gone(pod) or standing.spec.suspend:
        return None
    return None if is_long_over(notice.deadline, standing.now) else notice


def _has_told_end(standing: Standing) -> bool:
    report = standing.view.report
    return report is not None and report.ended is not None


def _find_own(standing: Standing, pod: Pod) -> LauncherMove | None:
    """What is recorded of this launcher."""
    move = standing.decided.launcher_move
    return move if move is not None and move.uid == pod.uid else None


def _note_script(draft: Draft, pod: Pod, notice: Notice) -> None:
    """Record that the job's script is to run in this launcher, once for a word, or its result.

    Also in one that stays: nothing else is left to save what it has.
    """
    move, view = _find_own(draft, pod), draft.view
    rest = _find_rest(draft, pod, notice)
    if move is not None:
        stays = rest is not None or bool(_find_bar(draft, pod, notice))
        if move.started is not None and move.code is None:
            _take_result(draft, move, move.started, stays=stays)
        return
    if draft.spec.notice_script is None or not view.is_launcher_running or view.report is None:
        return
    if rest is not None and _count_row(draft, pod) > QUICK:
        draft.wake_at(rest)  # it may end the command, and so would the next one's
        return
    moment, end = _find_moment(draft, pod, notice)
    if end is not None and (draft.now >= moment or not check_come(draft, moment - AHEAD)):
        return
    word = format_time(notice.since or draft.now)
    new = replace(_begin(draft, pod, notice), deadline=end, word=word)
    draft.change(launcher_move=replace(new, started=draft.now))
    draft.tell("NoticeScript", f"launcher {_describe_word(pod, notice)}: spec.noticeScript runs")


def _take_result(draft: Draft, move: LauncherMove, started: datetime, *, stays: bool) -> None:
    """Record how its script has ended.

    In a launcher that stays, when its time is over, whatever came: until then the command may end
    for what it was told. Nobody saves for more than ten minutes once the script itself has ended.
    """
    report = draft.view.report
    result = report.scripts.get(_build_order_id(move)) if report is not None else None
    if stays:
        spare = _find_script_end(draft, started) - draft.now - AHEAD
        if result is not None and spare > timedelta():
            started -= spare  # nothing else remembers since when its end is known
            draft.change(launcher_move=replace(move, started=started))
        if not check_come(draft, _find_script_end(draft, started)):
            return
    elif result is None:
        return
    code = TIMED_OUT if result is None or result.code is None else result.code
    draft.change(launcher_move=replace(move, code=code))
    if code != 0:
        tail = keep_end(result.output.strip(), MAX_TAIL) if result is not None else ""
        message = f"spec.noticeScript ended with exit code {code}" + (f": {tail}" if tail else "")
        draft.tell("ScriptFailed", message, is_warning=True)


def _take_back(draft: Draft, pod: Pod) -> None:
    """Forget that it was to end; not yet while its script has its time, for which it may end."""
    move = _find_own(draft, pod)
    if move is None:
        return
    is_decided = move.at is not None
    started = move.started if is_decided or move.code is None else None
    if started is None or check_come(draft, _find_script_end(draft, started)):
        draft.change(launcher_move=None)
    elif is_decided:
        draft.change(launcher_move=_undo(draft, move))


def _undo(standing: Standing, move: LauncherMove) -> LauncherMove | None:
    """A launcher that stays after all, and was not deleted: its script may still have it end."""
    if move.started is None:
        return None
    is_over = standing.now >= _find_script_end(standing, move.started)
    return replace(move, at=None, code=move.code if is_over else None)


def _find_script_end(standing: Standing, started: datetime) -> datetime:
    """When the time of its script is over, with that to end it."""
    script = standing.spec.notice_script
    return started + (script.timeout if script is not None else timedelta()) + STOPPING


def _check_due(draft: Draft, pod: Pod, notice: Notice) -> bool:
    """Whether the launcher is to end by now; asks to be woken when that may be otherwise."""
    snapshot = draft.view.snapshot
    if _find_bar(draft, pod, notice):
        if not (snapshot.has_quiet_nodes and snapshot.are_nodes_known):
            draft.wake_at(draft.now + LOOK)  # nobody tells of other nodes
        return False
    return check_come(draft, _find_latest(draft, pod, notice))


def _decide(draft: Draft, pod: Pod, notice: Notice) -> None:
    move = _find_own(draft, pod) or _begin(draft, pod, notice)
    draft.change(launcher_move=replace(move, at=draft.now))
    told = f"launcher {_describe_word(pod, notice)}: it ends now{_describe_unrun(draft, move)}"
    draft.tell("LauncherMoved", f"{told}, and another one goes on elsewhere, {_FROM}")


def _begin(standing: Standing, pod: Pod, notice: Notice) -> LauncherMove:
    is_grown = has_passed(standing.now, _find_beginning(standing, pod), 2 * YOUNG)
    row = 0 if is_grown else _count_row(standing, pod)
    return LauncherMove(pod.uid, pod.epoch or 0, _describe_reason(pod, notice), row=row)


def _count_row(standing: Standing, pod: Pod) -> int:
    """How many right before it were moved, all but the first of them young."""
    move = standing.decided.launcher_move
    if move is None or move.uid == pod.uid:
        return move.row if move is not None else 0
    is_next = move.at is not None and move.epoch + 1 == pod.epoch
    return move.row + 1 if is_next else 0


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


def _find_latest(standing: Standing, pod: Pod, notice: Notice) -> datetime:
    """When it ends: by now if its script has ended; else at its moment, whatever runs.

    Where nobody says until when it may go on, a script has its time. None ends a young one that is
    to stay for a while.
    """
    move, (moment, end) = _find_own(standing, pod), _find_moment(standing, pod, notice)
    script, now = standing.spec.notice_script, standing.now
    if move is None or move.started is None:
        return moment
    least = _find_rest(standing, pod, notice) or now
    if move.code is not None or script is None:
        return least
    return moment if end is not None else max(_find_script_end(standing, move.started), least)


def _find_moment(standing: Standing, pod: Pod, notice: Notice) -> tuple[datetime, datetime | None]:
    """When it ends at the latest, at once where nobody says until when; and until when."""
    now = standing.now
    end = standing.find_deadline(pod, notice)
    moment = end - find_margin(standing) if end is not None else now
    return max(moment, _find_rest(standing, pod, notice) or moment), end


def _find_rest(standing: Standing, pod: Pod, notice: Notice) -> datetime | None:
    """Until when a young one stays, whatever is said; None where it need not.

    That is where the next one might have to be moved as soon: not all nodes that end can be named
    to it, or so it has been with several before.
    """
    view = standing.view
    are_named = len(view.avoided_nodes) == len(view.ending_nodes)
    is_new = _count_row(standing, pod) <= QUICK
    if are_named and is_new and standing.list_noted(pod, notice):
        return None
    end = _find_beginning(standing, pod) + YOUNG
    return end if standing.now < end else None


def _find_beginning(standing: Standing, pod: Pod) -> datetime:
    """Since when it is there, by the server's clock and by ours, whichever of them is ahead.

    Ours has noted when the one before it was lost. So a wait is longer where our clock is behind,
    and no shorter where it is ahead.
    """
    return max(pod.created, find_launcher_loss(standing.decided) or pod.created)


def _build_order_id(move: LauncherMove) -> str:
    """Names one word about one launcher for ever."""
    return f"{NOTICE_ORDER}{move.uid}/{move.word}"


def _describe_fate(standing: Standing, pod: Pod, notice: Notice) -> str:
    latest, move = _find_latest(standing, pod, notice), _find_own(standing, pod)
    when = f"at {_show(latest)} it ends" if standing.now < latest else "it ends"
    if move is not None and move.started is not None and move.code is None:
        when = f"once spec.noticeScript has ended, or {when}"
    return f"; {when}, and another launcher goes on elsewhere, {_FROM}"


def _describe_unrun(standing: Standing, move: LauncherMove) -> str:
    """That the move's script has not run, or not to its end, which nobody waits for any longer."""
    if standing.spec.notice_script is None or move.code is not None:
        return ""
    is_begun = move.started is not None
    return f", before spec.noticeScript has {'ended' if is_begun else 'run, for there is no time'}"


def _describe_reason(pod: Pod, notice: Notice) -> str:
    return cut(f"{pod.node}: {notice}", 2 * MAX_REMEMBERED)


def _describe_word(pod: Pod, notice: Notice) -> str:
    return f"{pod.name} on {pod.node}: {notice}"


def _show(moment: datetime) -> str:
    return format_time(moment.replace(microsecond=0))
