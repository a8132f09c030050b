"""Workloads as others have published them, in et-scheduler's simulator, under five policies.

No cluster and no time of this machine: the simulator alone, under its policies
(et_scheduler/simulating/policies.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Table
from et_scheduler.simulating.policies import POLICIES
from et_scheduler.simulating.traces import run_trace
from et_scheduler.simulating.workloads import WORKLOADS

OURS = "ours"
ELASTIC = ("gavel", "philly", "pollux")
RIGID = "rigid"
MEAN, GANG = "JCT, mean min", "largest gang, max wait min"
LONGEST_RUN, TWO_DRAINS = 30.0, 2.0
"""Minutes: of the jobs among which the large gang waits; of drains of up to 60 s."""

Outcomes = Mapping[str, Mapping[str, float]]
"""By policy, its numbers by their names."""


async def measure(bench: Bench) -> Finding:
    """Each workload under each policy, the same jobs for all of them."""
    del bench  # of this machine nothing is measured
    found = {name: await asyncio.to_thread(run_all, name) for name in WORKLOADS}
    return Finding(
        goals=(*(judge_elastic(name, found[name]) for name in ELASTIC), judge_gang(found[RIGID])),
        tables=tuple(tabulate(name, outcomes) for name, outcomes in found.items()),
        notes=(
            "Policies that know how fast each job would be with more workers (AFS) are left out.",
        ),
    )


def run_all(name: str) -> Outcomes:
    """One workload under every policy."""
    return {policy.name: run_trace(name, policy) for policy in POLICIES}


def judge_elastic(name: str, outcomes: Outcomes) -> Goal:
    """No other policy here evicts: the best of them is the limit."""
    best = min(numbers[MEAN] for policy, numbers in outcomes.items() if policy != OURS)
    text = f"{name}: mean time from creation to end, the best of the others {best:.1f} min"
    return Goal(text, outcomes[OURS][MEAN], best, "min")


def judge_gang(outcomes: Outcomes) -> Goal:
    """A gang waits for those that run where it is to start, and for workers that leave."""
    text = f"{RIGID}: longest wait of a gang of half the nodes, the longest run and two drains"
    return Goal(text, outcomes[OURS][GANG], LONGEST_RUN + TWO_DRAINS, "min")


def tabulate(name: str, outcomes: Outcomes) -> Table:
    """A row a measure, a column a policy."""
    rows = tuple(
        (measure, *(f"{numbers[measure]:.2f}" for numbers in outcomes.values()))
        for measure in outcomes[OURS]
    )
    return Table(name, ("", *outcomes), rows)


FIGURE = Figure(
    title="Published workloads",
    explanation=(
        "Jobs like those of Gavel, Philly and Pollux on 64 GPUs, and rigid jobs of one GPU with a "
        "gang of half the nodes among them, in et-scheduler's simulator: sizes, times and arrivals "
        "are drawn from what was published, with a fixed seed. Workers that leave take 5 to 60 s. "
        "Beside our planning EDL's loop, first in first out with the most and with the least "
        "workers, and whoever fits. Simulated time, so that the machine does not matter."
    ),
    measure=measure,
    place=Place.NOTHING,
)
