"""Passes of et-scheduler over large clusters, without any cluster, and what one of them weighs.

No cluster and no simulated time: planning alone, on scenes drawn from a seed and filled by a few
passes of its own. Memory is that of a process of its own, to which a server on this machine lists a
cluster.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from benchmarks.benches import Bench
from benchmarks.clusters import LargeCluster, serving
from benchmarks.findings import Figure, Finding, Goal, Place, Series, Side
from benchmarks.machines import ROOT
from et_contract.admissions import AdmissionState
from et_kube.clock import Clock
from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.jobs import Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import CPU, MEMORY, MINUTE, PODS, Shape, make_shape
from et_scheduler.planning.passing import decide
from et_scheduler.simulating.pods import Binder, SimPod

GPU = "nvidia.com/gpu"
GIBIBYTE = 2**30
LAUNCHER = make_shape({CPU: 500})
QUEUES = tuple(Queue(f"queue-{index}", weight=1 + index % 3) for index in range(10))
SAMPLES = 5
MOST_ROUNDS = 6
NODES, JOBS, ALL_PODS = 5_000, 10_000, 100_000
MEGABYTE = 1e6
MOST_MEMORY = 300.0
PROGRAM = (
    "import runpy, sys; sys.modules['rich'] = None; "
    "runpy.run_module('benchmarks.commands.sharing', run_name='__main__', alter_sys=True)"
)
"""Without what structlog loads where it is installed: the image has none."""
SEED = 1
BEGIN = 10**12
CAUSE = (
    "After one event a pass costs what a full one does: nothing is kept of the one before, so that "
    "what it decides follows from what is there and from nothing else. That is some 60 us for each "
    "job to be read, booked, tried and explained; passes begin 100 ms apart."
)


@dataclass(slots=True)
class Scene:
    """A cluster that is full, at its time."""

    cluster: Cluster
    jobs: list[Job]
    now: int

    def decide(self) -> int:
        """One pass; answers how much it changes."""
        return len(decide(self.cluster, QUEUES, self.jobs, self.now).changes)


async def measure(bench: Bench) -> Finding:
    """A pass with a line of thousands, and one after a single event."""
    weight = await weigh(LargeCluster(NODES, JOBS, ALL_PODS, bench.clock.now()))
    large = build_scene(JOBS, NODES, shapes=100)
    small = build_scene(1_000, 1_000, shapes=30)
    ended = end_job(small)
    count = bench.count_samples(SAMPLES)
    works: dict[str, Callable[[], object]] = {
        "10,000 jobs x 5,000 nodes, a full pass": large.decide,
        "1,000 jobs x 1,000 nodes, a full pass": small.decide,
        "1,000 jobs x 1,000 nodes, a job has ended": ended.decide,
    }
    times = {label: take_times(work, bench.clock, count) for label, work in works.items()}
    series = [Series(label, "ms", values, Side.OURS) for label, values in times.items()]
    medians = [sorted(values)[len(values) // 2] for values in times.values()]
    waiting = sum(job.is_waiting for job in large.jobs)
    return Finding(
        series=(*series, *describe(weight)),
        goals=(
            Goal(f"10,000 x 5,000, {waiting} of them waiting", medians[0], 1000.0, "ms"),
            Goal("1,000 x 1,000 after one event", medians[2], 50.0, "ms"),
            judge(weight),
        ),
        notes=(CAUSE,),
    )


async def weigh(cluster: LargeCluster) -> dict[str, Any]:
    """What a process tells of itself to which all of it was listed (commands/sharing.py)."""
    async with serving(cluster) as api:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, api), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        told, _ = await program.communicate()
    answer: dict[str, Any] = json.loads(told.splitlines()[-1])
    return answer


def describe(weight: dict[str, Any]) -> list[Series]:
    """Memory of that process, step by step."""
    steps = {
        "memory before anything is listed": "before",
        f"memory with {weight['pods']:,} pods": "listed",
        "its peak while they are listed": "listing",
        "its peak, a survey and a pass after that": "deciding",
    }
    return [Series(label, "MB", (weight[key] / MEGABYTE,)) for label, key in steps.items()]


def judge(weight: dict[str, Any]) -> Goal:
    """The most that the process has had."""
    scene = f"{weight['pods']:,} pods, {weight['nodes']:,} nodes and {weight['jobs']:,} jobs"
    return Goal(f"memory, {scene}, at the peak", weight["deciding"] / MEGABYTE, MOST_MEMORY, "MB")


def take_times(work: Callable[[], object], clock: Clock, count: int) -> tuple[float, ...]:
    """Milliseconds of each."""
    times = []
    for _ in range(count):
        started = clock.monotonic()
        work()
        times.append((clock.monotonic() - started) * 1000)
    return tuple(times)


def build_scene(jobs: int, nodes: int, *, shapes: int) -> Scene:
    """More is asked for than there is; a few passes are applied, and what they start is bound."""
    random = Random(SEED)  # noqa: S311 (no secret)
    sizes = {CPU: 64_000, MEMORY: 256 * GIBIBYTE, GPU: 8, PODS: 110}
    cluster = Cluster(tuple(Node(f"node-{index:05}", sizes) for index in range(nodes)))
    kinds = [draw_shape(random) for _ in range(shapes)]
    asked = nodes * 8 * 10 // jobs // 4  # of GPUs, so that six jobs of ten have room
    found = [draw_job(random, index, kinds, max(asked, 1)) for index in range(jobs)]
    binder = Binder(cluster.nodes, [*kinds, LAUNCHER])
    scene = Scene(cluster, found, BEGIN)
    pods: dict[str, list[SimPod]] = {}
    for _ in range(MOST_ROUNDS):
        decision = decide(cluster, QUEUES, scene.jobs, scene.now)
        told = {change.uid: change.admission for change in decision.changes}
        if not told:
            break
        scene.jobs = [
            replace(job, admission=told.get(job.uid, job.admission)) for job in scene.jobs
        ]
        scene.now += MINUTE
        scene.jobs = [carry_out(job, binder, pods, scene.now) for job in scene.jobs]
        binder.bind_all(scene.now)
        scene.jobs = [show(job, binder, pods) for job in scene.jobs]
    return scene


def draw_shape(random: Random) -> Shape:
    """One or two GPUs, and what goes with them."""
    gpus = random.choice((1, 1, 1, 2))
    memory = random.randint(1, 28) * gpus * GIBIBYTE
    return make_shape({CPU: random.randint(1, 7) * 1000 * gpus, MEMORY: memory, GPU: gpus})


def draw_job(random: Random, index: int, kinds: list[Shape], asked: int) -> Job:
    """Elastic, of any queue, created in the order of the index."""
    least = random.randint(asked, 2 * asked)
    name = f"job-{index:05}"
    return Job(
        name,
        f"team-{index % 50}",
        name,
        QUEUES[index % len(QUEUES)].name,
        LAUNCHER,
        random.choice(kinds),
        least,
        least * random.randint(1, 4),
        priority=random.choice((0, 0, 0, 1)),
        created=BEGIN - 10**7 + index,
    )


def carry_out(job: Job, binder: Binder, pods: dict[str, list[SimPod]], now: int) -> Job:
    """As the operator would, all at once."""
    admission = job.admission
    if admission is None or admission.state is not AdmissionState.ADMITTED:
        for pod in pods.pop(job.uid, ()):
            binder.remove(pod)
        return replace(job, is_waiting=True)
    own = pods.setdefault(job.uid, [])
    for pod in [pod for pod in own if pod.name in set(admission.leaving)]:
        binder.remove(pod)
        own.remove(pod)
    told = admission.placement
    while len(own) < admission.workers + 1:
        is_first = not own
        shape = job.launcher if is_first else job.worker
        placement = replace(told, only=(told.launcher,)) if is_first and told.launcher else told
        name = f"{job.name}-{now}-{len(own)}"
        pod = SimPod(name, shape, now, job.uid, int(is_first), placement, is_first)
        own.append(pod)
        binder.add(pod)
    return replace(job, is_waiting=False, admitted_number=admission.number)


def show(job: Job, binder: Binder, pods: dict[str, list[SimPod]]) -> Job:
    """With its pods as they are bound now."""
    own = tuple(
        Pod(pod.name, binder.get_name(pod), pod.created, is_launcher=pod.is_launcher)
        for pod in pods.get(job.uid, ())
    )
    return replace(job, pods=own)


def end_job(scene: Scene) -> Scene:
    """What a pass is given, without the first job that runs."""
    running = next(job for job in scene.jobs if not job.is_waiting)
    return Scene(scene.cluster, [job for job in scene.jobs if job is not running], scene.now)


FIGURE = Figure(
    title="A pass over a shared cluster",
    explanation=(
        "et-scheduler's decision alone, in memory: who starts, grows, shrinks or waits, of "
        "thousands of jobs in ten queues on thousands of nodes that are full. Beside it, for "
        "scale: kueue's own CI admits 42.7 workloads a second. Memory (RSS, from /proc) is that of "
        "a process that has loaded what et-scheduler loads, and lists pods, nodes, jobs and the "
        "rest by its client, in pages of 500, from a server beside it; then it makes one pass."
    ),
    measure=measure,
    place=Place.NOTHING,
)
