"""Storms of jobs in turns with storms of bare pods, and what the two say of each other.

For the two figures of jobs at once. Each storm of jobs is followed by its bare pods, so that both
meet the same machine; the operator is fresh before the first. No time is taken here: storms.py
makes both kinds, and measures them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.benches import Bench, Storm
from benchmarks.findings import Chart, Goal, Line, Series, Side, Table
from benchmarks.operators import restart_operator
from benchmarks.spreads import format_number, measure_spread
from benchmarks.storms import PODS, WORKERS, BareStorm, run_bare, run_storm

RATIO = 1.2
"""What a storm of jobs may take, to the same pods by a script."""
SIMULATED_NOTE = (
    "Simulated pods: KWOK sets their phases, nothing runs in them, and no stand-in plays the "
    "brokers. A job is Running when its pods are; the one status write that follows a broker's "
    "report (HostsListed) does not happen here and is counted in writes-per-job, where real "
    "brokers run."
)


@dataclass(frozen=True, slots=True)
class Pairs:
    """So many jobs, several times, each beside the same pods by a script."""

    jobs: int
    storms: tuple[Storm, ...]
    bare: tuple[BareStorm, ...]

    @property
    def medians(self) -> tuple[float, float]:
        """Seconds of the jobs, and of the bare pods."""
        ours, theirs = self.series
        return measure_spread(ours.samples).median, measure_spread(theirs.samples).median

    @property
    def series(self) -> tuple[Series, Series]:
        """Seconds of the jobs, and of the bare pods, as samples."""
        ours = tuple(storm.seconds for storm in self.storms)
        theirs = tuple(bare.seconds for bare in self.bare)
        pods = f"{self.jobs * PODS:,} bare pods"
        return (
            Series(f"{self.jobs:,} jobs x {WORKERS}", "s", ours),
            Series(pods, "s", theirs, Side.BARE),
        )

    @property
    def goal(self) -> Goal:
        """How much longer the jobs took."""
        ours, theirs = self.medians
        return Goal(f"{self.jobs:,} jobs, to bare pods", ours / theirs, RATIO, "x")

    @property
    def processor(self) -> Table:
        """Who used the processor in the last pair."""
        storm, bare = self.storms[-1], self.bare[-1]
        rows = tuple(
            (name, format_number(used), format_number(bare.cpu[name]))
            for name, used in storm.cpu.items()
        )
        title = f"Seconds of CPU, {self.jobs:,} jobs x {WORKERS}"
        return Table(title, ("process", "with the operator", "bare script"), rows)


async def run_pairs(bench: Bench, sizes: Mapping[int, int]) -> list[Pairs]:
    """For each number of jobs so many pairs, or as many as the bench asks for if that is less."""
    await restart_operator(bench.get_site())
    found = []
    for jobs, usual in sizes.items():
        storms, bare = [], []
        for _ in range(min(bench.count_samples(usual), usual)):
            storms.append(await run_storm(bench, jobs))
            bare.append(await run_bare(bench, storms[-1]))
        found.append(Pairs(jobs, tuple(storms), tuple(bare)))
    return found


def draw_pairs(name: str, title: str, pairs: list[Pairs]) -> Chart:
    """Seconds against jobs."""
    ours = tuple((float(pair.jobs), pair.medians[0]) for pair in pairs)
    theirs = tuple((float(pair.jobs), pair.medians[1]) for pair in pairs)
    lines = (Line("operator", ours), Line("bare script, the same pods", theirs))
    return Chart(name, title, f"jobs of {WORKERS} workers", "seconds", lines)
