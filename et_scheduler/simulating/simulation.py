"""A cluster with jobs and services, to which decisions are applied as the operator would.

A policy is handed in and sees a Cluster, queues and jobs, never the simulation itself. All chance
comes from the seed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random

from et_contract.admissions import AdmissionState, Placement
from et_scheduler.model.cluster import Cluster, Headroom, Node, PendingPod
from et_scheduler.model.decisions import Change, Decision
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import Shape
from et_scheduler.simulating.clock import Clock
from et_scheduler.simulating.jobs import SimJob, Work
from et_scheduler.simulating.pods import Binder, SimPod

Decide = Callable[[Cluster, Iterable[Queue], Iterable[Job], int], Decision]
REACTION = 100
"""Milliseconds from what happened to the pass that answers it."""


class Simulation:
    """Everything that is simulated. `drain` gives how long a leaving worker takes.

    `delay`: milliseconds in which the operator has carried out what it was answered.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        shapes: Iterable[Shape],
        queues: Sequence[Queue],
        decide: Decide,
        drain: Callable[[Random], int],
        *,
        seed: int = 1,
    ) -> None:
        self.clock, self.binder = Clock(), Binder(nodes, shapes)
        self.nodes, self.queues, self.decide, self.drain = nodes, queues, decide, drain
        self.jobs: dict[str, SimJob] = {}
        self.ended: list[SimJob] = []
        self.services: list[SimPod] = []
        self.service_waits: list[int] = []
        self.random, self.delay = Random(seed), 0
        self.passes = 0
        self.headroom: Headroom | None = None
        self.checks: list[Callable[[Simulation, Decision], None]] = []
        self._pass_at: int | None = None

    def run(self, until: int) -> None:
        """Let time pass until then."""
        while self.clock.step(until):
            self._go_on()
        self._go_on()

    def submit(self, work: Work) -> None:
        """The job is created at its time."""
        self.clock.at(work.at, lambda: self._create(work))

    def add_services(self, count: int, shape: Shape, priority: int = 0) -> None:
        """So many more pods of others, now."""
        for _ in range(count):
            name = f"service-{len(self.services) + len(self.service_waits):06}-{self.clock.now}"
            pod = SimPod(name, shape, self.clock.now, priority=priority)
            self.services.append(pod)
            self.binder.add(pod)
        self.ask()

    def ask(self) -> None:
        """A pass soon; what happens until then is seen by the same one."""
        if self._pass_at is None:
            self._pass_at = self.clock.now + REACTION
            self.clock.at(self._pass_at, self._decide)

    def show_cluster(self) -> Cluster:
        """As the planner sees it: services as sums per node."""
        taken: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for pod in self.services:
            if pod.place is not None:
                taken[pod.place]["pods"] += 1
                for name, amount in pod.shape.requests:
                    taken[pod.place][name] += amount
        nodes = tuple(
            replace(node, taken=dict(taken[place])) if place in taken else node
            for place, node in enumerate(self.binder.room.nodes)
        )
        pending = tuple(
            PendingPod(pod.name, pod.shape, pod.priority, pod.created)
            for pod in self.binder.pending
            if not pod.owner
        )
        return Cluster(nodes, pending, self.headroom)

    def show_jobs(self) -> list[Job]:
        """As the planner sees them."""
        return [replace(sim.job, pods=sim.show(self.binder)) for sim in self.jobs.values()]

    def _create(self, work: Work) -> None:
        job = replace(work.job, created=self.clock.now)
        self.jobs[job.uid] = SimJob(work, job, seen=self.clock.now)
        self.ask()

    def _decide(self) -> None:
        self._pass_at = None
        self.passes += 1
        decision = self.decide(self.show_cluster(), self.queues, self.show_jobs(), self.clock.now)
        for check in self.checks:
            check(self, decision)
        for change in decision.changes:
            self._carry_out(change)
        if decision.changes:
            self.ask()
        if decision.wake_at is not None:
            self.clock.at(decision.wake_at, self.ask)

    def _carry_out(self, change: Change) -> None:
        sim = self.jobs[change.uid]
        admission = change.admission
        was_held = sim.job.is_waiting
        if admission.state is AdmissionState.ADMITTED:
            number = max(sim.job.admitted_number, admission.number)
            sim.job = replace(
                sim.job, admission=admission, is_waiting=False, admitted_number=number
            )
            if self.delay:
                self.clock.at(self.clock.now + self.delay, lambda: self._catch_up(sim))
            else:
                self._resize(sim, admission)
            return
        sim.job = replace(sim.job, admission=admission, is_waiting=True)
        if not was_held:
            sim.evictions += 1
            for pod in tuple(sim.pods):
                self._end(sim, pod)

    def _catch_up(self, sim: SimJob) -> None:
        """The operator does what it was told last."""
        if sim.job.uid not in self.jobs:  # it has ended meanwhile
            return
        if sim.job.admission is not None and not sim.job.is_waiting:
            self._resize(sim, sim.job.admission)
            self.ask()

    def _resize(self, sim: SimJob, admission: Admission) -> None:
        leaving = set(admission.leaving)
        end = self.clock.now + self.drain(self.random)  # all leave at the job's next commit
        for pod in tuple(sim.pods):
            if pod.is_draining or pod.is_launcher:
                continue
            if pod.place is None and len(self._list_kept(sim)) > admission.workers:
                self._end(sim, pod)
            elif pod.name in leaving:
                pod.is_draining = True
                self.clock.at(end, lambda pod=pod: self._end(sim, pod))  # type: ignore[misc]
        if not any(pod.is_launcher for pod in sim.pods):
            self._add(sim, admission, is_launcher=True)
        for _ in range(admission.workers - len(self._list_kept(sim))):
            self._add(sim, admission, is_launcher=False)

    def _list_kept(self, sim: SimJob) -> list[SimPod]:
        return [pod for pod in sim.pods if not pod.is_launcher and not pod.is_draining]

    def _add(self, sim: SimJob, admission: Admission, *, is_launcher: bool) -> None:
        sim.names += 1
        shape = sim.job.launcher if is_launcher else sim.job.worker
        name = f"{sim.job.name}-{sim.names}"
        told = admission.placement
        if is_launcher:  # whose priority is above that of workers, as the docs advise
            told = Placement(only=(told.launcher,) if told.launcher else told.only)
        priority = sim.job.priority + is_launcher
        pod = SimPod(name, shape, self.clock.now, sim.job.uid, priority, told, is_launcher)
        sim.pods.append(pod)
        self.binder.add(pod)

    def _end(self, sim: SimJob, pod: SimPod) -> None:
        if pod.is_gone:
            return
        self.binder.remove(pod)
        sim.release(pod, self.clock.now)
        sim.ended_workers += not pod.is_launcher and pod.place is not None
        self.ask()

    def _go_on(self) -> None:
        """Bind, train on, and note what has ended."""
        now = self.clock.now
        for pod in self.binder.bind_all(now):
            if not pod.owner:
                self.service_waits.append(now - pod.created)
            self.ask()
        for sim in tuple(self.jobs.values()):
            self._train(sim, now)

    def _train(self, sim: SimJob, now: int) -> None:
        workers = len(sim.list_workers())
        is_led = any(pod.is_launcher and pod.place is not None for pod in sim.pods)
        least = min(sim.job.minimum, workers) if sim.first_worker_at else sim.job.minimum
        if workers and sim.first_worker_at is None:
            sim.first_worker_at = now
        if workers >= sim.job.minimum and sim.gang_at is None:
            sim.gang_at = now
        before = sim.plan
        sim.set_workers(now, workers if is_led and workers >= least else 0)
        if sim.plan != before and (end := sim.find_end()) is not None:
            plan = sim.plan
            self.clock.at(end, lambda: self._finish(sim, plan))

    def _finish(self, sim: SimJob, plan: int) -> None:
        if sim.plan != plan:
            return
        sim.advance(self.clock.now)
        sim.ended_at = self.clock.now
        for pod in tuple(sim.pods):
            self.binder.remove(pod)
            sim.release(pod, self.clock.now)
        del self.jobs[sim.job.uid]
        self.ended.append(sim)
        self.ask()
