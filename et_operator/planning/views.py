"""One pass's reading of a snapshot: facts that many rules need, each derived in one place.

Facts of what is observed alone; what this pass has decided is in standings.py, which holds a view.
A fact that a rule needs becomes a property here, and is not worked out in the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property

from et_contract.admissions import MAX_NODES
from et_contract.documents import Member, MemberState, Report
from et_contract.pods import MAX_EPOCH, Role, build_launcher_name, is_called
from et_kube.notices import is_long_over
from et_operator.model.avoiding import list_all_avoided, list_avoided, pack_avoided
from et_operator.model.conditions import is_true
from et_operator.model.packing import digest
from et_operator.model.pods import Pod
from et_operator.model.scalings import Scaling
from et_operator.model.snapshots import Snapshot
from et_operator.model.specs import JobSpec
from et_operator.model.statuses import JobStatus, ScalingRecord, UntoldEnd
from et_operator.planning.admitting import apply_admission, find_leavers
from et_operator.planning.presence import Presence


class View(Presence):
    """Facts about one job at one moment. Nothing here is a decision; nothing changes it."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        super().__init__(snapshot, now)
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
        """The spec as its author wrote it, whatever a queue lets the job have of that."""
        return self.spec if self.snapshot.job.spec is None else self.snapshot.job.spec

    @cached_property
    def ending_nodes(self) -> frozenset[str]:
        """Nodes on which nothing new is to go: that surely end, or whatever a job is moved from.

        Of a whole pool there may be thousands.
        """
        firm = self.snapshot.firm_nodes
        return firm | self.snapshot.soft_nodes if self.is_eager else firm

    @cached_property
    def avoided_nodes(self) -> tuple[str, ...]:
        """Nodes that a new pod is told to keep off: as many as are told on it, too.

        Of those beyond them nobody would know that it keeps off them, whether they stay or not.
        First those that its pods are or were on, for there it is put again; last those whose end is
        long over: what was to come there, has not.
        """
        pods, noted = self.snapshot.pods, self.status.notices
        own = {pod.node for pod in pods} | {r.node for r in noted if r.withdrawn is None}
        ends = self.snapshot.said_ends

        def rank(name: str) -> tuple[bool, bool, str]:
            return name not in own, is_long_over(ends.get(name), self.now), name

        ranked = sorted(self.ending_nodes, key=rank)
        return tuple(list_avoided(pack_avoided(ranked[:MAX_NODES])))

    @cached_property
    def kept_off(self) -> dict[str, list[str]]:
        """The nodes that own pods without one keep off, by the text that is on them, of the first.

        Anybody may have made the others, as many as he likes.
        """
        job, launcher = self.job.key.name, self.launcher
        return list_all_avoided(
            pod.avoids
            for pod in self.snapshot.pods
            if pod.node is None and (pod is launcher or is_called(pod.name, job, Role.WORKER))
        )

    def call_hosts(self, nodes: Iterable[str]) -> list[str]:
        """The hostnames of these nodes. One that has none cannot be named to a pod."""
        hostnames = self.snapshot.hostnames
        return [name for node in nodes if (name := hostnames.get(node, node))]

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

    def is_script_done(self, record: ScalingRecord) -> bool:
        """Whether the scaling's script is not waited for before pods are deleted or it ends."""
        live = self.find_scaling(record)
        if live is None or not live.script:
            return True
        return record.script is not None and record.script.code == 0

    @cached_property
    def _scalings(self) -> dict[str, Scaling]:
        return {scaling.uid: scaling for scaling in self.snapshot.scalings}

    @cached_property
    def untold(self) -> dict[str, UntoldEnd]:
        """Ends of scalings that could not be told, by the uid of the scaling."""
        return {end.uid: end for end in self.status.untold}

    @cached_property
    def victims(self) -> frozenset[str]:
        """Uids of the workers that the recorded scaling lets leave."""
        scaling = self.status.scaling
        return frozenset(victim.uid for victim in scaling.victims) if scaling else frozenset()

    @cached_property
    def leavers(self) -> frozenset[str]:
        """Names of the workers that et-scheduler wants to go first."""
        return find_leavers(self.job)

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
    def is_launcher_outdated(self) -> bool:
        """Whether the launcher that is there was made from another template than the job has."""
        pod = self.launcher
        if pod is None or pod.is_deleting or pod.has_ended:
            return False
        return pod.template not in {"", digest(self.spec.launcher_template)}

    @property
    def must_launcher_keep_off(self) -> bool:
        """Whether this epoch's launcher takes the place of one that was moved off a node that ends.

        Any other only prefers nodes that stay.
        """
        move = self.status.launcher_move
        return move is not None and move.at is not None and move.epoch == self.status.epoch - 1

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
        """Launchers that run or may come to run, and whose end is worth a wait."""
        return tuple(pod for pod in self.launchers if self.is_awaited(pod))

    @cached_property
    def is_training(self) -> bool:
        """Whether the user's command has read a list and has a worker of it."""
        has_read = self.report is not None and self.report.served_generation > 0
        listed = any(pod.uid in self.listed for pod in self.live_workers)
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
    def ready(self) -> frozenset[str]:
        """Uids of the held workers that are on the list as soon as they are not held any more."""
        return self.report.ready if self.report else frozenset()

    @cached_property
    def used_up(self) -> Mapping[str, int]:
        """By uid: workers whose hosts the elastic command that runs never uses again.

        With the exit code of what failed there.
        """
        is_told = self.report is not None and self.report.ended is None and self.is_elastic
        return self.report.used_up if self.report and is_told else {}

    def is_held(self, uid: str) -> bool:
        """Whether the written config holds this worker in any state but gone."""
        member = self.members.get(uid)
        return member is not None and member.state is not MemberState.GONE

    def was_held(self, uid: str) -> bool:
        """Whether the config held this worker; where it was lost, whether it may have."""
        is_lost = self.snapshot.config is None and self.status.generation > 1
        return is_lost or self.is_held(uid)
