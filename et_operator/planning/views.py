"""One pass's reading of a snapshot: facts that many rules need, each derived in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property

from et_contract.documents import Member, MemberState, Report
from et_contract.pods import MAX_EPOCH, Role, build_launcher_name, is_called
from et_kube.notices import Notice, choose_notice
from et_operator.model.conditions import is_true
from et_operator.model.pods import Node, Pod
from et_operator.model.scalings import Scaling
from et_operator.model.snapshots import Snapshot
from et_operator.model.specs import JobSpec
from et_operator.model.statuses import JobStatus, ScalingRecord, UntoldEnd
from et_operator.planning.admitting import apply_admission, find_leavers

_DISRUPTIONS = frozenset(
    {"Evicted", "NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"},
)
"""Reasons of a failed pod which say that the platform ended it."""
_NODE_REFUSALS = frozenset(
    {"NodeAffinity", "NodePorts", "TopologyAffinityError", "UnexpectedAdmissionError"},
)
"""Reasons of a failed pod which say that its node did not take it; also "OutOf" a resource."""

_UNSEEN = frozenset({"ContainerStatusUnknown", "Unknown"})
"""Reasons of a container's end that nobody saw: most often its node was started anew."""
_UNSTARTED = frozenset({"ContainerCannotRun", "RunContainerError", "StartError"})
"""Reasons of a container that could not be started, for its image's or its node's fault."""
_COMMAND_NOT_FOUND = 127
OVERDUE = timedelta(seconds=60)
"""So long after the end of a pod's grace its kubelet may take to end it."""
NEEDS_PYTHON = "the image needs python3 (3.7 or newer) in its PATH"
"""What is said of an image that is unfit."""
_NAMES_PID_1 = re.compile(r"""python3|["'`]sh["'`]""")


class View:
    """Facts about one job at one moment. Nothing here is a decision; nothing changes it."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.snapshot = snapshot
        self.now = now
        self.job = apply_admission(snapshot.job)
        self.status: JobStatus = snapshot.job.status

    @property
    def spec(self) -> JobSpec:
        """The spec of a job that is known to be valid."""
        if self.job.spec is None:
            raise ValueError(f"{self.job.key}: a job without a usable spec is not planned")
        return self.job.spec

    @property
    def asked(self) -> JobSpec:
        """The same as its author wrote it, whatever a queue lets the job have of that."""
        return self.spec if self.snapshot.job.spec is None else self.snapshot.job.spec

    @property
    def is_foreign(self) -> bool:
        """Whether another operator runs it."""
        return self.job.is_foreign or is_true(self.status.conditions, "Foreign")

    @property
    def is_only_followed(self) -> bool:
        """Whether the job is never scaled, replaced or restarted by us: see following.py."""
        job = self.job
        return self.is_foreign or bool(job.invalid) or job.spec is None or bool(job.unread)

    @property
    def is_left_alone(self) -> bool:
        """Whether the job is being deleted and none of its pods is ours to stop.

        That is another operator's, and one whose pods its owner wants to keep (--cascade=orphan).
        """
        return self.job.deletion_requested is not None and (
            self.job.is_orphaning or self.is_foreign
        )

    def find_scaling(self, record: ScalingRecord) -> Scaling | None:
        """The object that asked for this scaling, if one did and is still there."""
        return self._scalings.get(record.uid) if record.uid else None

    @cached_property
    def _scalings(self) -> dict[str, Scaling]:
        return {scaling.uid: scaling for scaling in self.snapshot.scalings}

    @cached_property
    def untold(self) -> dict[str, UntoldEnd]:
        """Ends of scalings that could not be told, by the uid of the scaling."""
        return {end.uid: end for end in self.status.untold}

    @cached_property
    def victims(self) -> frozenset[str | None]:
        """Uids of the workers that the recorded scaling lets leave."""
        scaling = self.status.scaling
        return frozenset(victim.uid for victim in scaling.victims) if scaling else frozenset()

    @cached_property
    def leavers(self) -> frozenset[str]:
        """Names of the workers that et-scheduler wants to go first."""
        return find_leavers(self.job)

    @cached_property
    def pods(self) -> dict[str, Pod]:
        """All pods of the job by uid, the dying ones too."""
        return {pod.uid: pod for pod in self.snapshot.pods}

    @cached_property
    def names(self) -> dict[str, Pod]:
        """The same by name."""
        return {pod.name: pod for pod in self.snapshot.pods}

    @cached_property
    def workers(self) -> tuple[Pod, ...]:
        """Pods of workers by index."""
        found = [pod for pod in self.snapshot.pods if pod.role is Role.WORKER]
        return tuple(sorted(found, key=lambda pod: (pod.index or 0, pod.name)))

    @cached_property
    def launchers(self) -> tuple[Pod, ...]:
        """Pods of launchers that an operator can have made, of every epoch until now.

        None is created before its epoch is recorded; where the status was removed all count.
        """
        job, last = self.job.key.name, self.status.epoch or MAX_EPOCH
        found = (p for p in self.snapshot.pods if p.role is Role.LAUNCHER)
        return tuple(p for p in found if is_called(p.name, job, p.role) and (p.epoch or 0) <= last)

    @cached_property
    def own_pods(self) -> tuple[Pod, ...]:
        """Launchers and workers that an operator can have made, of this life or the last one."""
        job = self.job.key.name
        workers = (pod for pod in self.workers if is_called(pod.name, job, pod.role))
        return (*self.launchers, *workers)

    @cached_property
    def launcher(self) -> Pod | None:
        """The pod of this epoch, the only one that counts."""
        return next((p for p in self.launchers if p.epoch == self.status.epoch), None)

    @property
    def is_launcher_missing(self) -> bool:
        """Whether the launcher of this epoch is yet to be created."""
        return not self.status.launcher_uid and self.launcher is None

    @property
    def is_elastic(self) -> bool:
        """Whether workers may join and leave while the launcher runs.

        As it was created: its template may by now be that of the next one.
        """
        if self.launcher is not None and self.launcher.is_elastic is not None:
            return self.launcher.is_elastic
        return self.job.spec is None or self.job.spec.is_elastic

    @property
    def command_least(self) -> int:
        """With how few workers the launcher's command goes on, as it was created; 0: not known."""
        if self.launcher is not None and self.launcher.command_least is not None:
            return self.launcher.command_least
        return self.job.spec.command_least if self.job.spec is not None else 0

    @property
    def launcher_name(self) -> str:
        """The name that it has or will have."""
        return build_launcher_name(self.job.key.name, self.status.epoch)

    @cached_property
    def is_launcher_running(self) -> bool:
        """Whether the user's container of this epoch's launcher runs."""
        pod = self.launcher
        return pod is not None and pod.is_container_running and not self.is_gone(pod)

    @cached_property
    def can_command_run(self) -> bool:
        """Whether some launcher, of whatever epoch, may still have a user's command running."""
        return any(pod.has_container_started and not self.is_gone(pod) for pod in self.launchers)

    @cached_property
    def awaited_launchers(self) -> tuple[Pod, ...]:
        """Those that run or may come to run, and whose end is worth a wait."""
        return tuple(pod for pod in self.launchers if self.is_awaited(pod))

    @cached_property
    def is_training(self) -> bool:
        """Whether the user's command has read a list and has a worker of it."""
        has_read = self.report is not None and self.report.served_generation > 0
        listed = any(pod.uid in self.listed for pod in self.select_live_workers())
        return self.is_launcher_running and has_read and listed

    @cached_property
    def members(self) -> dict[str, Member]:
        """What the written config says, by uid."""
        config = self.snapshot.config
        return {member.uid: member for member in config.members} if config else {}

    @cached_property
    def member_names(self) -> frozenset[str]:
        """The names of those in the written config."""
        return frozenset(member.name for member in self.members.values())

    @cached_property
    def written_generation(self) -> int:
        """Generation of the written config; 0 when there is none."""
        return self.snapshot.config.generation if self.snapshot.config else 0

    @cached_property
    def report(self) -> Report | None:
        """The report of this epoch's broker; another's says nothing."""
        report, status = self.snapshot.report, self.status
        if report is None or report.epoch != status.epoch:
            return None
        return report if report.launcher_uid == status.launcher_uid else None

    @cached_property
    def listed(self) -> frozenset[str]:
        """Uids of the workers that are or were in the served list."""
        return self.report.listed if self.report else frozenset()

    @cached_property
    def closed(self) -> frozenset[str]:
        """Uids of the workers that have no process and take no more."""
        return self.report.closed if self.report else frozenset()

    @cached_property
    def unlisted(self) -> frozenset[str]:
        """Uids of the workers that this launcher's broker never lists (again)."""
        return self.report.unlisted if self.report else frozenset()

    @cached_property
    def used_up(self) -> Mapping[str, int]:
        """By uid: workers whose hosts the elastic command that runs never uses again.

        With the exit code of what failed there.
        """
        is_told = self.report is not None and self.report.ended is None and self.is_elastic
        return self.report.used_up if self.report and is_told else {}

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
        """Whether its end is waited for: something of ours may run in it, and has its time still.

        What is overdue may run all the same, on a node in order too (a process in an
        uninterruptible wait): nobody waits for it any longer, but it is not gone.
        """
        return not self.is_gone(pod) and not self.is_overdue(pod)

    def is_overdue(self, pod: Pod) -> bool:
        """Whether its deletion should have ended it by now, wherever it is."""
        return has_passed(self.now, self.find_overdue(pod), timedelta())

    def find_overdue(self, pod: Pod) -> datetime | None:
        """When that is so; None where nobody deletes it, or it is not known how long it has.

        By a clock that has just jumped ahead it is not.
        """
        end, seen = pod.grace_end, self.snapshot.complete_since
        return max(end, seen) + OVERDUE if end is not None and seen is not None else None

    def is_uid_gone(self, uid: str) -> bool:
        """The same for a uid whose pod may not exist any more."""
        pod = self.pods.get(uid)
        return pod is None or self.is_gone(pod)

    def is_held(self, uid: str) -> bool:
        """Whether the written config holds this worker in any state but gone."""
        member = self.members.get(uid)
        return member is not None and member.state is not MemberState.GONE

    def was_held(self, uid: str) -> bool:
        """The same, and where that config was lost, whether it may have."""
        is_lost = self.snapshot.config is None and self.status.generation > 1
        return is_lost or self.is_held(uid)

    def find_notice(self, pod: Pod) -> Notice | None:
        """What weighs most of what is said about the end of a pod, or of its node."""
        node = self.snapshot.nodes.get(pod.node or "")
        found = (self.choose_notice(node) if node is not None else None, pod.notice)
        return choose_notice(filter(None, found), self.now)

    def choose_notice(self, node: Node) -> Notice | None:
        """What weighs most of what is said about a node by now."""
        return choose_notice(node.notices, self.now) or node.notice

    def select_live_workers(self) -> Iterator[Pod]:
        """Workers that have not ended and that nobody is deleting."""
        return (p for p in self.workers if not p.is_deleting and not self.is_gone(p))

    def is_node_lost(self, pod: Pod) -> bool:
        """Whether its node is not there, or is heard no more.

        A kubelet that says of itself that it is not ready (it shuts down, its runtime or network is
        started anew) is heard: what is being deleted there has its grace.
        """
        node = self.snapshot.nodes.get(pod.node or "")
        return self.snapshot.are_nodes_known if node is None else node.is_unreachable

    def is_node_sick(self, pod: Pod) -> bool:
        """Whether its node is lost, or says that it is not in order."""
        node = self.snapshot.nodes.get(pod.node or "")
        return self.is_node_lost(pod) or (node is not None and not node.is_ready)


def is_disrupted(pod: Pod) -> bool:
    """Whether the platform, or somebody through it, ended this pod."""
    return _is_claimed(pod) or is_refused_by_node(pod) or is_unseen(pod)


def is_cut_off(pod: Pod) -> bool:
    """Whether the pod has run for longer than its own spec allows (activeDeadlineSeconds)."""
    return pod.pod_reason == "DeadlineExceeded" and not is_disrupted(pod)


def is_taken(pod: Pod) -> bool:
    """Whether somebody wanted the pod's place, which will happen to any pod there.

    A kubelet evicts for what a pod uses (memory, disk), and may do so again each time.
    """
    is_evicted = pod.pod_reason == "Evicted" and not pod.is_deleting
    return _is_claimed(pod) and not is_evicted and not is_refused_by_node(pod)


def is_refused_by_node(pod: Pod) -> bool:
    """Whether the kubelet did not admit it: the scheduler may put the next one there again."""
    return pod.pod_reason in _NODE_REFUSALS or pod.pod_reason.startswith("OutOf")


def is_image_unfit(pod: Pod) -> bool:
    """Whether the container could not be started with our PID 1 (most often: no python3 in it)."""
    end = pod.termination
    if end is None:
        return pod.waiting_reason in _UNSTARTED and _names_pid_1(pod.waiting_message)
    is_unstarted = end.reason in _UNSTARTED or end.exit_code == _COMMAND_NOT_FOUND
    return is_unstarted and not end.init_container and _names_pid_1(end.message)


def is_failed_by_node(pod: Pod) -> bool:
    """Whether its container could not be started there though its image is fit."""
    end = pod.termination
    return end is not None and end.reason in _UNSTARTED and not is_image_unfit(pod)


def _names_pid_1(message: str) -> bool:
    return _NAMES_PID_1.search(message) is not None


def _is_claimed(pod: Pod) -> bool:
    """Whether somebody wanted its place, or its node went away in order."""
    return pod.is_deleting or bool(pod.disruption_reason) or pod.pod_reason in _DISRUPTIONS


def is_unseen(pod: Pod) -> bool:
    """Whether the code of its end is none of its own."""
    return pod.termination is not None and pod.termination.reason in _UNSEEN


def has_passed(now: datetime, since: datetime | None, span: timedelta | None) -> bool:
    """Whether `span` is over; never without a beginning or an end."""
    return since is not None and span is not None and now >= since + span
