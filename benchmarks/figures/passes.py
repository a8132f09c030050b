"""Reconcile passes that changed nothing.

Needs simulated nodes. Counted by the operator's own metrics in a storm that other figures share;
nothing is timed, and there is no goal.
"""

from __future__ import annotations

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Place, Series, Side
from benchmarks.storms import IDLE_SECONDS, recall_storm

JOBS = 50
NOTE = (
    "A pass is a look at one job; it is due when something of the job has changed. Changes that "
    "come while a job waits for its pass are looked at together: so there are fewer passes."
)


async def measure(bench: Bench) -> Finding:
    """Of a storm of 50 jobs, and of the rest after it."""
    storm = await recall_storm(bench, JOBS)
    series = [
        Series(f"passes a job: {result}", "", (count / JOBS,))
        for result, count in sorted(storm.passes.items())
    ]
    share = 100 * storm.passes["unchanged"] / storm.passes.total()
    writes = sum(count for (who, _, _), count in storm.writes.items() if who == "operator")
    series += [
        Series("share that changed nothing", "%", (share,)),
        Series(
            f"passes in {IDLE_SECONDS:.0f} s at rest, all jobs", "", (float(storm.idle_passes),)
        ),
        Series(
            "events to look at, a job: its pods' and its own",
            "",
            (count_events(storm.writes) / JOBS,),
            Side.BARE,
        ),
        Series("writes of the operator, a job", "", (writes / JOBS,), Side.BARE),
    ]
    return Finding(series=tuple(series), notes=(NOTE,))


def count_events(writes: dict[tuple[str, str, str], int]) -> int:
    """Changes of pods and jobs by whomever, each of which the operator's watches tell it."""
    about = ("pods", "pods/status", "pods/binding", "trainingjobs", "trainingjobs/status")
    return sum(count for (_, _, target), count in writes.items() if target in about)


FIGURE = Figure(
    title="Passes that changed nothing",
    explanation=(
        f"The operator's own count of its passes in a storm of {JOBS} jobs x 8 on simulated nodes, "
        "by result, until it came to rest. Beside it what there was to see and to write."
    ),
    measure=measure,
    place=Place.SIMULATED,
)
