"""Many jobs of 8 workers at once, beside a bare script that creates the same pods."""

from __future__ import annotations

from benchmarks import quotes
from benchmarks.benches import Bench
from benchmarks.findings import Chart, Figure, Finding, Goal, Line, Place, Series, Side, Table
from benchmarks.operators import restart_operator
from benchmarks.spreads import format_number, measure_spread
from benchmarks.storms import PODS, WORKERS, BareStorm, Storm, run_bare, run_storm

SIZES = {50: 3, 200: 1}
"""Jobs -> how often."""
RATIO = 1.2

NOTES = (
    (
        "Simulated pods: KWOK sets their phases, nothing runs in them, and no stand-in plays the "
        "brokers. A job is Running when its pods are; the one status write that follows a broker's "
        "report (HostsListed) does not happen here and is counted in writes-per-job, where real "
        "brokers run."
    ),
    (
        "Scheduler and controller manager may make 1,000 requests a second here: with Kubernetes' "
        "own limits (50 and 20) their waiting would be what is measured, and any operator would "
        "look good."
    ),
)


async def measure(bench: Bench) -> Finding:
    """Each size in turns: jobs, then bare pods, then jobs ..."""
    await restart_operator(bench.get_site())
    sizes = SIZES | ({bench.scale: 1} if bench.scale else {})
    series: list[Series] = []
    goals: list[Goal] = []
    tables: list[Table] = []
    ours, bare = [], []
    for jobs, usual in sizes.items():
        pairs = []
        for _ in range(min(bench.count_samples(usual), usual)):
            storm = await run_storm(bench, jobs)
            pairs.append((storm, await run_bare(bench, storm)))
        mine = Series(f"{jobs} jobs x {WORKERS}", "s", tuple(s.seconds for s, _ in pairs))
        other = Series(
            f"{jobs * PODS} bare pods", "s", tuple(b.seconds for _, b in pairs), Side.BARE
        )
        series += [mine, other]
        medians = measure_spread(mine.samples).median, measure_spread(other.samples).median
        goals.append(Goal(f"{jobs} jobs, to bare pods", medians[0] / medians[1], RATIO, "x"))
        ours.append((float(jobs), medians[0]))
        bare.append((float(jobs), medians[1]))
        tables.append(compare_cpu(*pairs[-1]))
    chart = Chart(
        name="jobs-at-once",
        title="First creation to all Running",
        across="jobs of 8 workers",
        up="seconds",
        lines=(Line("operator", tuple(ours)), Line("bare script, the same pods", tuple(bare))),
    )
    quoted = (
        Series("et-operator, 50 jobs", "s", (quotes.STORM_SECONDS,), Side.PEER, quotes.ORIGIN),
        Series(
            "bare pods there, 50 requests/s to schedule",
            "s",
            (quotes.STORM_BARE_SECONDS,),
            Side.PEER,
            quotes.ORIGIN,
        ),
    )
    return Finding((*series, *quoted), tuple(goals), NOTES, tuple(tables), (chart,))


def compare_cpu(storm: Storm, bare: BareStorm) -> Table:
    """Who used the processor in the last pair."""
    rows = tuple(
        (name, format_number(used), format_number(bare.cpu[name]))
        for name, used in storm.cpu.items()
    )
    title = f"Seconds of CPU, {storm.jobs} jobs x {WORKERS}"
    return Table(title, ("process", "with the operator", "bare script"), rows)


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
