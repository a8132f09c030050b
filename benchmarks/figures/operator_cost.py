"""Memory and CPU of the operator against the number of pods, idle and in a storm.

Needs simulated nodes and a fresh operator. Storms are those that other figures of the run have
made, where they have (storms.py).
"""

from __future__ import annotations

from benchmarks import quotes
from benchmarks.benches import Bench
from benchmarks.findings import Chart, Figure, Finding, Goal, Line, Place, Series, Side
from benchmarks.operators import restart_operator
from benchmarks.storms import PODS, recall_storm, watch_idle

SIZES = (50, 1111)
"""Jobs of 8 workers: 450 and 9,999 pods."""
MEGABYTE = 1e6
LIMIT = 150.0


async def measure(bench: Bench) -> Finding:
    """A fresh operator with nothing to do, then with more and more pods."""
    site = bench.get_site()
    operator = await restart_operator(site)
    idle_cpu, _ = await watch_idle(site, operator)
    empty = operator.usage.memory / MEGABYTE
    series = [
        Series("no pods: memory", "MB", (empty,), Side.BARE),
        Series("no pods: CPU", "% of a core", (100 * idle_cpu,), Side.BARE),
    ]
    points, peaks = [(0.0, empty)], [(0.0, empty)]
    for jobs in SIZES:
        storm = await recall_storm(bench, jobs)
        pods = jobs * PODS
        memory, peak = storm.usage.memory / MEGABYTE, storm.usage.peak_memory / MEGABYTE
        series += [
            Series(f"{pods:,} pods: memory at rest", "MB", (memory,)),
            Series(f"{pods:,} pods: peak memory in the storm", "MB", (peak,)),
            Series(f"{pods:,} pods: CPU at rest", "% of a core", (100 * storm.idle_cpu,)),
            Series(
                f"{pods:,} pods: CPU of the storm, a job", "ms", (1000 * storm.operator_cpu / jobs,)
            ),
        ]
        points.append((pods, memory))
        peaks.append((pods, peak))
    series.append(
        Series("et-operator (Go), 500 pods", "MB", (quotes.MEMORY_MB,), Side.PEER, quotes.ORIGIN)
    )
    chart = Chart(
        name="operator-memory",
        title="Memory of the operator",
        across="pods",
        up="MB (RSS)",
        lines=(Line("at rest", tuple(points)), Line("peak in the storm", tuple(peaks))),
    )
    goal = Goal(f"memory at {SIZES[-1] * PODS:,} pods, peak", peaks[-1][1], LIMIT, "MB")
    return Finding(series=tuple(series), goals=(goal,), charts=(chart,))


FIGURE = Figure(
    title="What the operator costs",
    explanation=(
        "Resident memory and CPU of the operator's process (from /proc): fresh with no pods, then "
        "in a storm of jobs on simulated nodes and at rest after it. At rest is 20 s in which "
        "nobody asks for anything; node heartbeats and the lease go on."
    ),
    measure=measure,
    place=Place.SIMULATED,
)
