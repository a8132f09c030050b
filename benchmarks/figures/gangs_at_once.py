"""Many gangs in a queue that has room for all of them, beside the same jobs without a queue.

Needs simulated nodes. Jobs and storms are those of jobs_at_once.py; what is in between is
et-scheduler, which answers each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.benches import Bench, Storm
from benchmarks.findings import Figure, Finding, Goal, Place, Series, Side, Table
from benchmarks.operators import restart_operator
from benchmarks.pairing import SIMULATED_NOTE
from benchmarks.spreads import format_number, measure_spread
from benchmarks.storms import PODS, WORKERS, run_storm

JOBS = 200
SAMPLES = 3
LEAST = 0.9
"""Of the rate at which the same jobs are started without a queue."""
WAY_NOTE = (
    "A job with a queue is held first: the operator asks the API server by a dry run what a "
    "launcher and a worker of it would request, and writes that; et-scheduler answers, up to ten "
    "times a second for all who wait, by one write a job; then the operator starts it as any other."
)


async def measure(bench: Bench) -> Finding:
    """In turns with and without the queue, on a fresh operator."""
    await restart_operator(bench.get_site())
    queued, free = [], []
    for _ in range(bench.count_samples(SAMPLES)):
        queued.append(await run_storm(bench, JOBS, is_queued=True))
        free.append(await run_storm(bench, JOBS))
    return conclude(queued, free)


def conclude(queued: list[Storm], free: list[Storm]) -> Finding:
    """Rates by the medians of both."""
    ours, theirs = (tuple(storm.seconds for storm in storms) for storms in (queued, free))
    medians = [measure_spread(samples).median for samples in (ours, theirs)]
    rates = [JOBS * PODS / median for median in medians]
    rows = tuple(
        (name, *(format_number(find_middle(storms, name)) for storms in (queued, free)))
        for name in queued[0].cpu
    )
    turns = tuple(
        tuple(
            format_number(number)
            for storm in pair
            for number in (storm.seconds, sum(storm.cpu.values()))
        )
        for pair in zip(queued, free, strict=True)
    )
    return Finding(
        series=(
            Series(f"{JOBS} gangs of {WORKERS} in a queue", "s", ours),
            Series(f"the same {JOBS} jobs without a queue", "s", theirs, Side.BARE),
            Series("pods a second, in a queue", "1/s", (rates[0],)),
            Series("pods a second, without a queue", "1/s", (rates[1],), Side.BARE),
        ),
        goals=(
            Goal(
                f"{JOBS} gangs, rate to that without a queue",
                rates[0] / rates[1],
                LEAST,
                "x",
                is_floor=True,
            ),
        ),
        notes=(SIMULATED_NOTE, WAY_NOTE, describe_cpu(queued, free)),
        tables=(
            Table(
                f"Seconds of CPU, {JOBS} jobs x {WORKERS}, medians",
                ("process", "in a queue", "without a queue"),
                rows,
            ),
            Table(
                "Each turn: seconds that it took, and of CPU of all these processes",
                ("in a queue", "its CPU", "without a queue", "its CPU"),
                turns,
            ),
        ),
    )


def describe_cpu(queued: Sequence[Storm], free: Sequence[Storm]) -> str:
    """What the rate would come to if processors were all that is waited for."""
    ours, theirs = (
        measure_spread(tuple(sum(storm.cpu.values()) for storm in storms)).median
        for storms in (queued, free)
    )
    return (
        f"To start them took {format_number(ours)} s of CPU in a queue and {format_number(theirs)} "
        f"without, medians: {format_number(theirs / ours)} x is what the rate comes to where "
        "nothing but processors is waited for. What is added are seven requests a job, five of "
        "them writes of a status or an Event that each are checked against the schema and sent to "
        "whoever watches, and the passes that answer them."
    )


def find_middle(storms: Sequence[Storm], process: str) -> float:
    """The median of what a process used in these storms, in seconds of CPU."""
    return measure_spread(tuple(storm.cpu[process] for storm in storms)).median


FIGURE = Figure(
    title="Many gangs at once",
    explanation=(
        f"{JOBS} jobs of {WORKERS} workers and a launcher, created 16 requests at a time, until "
        "every job is Running; simulated nodes (KWOK) with room for all. In a queue, where each is "
        "a gang that et-scheduler admits, and in turns in the same run without a queue."
    ),
    measure=measure,
    place=Place.SIMULATED,
)
