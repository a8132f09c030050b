"""Many jobs of 8 workers at once, beside a bare script that creates the same pods.

Needs simulated nodes; pairing.py runs jobs and bare pods in turns. A size beyond its usual ones is
measured only where SCALE asks for it.
"""

from __future__ import annotations

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Place
from benchmarks.pairing import SIMULATED_NOTE, draw_pairs, run_pairs
from benchmarks.storms import WORKERS

SIZES = {50: 3, 200: 1}
"""Jobs -> how often."""
LIMITS_NOTE = (
    "Scheduler and controller manager may make 1,000 requests a second here. With the limits that "
    "Kubernetes ships it is their waiting that is measured: see jobs-at-once-as-shipped. Here the "
    "processor is: whatever an operator does comes on top of what pods cost anyway, and the tables "
    "say who used it."
)


async def measure(bench: Bench) -> Finding:
    """Each size in turns: jobs, then bare pods, then jobs ..."""
    pairs = await run_pairs(bench, SIZES | ({bench.scale: 1} if bench.scale else {}))
    return Finding(
        series=tuple(series for pair in pairs for series in pair.series),
        goals=tuple(pair.goal for pair in pairs),
        notes=(SIMULATED_NOTE, LIMITS_NOTE),
        tables=tuple(pair.processor for pair in pairs),
        charts=(draw_pairs("jobs-at-once", "First creation to all Running", pairs),),
    )


FIGURE = Figure(
    title="Many jobs at once",
    explanation=(
        f"So many jobs of {WORKERS} workers and a launcher, created 16 requests at a time, until "
        "every job is Running; simulated nodes (KWOK). Beside it a script that creates pods of the "
        "same content, also 16 at a time, until every pod is Running, in turns in the same run."
    ),
    measure=measure,
    place=Place.SIMULATED,
)
