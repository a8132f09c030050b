"""Which pods of a job are there by now, what of ours may run in them, and what their nodes tell.

Base of every view: of the job it reads its notice policy and which notices were noted, nothing
else. Who is a member, is listed or leaves is said above it, in views.py and standings.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property

from et_contract.pods import Role
from et_kube.notices import Notice, choose_notice, weigh
from et_operator.model.notices import NoticeKey, NoticeRecord, Place, build_key
from et_operator.model.pods import Node, Pod
from et_operator.model.snapshots import Snapshot
from et_operator.model.specs import NoticePolicy

OVERDUE = timedelta(seconds=60)
"""So long after the end of a pod's grace its kubelet may take to end it."""


class Presence:
    """Facts that follow from pods, nodes and the time alone, whatever the job has decided."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.snapshot = snapshot
        self.now = now

    @cached_property
    def pods(self) -> dict[str, Pod]:
        """All pods of the job by uid, the dying ones too."""
        return {pod.uid: pod for pod in self.snapshot.pods}

    @cached_property
    def names(self) -> dict[str, Pod]:
        """The pods by name."""
        return {pod.name: pod for pod in self.snapshot.pods}

    @cached_property
    def workers(self) -> tuple[Pod, ...]:
        """Pods of workers by index."""
        found = [pod for pod in self.snapshot.pods if pod.role is Role.WORKER]
        return tuple(sorted(found, key=lambda pod: (pod.index or 0, pod.name)))

    @cached_property
    def live_workers(self) -> tuple[Pod, ...]:
        """Workers that have not ended and that nobody is deleting."""
        return tuple(p for p in self.workers if not p.is_deleting and not self.is_gone(p))

    def is_gone(self, pod: Pod) -> bool:
        """Whether nothing of ours runs in it any more: its container has ended, or it is silent.

        Containers beside it (a mesh, a log shipper) may live on, and keep the pod's phase Running.
        """
        return pod.has_ended or self.is_silent(pod)

    def is_silent(self, pod: Pod) -> bool:
        """Whether the whole pod has ended, or is being deleted where nobody ends it.

        That is on a lost node, or on none: no pod that is being deleted is bound to one any more.
        Or on one whose kubelet says that it is not in order, and has not ended it in good time.
        """
        if pod.is_terminal or not pod.is_deleting:
            return pod.is_terminal
        is_nowhere = pod.node is None or self.is_node_lost(pod)
        return is_nowhere or (self.is_node_sick(pod) and self.is_overdue(pod))

    def is_awaited(self, pod: Pod) -> bool:
        """Whether the pod's end is waited for: something of ours may run in it, and has time still.

        What is overdue may run all the same, on a node in order too (a process in an
        uninterruptible wait): nobody waits for it any longer, but it is not gone.
        """
        return not self.is_gone(pod) and not self.is_overdue(pod)

    def is_overdue(self, pod: Pod) -> bool:
        """Whether the pod's deletion should have ended it by now, wherever it is."""
        return has_passed(self.now, self.find_overdue(pod), timedelta())

    def find_overdue(self, pod: Pod) -> datetime | None:
        """When that is so; None where nobody deletes it, or it is not known how long it has.

        By a clock that has just jumped ahead it is not.
        """
        end, seen = pod.grace_end, self.snapshot.complete_since
        return max(end, seen) + OVERDUE if end is not None and seen is not None else None

    def is_uid_gone(self, uid: str) -> bool:
        """As `is_gone`, by the uid of a pod that may not exist any more."""
        pod = self.pods.get(uid)
        return pod is None or self.is_gone(pod)

    def find_notice(self, pod: Pod) -> Notice | None:
        """What weighs most of what is said about the end of a pod, or of its node."""
        said = self.node_notices.get(pod.node or "", ())[:1]
        if pod.notice is not None:
            said = (*said, self.date_notice(("", pod.uid), pod.notice))
        return choose_notice(said, self.now, is_eager=self.is_eager)

    def find_firm_notice(self, pod: Pod) -> Notice | None:
        """What weighs most of what is sure, whatever else this job's workers are moved for."""
        said = [one for one in self.node_notices.get(pod.node or "", ()) if one.is_firm]
        if pod.notice is not None:
            said.append(self.date_notice(("", pod.uid), pod.notice))
        return choose_notice(said, self.now)

    @property
    def is_eager(self) -> bool:
        """Whether soft notices count as much as firm ones: workers are moved for them too."""
        spec = self.snapshot.job.spec
        return spec is not None and spec.notice_policy is NoticePolicy.EAGER

    @cached_property
    def node_notices(self) -> dict[str, tuple[Notice, ...]]:
        """What is said by now of each node that is said to end: what weighs most first."""
        nodes = self.snapshot.nodes.items()
        return {name: self._date_all(name, node) for name, node in nodes if node.said}

    def date_notice(self, place: Place, notice: Notice) -> Notice:
        """A notice with since when it is said, and when that ends if it is known how long after.

        It is said since it was noted, each sign by itself: what else was said of that node before,
        or that another moment was, is none of it. What is not noted yet is said from now on.
        """
        record = self._noted.get(build_key(place, notice))
        is_known = record is not None and notice.deadline in {None, record.deadline}
        since = record.since if record is not None and is_known else notice.since
        since = min(since or self.now, self.now)  # whoever recorded it: its clock may be ahead
        deadline = notice.deadline
        if deadline is None and notice.lead is not None:
            deadline = since + notice.lead
        return replace(notice, since=since, deadline=deadline)

    def is_noted(self, place: Place, notice: Notice) -> bool:
        """Whether the status has it, so that each pass knows since when it is said."""
        return build_key(place, notice) in self._noted

    @cached_property
    def _noted(self) -> dict[NoticeKey, NoticeRecord]:
        """What was said when it was last looked, and was not taken back."""
        records = self.snapshot.job.status.notices
        return {record.key: record for record in records if record.withdrawn is None}

    def _date_all(self, name: str, node: Node) -> tuple[Notice, ...]:
        dated = (self.date_notice((name, ""), notice) for notice in node.said)
        return tuple(sorted(dated, key=self.weigh_notice))

    def weigh_notice(self, one: Notice | NoticeRecord) -> tuple[bool, bool, datetime]:
        """What counts most of what is said of one pod, or node, comes first."""
        return weigh(one.kind, one.deadline, self.now, is_eager=self.is_eager)

    def is_node_lost(self, pod: Pod) -> bool:
        """Whether the pod's node is not there, or is heard no more.

        A kubelet that says of itself that it is not ready (it shuts down, its runtime or network is
        started anew) is heard: what is being deleted there has its grace.
        """
        node = self.snapshot.nodes.get(pod.node or "")
        return self.snapshot.are_nodes_known if node is None else node.is_unreachable

    def is_lost(self, pod: Pod) -> bool:
        """Whether the pod is on a lost node: nobody can tell whether it lives."""
        return pod.node is not None and self.is_node_lost(pod)

    def is_node_sick(self, pod: Pod) -> bool:
        """Whether the pod's node is lost, or says that it is not in order."""
        node = self.snapshot.nodes.get(pod.node or "")
        return self.is_node_lost(pod) or (node is not None and not node.is_ready)


def has_passed(now: datetime, since: datetime | None, span: timedelta | None) -> bool:
    """Whether `span` is over; never without a beginning or an end."""
    return since is not None and span is not None and now >= since + span
