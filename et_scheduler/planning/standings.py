"""One job in a pass: what it has, and what is decided about it so far.

The draft has one for each job, and steps change it, most often by `Draft.change` and
`Draft.shrink`. Properties look at this job alone: at no room, no queue and no other job.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from operator import attrgetter

from et_contract.admissions import AdmissionState, Elasticity
from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Admission, Job, Pod
from et_scheduler.model.reasons import FOR_ROOM, Reason
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.fitting import Gang, Seats
from et_scheduler.planning.sizes import find_elasticity, find_least, find_most

BY_AGE = attrgetter("created", "name")
"""The order of a job's workers: newest last."""


class Standing:
    """One job in this pass.

    `workers` are its bound ones that stay, newest last; `unbound` those that have no node yet.
    `leaving` counts workers that were asked to go by earlier passes and are still there, `overdue`
    names all that should have gone long ago: they take their room, and nobody waits for them.
    `going_since` is when the first of those was told to go who may still go in time.
    `replaced` counts workers that go although nobody here has asked: others take their place.
    `gang_seats` are those with which it starts in this pass, `held` those that are kept for it.
    `has_lost` says that it gives back workers that were lost, not a growth that does not come.
    `outside` counts its workers on nodes that nobody has reserved. `all_launchers`: leaving or not.
    """

    __slots__ = (
        "_launcher",
        "admission",
        "all_launchers",
        "gang_seats",
        "going_since",
        "has_launcher",
        "has_lost",
        "held",
        "is_admitted",
        "is_fresh",
        "job",
        "launcher_parts",
        "least",
        "leaving",
        "most",
        "outside",
        "overdue",
        "replaced",
        "step",
        "unbound",
        "was",
        "worker_parts",
        "workers",
    )

    def __init__(self, job: Job, overdue_since: int) -> None:
        self.job = job
        self.was = job.admission
        self.admission = job.admission or Admission()
        is_spent = job.is_waiting and self.admission.number <= job.admitted_number
        is_admitted = self.admission.state is AdmissionState.ADMITTED
        self.is_admitted = is_admitted and not job.is_suspended and not is_spent
        self.least, self.most = find_least(job), find_most(job)
        self.all_launchers = [pod for pod in job.pods if pod.is_launcher]
        self._launcher = next((pod for pod in self.all_launchers if pod.node), None)
        self.has_launcher = False
        self.has_lost = False
        self.workers: list[Pod] = []
        self.unbound: list[Pod] = []
        self.leaving = 0
        self.replaced = 0
        self.overdue: frozenset[str] = frozenset()
        self.going_since: int | None = None
        self.outside = 0
        self.is_fresh = False
        # One change a job and pass: a job that cannot be changed is as one that has had its own.
        self.step: Step | None = Step.RESERVE if job.is_frozen else None
        self.gang_seats: Seats | None = None
        self.held: tuple[Gang, Seats] | None = None
        self.launcher_parts: tuple[int, ...] = ()
        self.worker_parts: tuple[int, ...] = ()
        self._sort_pods(overdue_since)

    @property
    def size(self) -> int:
        """How many workers it may have, by what is decided so far."""
        return self.admission.workers if self.is_admitted else 0

    @property
    def was_size(self) -> int:
        """How many workers it might have before this pass."""
        return self.was.workers if self.was is not None else 0

    @property
    def floor(self) -> int:
        """The least that is kept for it: no more than it has."""
        return min(self.least, self.size)

    @property
    def launchers(self) -> list[Pod]:
        """The job's launcher once that is created; none where it comes after the workers."""
        if not self.has_launcher:
            return []
        return [pod for pod in self.all_launchers if not pod.is_terminating]

    def count_left(self) -> int:
        """How many pods of its last life a start waits for: not for workers that do not go.

        So does the operator, who starts a command again only once the last one has ended.
        """
        return sum(pod.is_launcher or pod.name not in self.overdue for pod in self.job.pods)

    def list_staying(self) -> list[Pod]:
        """The pods whose room is free only once the whole job goes: what leaves already is not."""
        return [*self.workers, *self.launchers]

    def list_leaving(self) -> list[Pod]:
        """Pods whose room is free later: all but who stays, and who should have gone long ago."""
        if len(self.workers) + len(self.unbound) + self.has_launcher == len(self.job.pods):
            return []
        stays = self.overdue.union(pod.name for pod in self.workers)
        left = [pod for pod in self.job.pods if pod.name not in stays]
        return [pod for pod in left if not (pod.is_launcher and self.has_launcher)]

    @property
    def is_bound(self) -> bool:
        """Whether its least size has nodes, and its launcher, once that is created."""
        if len(self.workers) < self.floor or not (self.workers or self.has_launcher):
            return False
        return all(pod.node for pod in self.launchers)

    @property
    def is_whole(self) -> bool:
        """Whether all that it may have has nodes, where its number is ours to choose.

        A worker with a node that others delete counts until it is overdue.
        """
        missing = self.size - len(self.workers) - self.replaced
        return self.is_bound and (missing <= 0 or not self.is_elastic)

    def find_lacking(self, workers: int) -> Gang:
        """What has no node yet of the launcher and so many workers."""
        launcher = None if self._launcher else self.job.launcher
        return Gang(launcher, self.coming, max(workers - len(self.workers), 0))

    @property
    def is_waiting(self) -> bool:
        """Whether it asks for a start."""
        return self.job.is_waiting and not self.job.is_suspended and not self.is_admitted

    @property
    def lacks_room(self) -> bool:
        """Whether room alone keeps it from its start, as it was told last.

        Only for such a one does anybody else wait, or go on giving.
        """
        return self.is_waiting and self.admission.reason in FOR_ROOM

    @property
    def is_told(self) -> bool:
        """Whether it waits for room that comes already; who runs is told no reason."""
        return self.is_admitted or self.admission.reason is Reason.ROOM_COMES

    @property
    def is_starting(self) -> bool:
        """Whether the job may have pods, and not all of its least size stands yet."""
        is_raised = self.admission.reason is Reason.RAISED
        return self.is_admitted and (self.admission.bound_at is None or is_raised)

    @property
    def missing(self) -> int:
        """How many workers it waits for although it runs: its least size has risen."""
        return max(self.least - self.size, 0) if self.is_admitted else 0

    @property
    def is_elastic(self) -> bool:
        """Whether its number of workers is ours to choose."""
        return find_elasticity(self.job) is Elasticity.AUTO

    @property
    def can_give(self) -> bool:
        """A job gives only when all it was asked for by earlier passes is gone."""
        is_steady = self.is_admitted and self.is_elastic and not self.leaving
        return is_steady and self.step in (None, Step.TELL, Step.GIVE)

    @property
    def surplus(self) -> int:
        """How many bound workers it could give."""
        return max(len(self.workers) - self.floor, 0) if self.can_give else 0

    @property
    def is_mending(self) -> bool:
        """Whether it has given back, in this pass, only what it had lost."""
        is_all = self.was is not None and self.admission.leaving == self.was.leaving
        return self.has_lost and is_all and self.admission.reason is Reason.NOT_GROWN

    @property
    def has_failed(self) -> bool:
        """Whether pods for which it had room did not come last: nobody makes room for more."""
        return self.is_admitted and self.admission.attempts > 0

    @property
    def is_unheard(self) -> bool:
        """Whether the operator has not begun to do what was asked of it by an earlier pass."""
        admission, job = self.was, self.job
        if admission is None or not job.pods or job.is_suspended:
            return False
        if admission.state is AdmissionState.WAITING:
            return not job.is_waiting
        leavers = self._find_leavers()
        begun = {pod.name for pod in job.pods if pod.is_draining or pod.is_terminating}
        return bool(leavers) and leavers.isdisjoint(begun)

    @property
    def launcher(self) -> Pod | None:
        """The job's launcher, if that is there, stays, and has a node."""
        return self._launcher if self.has_launcher else None

    @property
    def coming(self) -> Shape:
        """What a worker counts for that it may have and that is not there.

        No more than those that are there take: an edit of the template changes none of them, and
        nobody else is to pay for what its author asks for now.
        """
        pods = self.job.pods if self.is_admitted else ()
        own = {pod.shape for pod in pods if pod.node and not pod.is_launcher}
        if not own or None in own:
            return self.job.worker
        largest: Counter[str] = Counter()
        for shape in own:
            largest |= Counter(dict(shape.requests) if shape is not None else {})
        least = Counter(dict(self.job.worker.requests)) & largest
        return replace(self.job.worker, requests=tuple(sorted(least.items())))

    def dominate(self, workers: int) -> int:
        """Share of the cluster with so many workers, where it is largest; parts of SCALE."""
        pairs = zip(self.launcher_parts, self.worker_parts, strict=True)
        return max((own + workers * each for own, each in pairs), default=0)

    def _sort_pods(self, overdue_since: int) -> None:
        if not self.job.pods:
            return
        named, overdue, since = self._find_leavers(), set[str](), list[int]()
        for pod in self.job.pods:
            is_named = pod.name in named
            if is_named or pod.is_terminating or not self.is_admitted:
                asked = self.admission.leaving_since if is_named else None
                moments = [at for at in (pod.leaving_since, asked) if at]
                if moments and min(moments) <= overdue_since:
                    overdue.add(pod.name)
                    continue
                since += moments
                self.leaving += is_named
                self.replaced += bool(pod.node) and not (pod.is_launcher or is_named)
            elif pod.is_launcher:
                self.has_launcher = True
            else:
                (self.workers if pod.node else self.unbound).append(pod)
        self.going_since = min(since, default=None)
        self.overdue = frozenset(overdue)
        self.workers.sort(key=BY_AGE)

    def _find_leavers(self) -> frozenset[str]:
        """Who goes of those that were named: no more than there are above what it may have.

        One that was lost meanwhile, or is deleted by others, went in the place of one of them: the
        operator counts as we do (planning/scaling.py, `_start_leaving`).
        """
        names = frozenset(self.admission.leaving)
        if not names:
            return names
        begun = {pod.name for pod in self.job.pods if pod.is_draining or pod.is_terminating}
        there = [pod for pod in self.job.pods if not pod.is_launcher and pod.name not in begun]
        yet = [(pod.created, pod.name) for pod in there if pod.name in names]
        surplus = max(len(there) - self.size, 0)
        return names & begun | {name for _, name in sorted(yet, reverse=True)[:surplus]}
