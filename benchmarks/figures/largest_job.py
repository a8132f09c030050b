"""What a pass over the largest job costs, whatever happens to it.

No cluster: the planner and the store on a StandingJob (standing.py), in CPU time of this process.
Writes are no part of a pass here.
"""

from __future__ import annotations

import time
from datetime import timedelta

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Series
from benchmarks.spreads import measure_spread
from benchmarks.standing import StandingJob
from et_contract.documents import MAX_WORKERS
from et_operator.model.plans import Plan

LIMIT = 100.0
SAMPLES = 3
PAUSE = timedelta(seconds=1)
MILLISECOND = 1e-3


class TimedJob(StandingJob):
    """One whose passes are timed, in seconds of CPU."""

    passes: list[float]

    def decide(self) -> Plan:
        """As StandingJob.decide."""
        started = time.process_time()
        result = super().decide()
        self.passes.append(time.process_time() - started)
        return result


async def measure(bench: Bench) -> Finding:
    """Of its start, and of a ScaleIn of all but one."""
    start, end = [], []
    for _ in range(bench.count_samples(SAMPLES)):
        TimedJob.passes = []
        job = TimedJob(MAX_WORKERS, bench.clock.now())
        start.append(max(job.passes) / MILLISECOND)
        job.passes.clear()
        job.scale_in(MAX_WORKERS - 1)
        job.settle(PAUSE)
        end.append(max(job.passes) / MILLISECOND)
    series = (
        Series(f"the longest pass, start of {MAX_WORKERS:,} workers", "ms", tuple(start)),
        Series(f"the longest pass, ScaleIn by {MAX_WORKERS - 1:,}", "ms", tuple(end)),
    )
    goals = tuple(
        Goal(f"{one.label}, median", measure_spread(one.samples).median, LIMIT, "ms")
        for one in series
    )
    return Finding(series=series, goals=goals)


FIGURE = Figure(
    title="The largest job",
    explanation=(
        f"A job of {MAX_WORKERS:,} workers, which is the most, in memory, without a cluster: the "
        "longest of the passes in which it starts, and of those of a ScaleIn that leaves one "
        "worker. A pass is the snapshot and the plan, without its writes, in CPU time; nothing "
        "else happens in the operator while one lasts."
    ),
    measure=measure,
    place=Place.NOTHING,
)
