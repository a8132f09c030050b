"""Jobs as others have published them: how many GPUs, how long, when.

Drawn from published distributions, by the chance that is handed in; no trace file is read. Which
policy they are run under is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isqrt, pi, sin
from random import Random

from et_scheduler.model.cluster import Node
from et_scheduler.model.jobs import Job
from et_scheduler.model.shapes import CPU, HOUR, MEMORY, MINUTE, PODS, SECOND, make_shape
from et_scheduler.simulating.jobs import Work
from et_scheduler.simulating.progress import Curve

GPU = "nvidia.com/gpu"
GIB = 2**30
WORKER = make_shape({CPU: 4000, MEMORY: 24 * GIB, GPU: 1})
WHOLE = make_shape({CPU: 32_000, MEMORY: 192 * GIB, GPU: 8})
LAUNCHER = make_shape({})
CURVE = Curve()
LINEAR = Curve(base=0.0, each=0.0, power=1.0)

_POLLUX_SIZES = ((1, 1), (4, 4), (6, 16), (24, 48))

Workload = Callable[[int, Random], list[Work]]


def build_nodes(gpus: int) -> list[Node]:
    """Eight GPUs each."""
    sizes = {CPU: 64_000, MEMORY: 256 * GIB, GPU: 8, PODS: 110}
    return [Node(f"node-{index:03}", sizes) for index in range(gpus // 8)]


def build_work(index: int, size: int, at: int, duration: int) -> Work:
    """A job that takes `duration` with `size` workers, and may have a quarter or twice as many."""
    name = f"job-{index:04}"
    least = max(size // 4, 1)
    job = Job(name, "traces", name, "main", LAUNCHER, WORKER, least, 2 * size, replicas=size)
    steps = duration * CURVE.get_rate(size)
    return Work(replace(job, cooldown=50 * SECOND), at, steps, CURVE)


def draw_gavel(gpus: int, random: Random) -> list[Work]:
    """Sizes 1/2/4/8 for 70/10/15/5 %; most of half an hour to half a day; Poisson, load 0.9.

    That is on 64 GPUs. On four times as many there are twice the jobs, for more would take too long
    to simulate, and they come twice as fast as that load has it, for else there were room for all.
    """
    sizes, works, at = (1, 2, 4, 8), [], 0.0
    jobs = []
    for _ in range(20 * isqrt(gpus)):
        size = random.choices(sizes, (70, 10, 15, 5))[0]
        low, high = random.choices(((1.5, 3.0), (3.0, 4.0)), (80, 20))[0]
        jobs.append((size, 10 ** random.uniform(low, high) * MINUTE))
    load = 0.9 * isqrt(gpus) / 8
    gap = sum(size * time for size, time in jobs) / gpus / load / len(jobs)
    for index, (size, time) in enumerate(jobs):
        at += random.expovariate(1 / gap)
        works.append(build_work(index, size, int(at), int(time)))
    return works


def draw_philly(gpus: int, random: Random) -> list[Work]:
    """93 % of one GPU, lognormal times up to a day, a day whose peak is 3.2 times its trough."""
    works, at = [], 0.0
    jobs = []
    for _ in range(400):
        size = random.choices((1, 2, 4, 8), (93.2, 2.2, 2.3, 2.0))[0]
        time = min(random.lognormvariate(6.79, 2.16) * SECOND, 24.0 * HOUR)
        jobs.append((size, max(time, MINUTE)))
    gap = sum(size * time for size, time in jobs) / gpus / 0.9 / len(jobs)
    for index, (size, time) in enumerate(jobs):
        # Candidates come as at the peak, and of those some are left out: Poisson all the same.
        at += random.expovariate(1.52 / gap)
        while random.random() > (1 + 0.52 * sin(2 * pi * at / (24 * HOUR))) / 1.52:
            at += random.expovariate(1.52 / gap)
        works.append(build_work(index, size, int(at), int(time)))
    return works


def draw_pollux(gpus: int, random: Random) -> list[Work]:
    """160 jobs in eight hours, 22 % of them in one; sizes of 1 to 48."""
    works = []
    for index in range(160):
        at = random.uniform(*random.choices(((3, 4), (0, 8)), (22, 78))[0]) * HOUR
        size = random.randint(*random.choices(_POLLUX_SIZES, (39, 5, 54, 2))[0])
        time = 10 ** random.uniform(0.3, 2.2) * MINUTE
        works.append(build_work(index, min(size, gpus // 2), int(at), int(time)))
    return works


def draw_rigid(gpus: int, random: Random) -> list[Work]:
    """Jobs of one GPU and 30 minutes at a load of 0.8, and now and then four whole nodes."""
    works, at, index = [], 0.0, 0
    gap = 30 * MINUTE / gpus / 0.8
    while at < 20 * HOUR:
        at += random.expovariate(1 / gap)
        name = f"job-{index:04}"
        job = Job(name, "traces", name, "main", LAUNCHER, WORKER, 1, 1)
        works.append(Work(job, int(at), 30.0 * MINUTE, LINEAR, resize_cost=0))
        index += 1
    works += draw_gangs(random)
    return works


def draw_gangs(random: Random) -> Iterator[Work]:
    """A gang of four whole nodes each four hours, for half an hour."""
    for index in range(4):
        name = f"gang-{index}"
        job = Job(name, "traces", name, "main", LAUNCHER, WHOLE, 4, 4)
        at = (2 + 4 * index) * HOUR + random.randint(0, 30) * MINUTE
        yield Work(job, at, 30.0 * MINUTE * 4, LINEAR, resize_cost=0)


WORKLOADS: dict[str, Workload] = {
    "gavel": draw_gavel,
    "philly": draw_philly,
    "pollux": draw_pollux,
    "rigid": draw_rigid,
}
