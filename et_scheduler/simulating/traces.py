"""A workload from its first job to its last end, and what is told of it.

Whoever compares policies runs each on the same jobs: these are drawn from a seed of their own, and
not from what has happened in the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import DAY, HOUR, MINUTE, SECOND
from et_scheduler.simulating.jobs import SimJob
from et_scheduler.simulating.judging import Judge
from et_scheduler.simulating.measures import mean, percentile
from et_scheduler.simulating.policies import Policy
from et_scheduler.simulating.simulation import Simulation
from et_scheduler.simulating.workloads import GPU, LAUNCHER, WHOLE, WORKER, WORKLOADS, build_nodes

LONGEST = 60 * DAY


def run_trace(
    name: str, policy: Policy, *, drains: bool = True, gpus: int = 64
) -> dict[str, float]:
    """All jobs of the workload under one policy; the same jobs for each policy."""
    works = WORKLOADS[name](gpus, Random(7))

    def drain(random: Random) -> int:
        return random.randint(5 * SECOND, 60 * SECOND) if drains and policy.drains else 0

    shapes, decide = (WORKER, WHOLE, LAUNCHER), policy.begin(works)
    simulation = Simulation(build_nodes(gpus), shapes, [Queue("main")], decide, drain)
    if policy.is_judged:
        simulation.checks.append(Judge())
    for work in works:
        simulation.submit(work)
    while len(simulation.ended) < len(works) and simulation.clock.now < LONGEST:
        simulation.run(simulation.clock.now + HOUR)
    return _measure(simulation, simulation.ended, len(works), gpus)


def compute_slowdowns(jobs: Sequence[SimJob], gpus: int) -> list[float]:
    """Finish-time fairness (Themis): how long each of these ended jobs took, to what it would have.

    That is with its part of the cluster to itself: one of as many as there were at a time on
    average while it was there, its time in the cluster if that is less than its least size.
    """
    begins = np.array([one.job.created for one in jobs], dtype=np.int64)
    ends = np.array([one.ended_at or 0 for one in jobs], dtype=np.int64)
    found = []
    for one, begin, end in zip(jobs, begins.tolist(), ends.tolist(), strict=True):
        beside = np.clip(np.minimum(ends, end) - np.maximum(begins, begin), 0, None).sum()
        share = gpus * (end - begin) / float(beside) / _get_gpus(one)
        alone = (one.work.steps or 0) / _find_rate(one, min(share, one.job.maximum))
        found.append((end - begin) / (alone + one.work.resize_cost))
    return found


def _find_rate(sim: SimJob, workers: float) -> float:
    """Below its least size it has that, for a part of the time."""
    least = sim.job.minimum
    return sim.work.curve.get_rate(max(workers, least)) * min(workers / least, 1)


def _get_gpus(sim: SimJob) -> int:
    """Of each worker."""
    return dict(sim.job.worker.requests)[GPU]


def _measure(simulation: Simulation, jobs: list[SimJob], count: int, gpus: int) -> dict[str, float]:
    times = [(one.ended_at or 0) - one.job.created for one in jobs]
    waits = [(one.gang_at or 0) - one.job.created for one in jobs]
    sizes = [one.job.minimum * _get_gpus(one) for one in jobs]
    gangs = [wait for size, wait in zip(sizes, waits, strict=True) if size == max(sizes)]
    end = max(one.ended_at or 0 for one in jobs)
    useful = sum((one.work.steps or 0) * _get_gpus(one) for one in jobs)
    held = sum(one.held * _get_gpus(one) for one in jobs)
    slowdowns = compute_slowdowns(jobs, gpus)
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
        "GPU-hours held": held / HOUR,
        "useful of these, %": 100 * useful / held,
        "finish-time fairness, mean": mean(slowdowns),
        "finish-time fairness, worst": max(slowdowns),
        "resizes a job": mean([one.resizes for one in jobs]),
        "paused, s a job": mean([one.paused for one in jobs]) / SECOND,
        "evictions": sum(one.evictions for one in jobs),
        "passes": simulation.passes,
    }
