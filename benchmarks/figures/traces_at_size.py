"""Gavel's workload on more GPUs, in et-scheduler's simulator, under several policies.

As traces.py, whose tables these continue; only the cluster is larger. The largest is tried only
where SCALE asks for the longest runs.
"""

from __future__ import annotations

import asyncio

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Place
from benchmarks.outcomes import explain, judge, run_all, tabulate

WORKLOAD = "gavel"
GPUS, MORE_GPUS = 256, 1024
LEFT_OUT = frozenset({"fifo-max", "fifo-min", "kube-batch", "drf", "las"})
"""On more: all but the best on fewer, for time."""


async def measure(bench: Bench) -> Finding:
    """Each size under each policy, the same jobs for all of them."""
    sizes = {GPUS: frozenset[str]()} | ({MORE_GPUS: LEFT_OUT} if bench.scale else {})
    found = [
        (f"{gpus:,} GPUs", await asyncio.to_thread(run_all, WORKLOAD, gpus, without))
        for gpus, without in sizes.items()
    ]
    return Finding(
        goals=tuple(goal for one in found for goal in judge(*one)),
        tables=tuple(tabulate(*one) for one in found),
        notes=tuple(note for one in found for note in explain(*one)),
    )


FIGURE = Figure(
    title="Gavel's workload on more GPUs",
    explanation=(
        "Jobs like those of Gavel on 256 GPUs, 320 of them: fewer for each GPU than in traces, for "
        "more would take too long to simulate, but twice as fast as there. With SCALE also on "
        "1,024, 640 jobs that come four times as fast, by those policies that are best on 256. "
        "Policies and measures are those of traces. Simulated time, so that the machine does not "
        "matter."
    ),
    measure=measure,
    place=Place.NOTHING,
)
