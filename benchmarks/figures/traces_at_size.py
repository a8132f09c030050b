"""Gavel's workload on more GPUs, in et-scheduler's simulator, under several policies.

As traces.py, whose tables these continue; only the cluster is larger.
"""

from __future__ import annotations

import asyncio

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Place
from benchmarks.outcomes import explain, judge, run_all, tabulate

WORKLOAD = "gavel"
SIZES = {
    256: frozenset[str](),
    1024: frozenset({"fifo-max", "fifo-min", "kube-batch", "drf", "las"}),
}
"""GPUs, and who is left out: all but the best on fewer, for time."""


async def measure(bench: Bench) -> Finding:
    """Each size under each policy, the same jobs for all of them."""
    del bench  # of this machine nothing is measured
    found = [
        (f"{gpus:,} GPUs", await asyncio.to_thread(run_all, WORKLOAD, gpus, without))
        for gpus, without in SIZES.items()
    ]
    return Finding(
        goals=tuple(goal for one in found for goal in judge(*one)),
        tables=tuple(tabulate(*one) for one in found),
        notes=tuple(note for one in found for note in explain(*one)),
    )


FIGURE = Figure(
    title="Gavel's workload on more GPUs",
    explanation=(
        "Jobs like those of Gavel on 256 and on 1,024 GPUs, 320 and 640 of them: fewer for each "
        "GPU than in traces, for more would take too long to simulate, but twice and four times as "
        "fast as there. Policies and measures are those of traces; on 1,024 only those that were "
        "best on 256. Simulated time, so that the machine does not matter."
    ),
    measure=measure,
    place=Place.NOTHING,
)
