"""Plans per second against job size, without any cluster.

No cluster: the planner itself, on a job at rest in memory. Beside it what parsing the same pods
costs; there is no goal.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from benchmarks.benches import Bench
from benchmarks.findings import Chart, Figure, Finding, Line, Place, Series, Side
from benchmarks.spreads import measure_spread
from benchmarks.standing import StandingJob
from et_kube.clock import Clock
from et_operator.planning.planner import plan

SIZES = (2, 8, 32, 128, 512)
BATCH_SECONDS = 0.2
SAMPLES = 10

PLAN = "plan"
PASS = "snapshot and plan"  # noqa: S105 (a label)
READING = "json.loads of the job's pods"


async def measure(bench: Bench) -> Finding:
    """Of a job that runs and of which nothing is to be done: the commonest pass there is."""
    series: list[Series] = []
    lines: dict[str, list[tuple[float, float]]] = {PLAN: [], PASS: [], READING: []}
    for size in SIZES:
        job = StandingJob(size, bench.clock.now())
        snapshot, texts = job.look(), job.list_pods()
        works: tuple[tuple[str, Side, Callable[[], object]], ...] = (
            (PLAN, Side.OURS, lambda s=snapshot, j=job: plan(s, j.now)),  # type: ignore[misc]
            (PASS, Side.OURS, lambda j=job: plan(j.look(), j.now)),  # type: ignore[misc]
            (READING, Side.BARE, lambda t=texts: [json.loads(text) for text in t]),  # type: ignore[misc]
        )
        for label, side, work in works:
            rates = tuple(
                count_rate(work, bench.clock) for _ in range(bench.count_samples(SAMPLES))
            )
            series.append(Series(f"{label}, {size} workers", "1/s", rates, side))
            lines[label].append((size, measure_spread(rates).median))
    chart = Chart(
        name="planner",
        title="One pass over a job at rest",
        across="workers",
        up="passes per second and core",
        lines=tuple(Line(label, tuple(points)) for label, points in lines.items()),
        is_logarithmic=True,
    )
    return Finding(series=tuple(series), charts=(chart,))


def count_rate(work: Callable[[], object], clock: Clock) -> float:
    """How often per second it can be done, over BATCH_SECONDS at least."""
    count, started = 0, clock.monotonic()
    while (passed := clock.monotonic() - started) < BATCH_SECONDS:
        work()
        count += 1
    return count / passed


FIGURE = Figure(
    title="The planner alone",
    explanation=(
        "A job that runs, in memory, without a cluster: how many times a second one core can "
        "decide that there is nothing to do (`plan`), and the same with reading the store before "
        "it. Beside it what merely parsing the JSON of the same pods costs."
    ),
    measure=measure,
    place=Place.NOTHING,
)
