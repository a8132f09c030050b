"""What scripts may know of the end of the pods that they run in.

Only what is firm, whatever the job is moved for: a script is to hear of what surely comes. What is
over for long is none any more, as for all who would be moved for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from et_contract.documents import MAX_NOTICE, Member, MemberState, ToldNotice
from et_contract.texts import clean
from et_kube.notices import Notice, choose_notice, is_long_over
from et_kube.times import format_time
from et_operator.model.notices import MAX_REMEMBERED, Place, build_key
from et_operator.model.pods import Pod
from et_operator.model.specs import NoticeSignal
from et_operator.model.statuses import JobStatus
from et_operator.model.texts import cut
from et_operator.planning.views import View

TELLS_OF_NOTICES = 3
"""The first runtime whose broker tells agents and PID 1 of notices."""


def build_notices(
    view: View, status: JobStatus, members: Collection[Member]
) -> tuple[ToldNotice, ...]:
    """What is told to these members and the launcher; those of whom the same is told together."""
    if status.runtime is None or status.runtime.version < TELLS_OF_NOTICES:
        return ()
    told: dict[tuple[str, str, str], list[str]] = {}
    for pod in _list_listening(view, members):
        notice = find_told(view, pod)
        if notice is not None:
            told.setdefault(_word(notice), []).append(pod.uid)
    return tuple(ToldNotice(*words, tuple(sorted(uids))) for words, uids in sorted(told.items()))


def find_signal(view: View, status: JobStatus) -> str:
    """The name of the signal that goes with a notice, "" for none."""
    spec = view.job.spec
    if spec is None or spec.notice_signal is NoticeSignal.NONE:
        return ""
    is_able = status.runtime is not None and status.runtime.version >= TELLS_OF_NOTICES
    return spec.notice_signal.value if is_able else ""


def find_told(view: View, pod: Pod) -> Notice | None:
    """The firm one that ends it first and is not long over; None: nothing is told."""
    told = choose_notice((n for n in _list_said(view, pod) if n.is_firm), view.now)
    return None if told is None or is_long_over(told.deadline, view.now) else told


def _list_listening(view: View, members: Collection[Member]) -> Iterator[Pod]:
    uids = (member.uid for member in members if member.state is not MemberState.GONE)
    yield from (view.pods[uid] for uid in uids if uid in view.pods)
    if view.launcher is not None and not view.is_gone(view.launcher):
        yield view.launcher


def _list_said(view: View, pod: Pod) -> Iterator[Notice]:
    """All that is said of it and its node. A node that is not there takes nothing back."""
    node = view.snapshot.nodes.get(pod.node or "")
    if node is not None:
        for notice in node.said:
            yield _date(view, (pod.node or "", ""), notice)
    elif pod.node:
        for record in view.status.notices:
            if record.node == pod.node and record.withdrawn is None:
                yield Notice(record.reason, record.source, record.kind, record.deadline)
    if pod.notice is not None:
        yield _date(view, ("", pod.uid), pod.notice)


def _word(notice: Notice) -> tuple[str, str, str]:
    """Reason, source and deadline, as whoever reads the config has them too."""
    deadline = notice.deadline
    moment = format_time(deadline.replace(microsecond=0)) if deadline is not None else ""
    _, _, source = build_key(("", ""), replace(notice, source=clean(notice.source, MAX_NOTICE)))
    return cut(clean(notice.reason, MAX_NOTICE), MAX_REMEMBERED), source, moment


def _date(view: View, place: Place, notice: Notice) -> Notice:
    """A notice with its moment, which none is that comes so long after a sign nobody has noted.

    Each pass would say another one, and each would be told.
    """
    if notice.deadline is None and notice.since is None and not view.is_noted(place, notice):
        return replace(notice, lead=None)
    return view.date_notice(place, notice)
