"""What a night has shown: docs/chaos.md, its picture, and the end of a run."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict

from benchmarks.findings import Chart, Line
from tests.chaos.judging import JUDGES
from tests.chaos.records import STEADY, Cost, Passage, Record, measure_cost
from tests.chaos.schedules import FIRST, LEAST, MOST

WHOLE = 1800
HEAD = f"""\
# A night with everything at once

For those who want to know what a training lives through, and what each loss costs it.

`make chaos` runs one job with Horovod on the test cluster, {FIRST} workers of {LEAST} to {MOST}. It
breaks it and what it stands on, round after round, in an order that follows from a seed. A round is
one fault, or two at once; it ends when the wanted number of ranks has trained {STEADY} steps again.
All that is written meanwhile, and each step, is recorded and judged. The run writes this page.
"""


def build_page(record: Record, seconds: float, seed: int, load: float) -> str:
    """docs/chaos.md; `load` is what else the machine did, its load average before."""
    whole = "a whole night" if seconds >= WHOLE else f"a short one: {seconds:.0f} s, not {WHOLE}"
    steps = f"{len(record.steps):,} steps, {len(record.passages)} rounds"
    return "\n".join(
        [
            HEAD,
            f"This is {whole}, seed {seed}: {steps}, on {os.cpu_count()} cores whose load average",
            f"was {load:.1f} before. `make chaos SECONDS=n SEED=n` runs another one.",
            "",
            "![Ranks that trained, second by second](chaos.png)",
            "",
            *build_tables(record),
            "",
        ]
    )


def build_tables(record: Record) -> list[str]:
    """What was promised, what each kind of fault cost, and round by round what was done."""
    return [*build_promises(record), "", *build_costs(record), "", *build_rounds(record)]


def build_promises(record: Record) -> list[str]:
    """A line for each judge."""
    lines = ["## What must hold", "", "| promise | kept |", "|---|---|"]
    for promise, judge in JUDGES.items():
        breaches = list(judge(record))
        lines.append(f"| {promise} | {'**no**: ' + '; '.join(breaches) if breaches else 'yes'} |")
    return lines


def build_costs(record: Record) -> list[str]:
    """A line for each kind, of rounds that had no other fault."""
    costs: dict[str, list[Cost]] = defaultdict(list)
    for passage in record.passages:
        kinds = [strike.kind for strike in passage.strikes]
        costs[kinds[0] if len(kinds) == 1 else "two at once"].append(measure_cost(record, passage))
    lines = [
        "## What each cost",
        "",
        "Seconds without a step, and until all wanted ranks trained again: median and longest.",
        "",
        "| fault | times | without a step | steps again, at most | all back after |",
        "|---|---:|---:|---:|---:|",
    ]
    for kind, found in sorted(costs.items()):
        back = [cost.back for cost in found if cost.back is not None]
        still = [cost.still for cost in found]
        again = max(cost.repeated for cost in found)
        cells = f"{len(found)} | {spread(still)} | {again} | {spread(back)}"
        lines.append(f"| {kind} | {cells} |")
    return lines


def build_rounds(record: Record) -> list[str]:
    """The schedule as it was lived."""
    began = find_beginning(record)
    lines = ["## Round by round", ""]
    lines += ["| second | fault | of | without a step | back after |", "|---:|---|---|---:|---:|"]
    for passage in record.passages:
        cost = measure_cost(record, passage)
        back = "never" if cost.back is None else f"{cost.back:.0f} s"
        lines.append(
            f"| {passage.strikes[0].at - began:.0f} | {join(passage, 'kind')} "
            f"| {join(passage, 'said')} | {cost.still:.1f} s | {back} |"
        )
    return lines


def build_chart(record: Record) -> Chart:
    """How many ranks trained, beside how many should have."""
    began = find_beginning(record)
    ranks = tuple((step.at - began, float(step.size)) for step in record.steps)
    wanted = [(0.0, float(FIRST))]
    for passage in record.passages:
        pairs = zip(passage.strikes, passage.round.faults, strict=True)
        wanted += [(strike.at - began, float(fault.wanted)) for strike, fault in pairs]
    lines = (Line("wanted", tuple(wanted)), Line("trained", ranks))
    return Chart("chaos", "Ranks", "seconds", "ranks", lines, is_stepwise=True)


def find_beginning(record: Record) -> float:
    """When the first step was trained; 0 without any."""
    return record.steps[0].at if record.steps else 0.0


def join(passage: Passage, what: str) -> str:
    """Of all its faults that have it."""
    return ", ".join(filter(None, (str(getattr(strike, what)) for strike in passage.strikes)))


def spread(seconds: list[float]) -> str:
    """Median and longest."""
    if not seconds:
        return "never"
    return f"{statistics.median(seconds):.1f}, {max(seconds):.1f} s"
