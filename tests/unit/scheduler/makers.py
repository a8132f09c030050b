"""Small clusters, jobs and simulations for the scheduler's tests."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.decisions import Decision
from et_scheduler.model.jobs import Admission, Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import CPU, MINUTE, PODS, SECOND, Shape, make_shape
from et_scheduler.planning.passing import decide
from et_scheduler.simulating.jobs import Work
from et_scheduler.simulating.simulation import Simulation

NOW = 1_000_000 * SECOND
NOTHING = make_shape({})
LONG_AGO = NOW - 1000 * MINUTE
MAIN = (Queue("main"),)


def cpus(amount: int) -> Shape:
    """A pod of so many CPUs."""
    return make_shape({CPU: amount * 1000})


def make_node(name: str, cpu: int = 8, **changes: Any) -> Node:
    return Node(name, {CPU: cpu * 1000, PODS: 110, **changes.pop("more", {})}, **changes)


def make_nodes(count: int, cpu: int = 8) -> tuple[Node, ...]:
    return tuple(make_node(f"node-{index:02}", cpu) for index in range(count))


def make_job(name: str, least: int = 1, most: int = 4, cpu: int = 1, **changes: Any) -> Job:
    """A job in queue main that is held; its launcher requests nothing."""
    fields = {"launcher": NOTHING, "worker": cpus(cpu), "minimum": least, "maximum": most}
    fields |= {"namespace": "ns", "queue": "main", "created": NOW, "replicas": least}
    return Job(uid=name, name=name, **(fields | changes))


def run_on(job: Job, *nodes: str, since: int = LONG_AGO, **admission: Any) -> Job:
    """The same job running, its launcher on the first node, a worker on each."""
    fields = {"queue": job.queue, "elasticity": job.elasticity, "workers": len(nodes)}
    fields |= {"queued_at": since, "since": since, "bound_at": since}
    pods = [Pod(f"{job.name}-launcher", nodes[0], since, is_launcher=True)]
    pods += [Pod(f"{job.name}-{i}", node, since + i) for i, node in enumerate(nodes)]
    told = Admission(1, AdmissionState.ADMITTED, **(fields | admission))
    return replace(
        job, pods=tuple(pods), admission=told, is_waiting=False, admitted_number=1, created=since
    )


def apply(jobs: list[Job], decision: Decision) -> list[Job]:
    """The jobs with what was decided written into them; pods stay as they are."""
    told = {change.uid: change.admission for change in decision.changes}
    return [replace(job, admission=told.get(job.uid, job.admission)) for job in jobs]


def decide_on(
    nodes: tuple[Node, ...], jobs: list[Job], queues: tuple[Queue, ...] = MAIN, now: int = NOW
) -> dict[str, Admission]:
    """New admissions by uid."""
    decision = decide(Cluster(nodes), queues, jobs, now)
    return {change.uid: change.admission for change in decision.changes}


def make_simulation(
    nodes: tuple[Node, ...], jobs: list[Job], queues: tuple[Queue, ...]
) -> Simulation:
    """Jobs of no end are created at their `created`; workers leave within ten seconds."""
    shapes = {shape for job in jobs for shape in (job.launcher, job.worker)} | {cpus(1), cpus(3)}

    def drain(random: Random) -> int:
        return random.randint(0, 10 * SECOND)

    simulation = Simulation(nodes, shapes, queues, decide, drain)
    for job in jobs:
        simulation.submit(Work(job, job.created))
    return simulation
