"""A workload from its first job to its last end, and what is told of it.

Whoever compares policies runs each on the same jobs: these are drawn from a seed of their own, and
not from what has happened in the run.
"""

from __future__ import annotations

from random import Random

from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import DAY, HOUR, MINUTE, SECOND
from et_scheduler.simulating.jobs import SimJob
from et_scheduler.simulating.judging import Judge
from et_scheduler.simulating.measures import mean, percentile
from et_scheduler.simulating.policies import Policy
from et_scheduler.simulating.simulation import Simulation
from et_scheduler.simulating.workloads import LAUNCHER, WHOLE, WORKER, WORKLOADS, build_nodes

LONGEST = 60 * DAY


def run_trace(
    name: str, policy: Policy, *, drains: bool = True, gpus: int = 64
) -> dict[str, float]:
    """All jobs of the workload under one policy; the same jobs for each policy."""
    works = WORKLOADS[name](gpus, Random(7))

    def drain(random: Random) -> int:
        return random.randint(5 * SECOND, 60 * SECOND) if drains and policy.drains else 0

    shapes = (WORKER, WHOLE, LAUNCHER)
    simulation = Simulation(build_nodes(gpus), shapes, [Queue("main")], policy.decide, drain)
    if policy.is_judged:
        simulation.checks.append(Judge())
    for work in works:
        simulation.submit(work)
    while len(simulation.ended) < len(works) and simulation.clock.now < LONGEST:
        simulation.run(simulation.clock.now + HOUR)
    return _measure(simulation, simulation.ended, len(works), gpus)


def _measure(simulation: Simulation, jobs: list[SimJob], count: int, gpus: int) -> dict[str, float]:
    times = [(one.ended_at or 0) - one.job.created for one in jobs]
    waits = [(one.gang_at or 0) - one.job.created for one in jobs]
    largest = max(one.job.minimum * dict(one.job.worker.requests)[_GPU] for one in jobs)
    gangs = [
        wait
        for one, wait in zip(jobs, waits, strict=True)
        if one.job.minimum * dict(one.job.worker.requests)[_GPU] == largest
    ]
    end = max(one.ended_at or 0 for one in jobs)
    useful = sum(one.work.steps or 0 for one in jobs)
    return {
        "ended": len(jobs),
        "not ended": count - len(jobs),
        "JCT, mean min": mean(times) / MINUTE,
        "JCT, p99 min": percentile(times, 0.99) / MINUTE,
        "wait, mean min": mean(waits) / MINUTE,
        "wait, max min": max(waits) / MINUTE,
        "largest gang, mean wait min": mean(gangs) / MINUTE,
        "largest gang, max wait min": max(gangs) / MINUTE,
        "makespan, h": end / HOUR,
        "steps per GPU and time, %": 100 * useful / end / gpus,
        "resizes a job": mean([one.resizes for one in jobs]),
        "evictions": sum(one.evictions for one in jobs),
        "passes": simulation.passes,
    }


_GPU = "nvidia.com/gpu"
