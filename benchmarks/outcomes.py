"""Workloads in et-scheduler's simulator under several policies: run, judged, and put in tables.

For the figures of published workloads. Nothing of this machine is measured: time is simulated.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from benchmarks.findings import Goal, Table
from et_scheduler.simulating.policies import OURS, POLICIES
from et_scheduler.simulating.traces import run_trace

RIVALS = tuple(one.name for one in POLICIES if one.is_rival)
INFORMED, NEAR = "afs", 1.03
MEAN, P99, WAIT = "JCT, mean min", "JCT, p99 min", "wait, mean min"
TIMES = {MEAN: "mean time from creation to end", P99: "99th percentile of it"}

Outcomes = Mapping[str, Mapping[str, float]]
"""By policy, its numbers by their names."""


def run_all(name: str, gpus: int, without: Container[str] = ()) -> Outcomes:
    """One workload under every policy but those, the same jobs for all of them."""
    chosen = (policy for policy in POLICIES if policy.name not in without)
    return {policy.name: run_trace(name, policy, gpus=gpus) for policy in chosen}


def list_rivals(outcomes: Outcomes) -> list[str]:
    """Whom ours is to be better than, of those that were run."""
    return [rival for rival in RIVALS if rival in outcomes]


def judge(title: str, outcomes: Outcomes) -> Iterator[Goal]:
    """As good as the best of those that know no more and end no job; near who knows more."""
    ours = outcomes[OURS.name]
    for measure, words in TIMES.items():
        best = min(outcomes[rival][measure] for rival in list_rivals(outcomes))
        yield Goal(f"{title}: {words}, the best of the others", ours[measure], best, "min")
    ratio = ours[MEAN] / outcomes[INFORMED][MEAN]
    yield Goal(f"{title}: mean, to AFS, which knows how fast jobs would be", ratio, NEAR, "x")


def explain(title: str, outcomes: Outcomes) -> Iterator[str]:
    """What the 99th percentile is the price of, where another has a lower one."""
    ours, informed = outcomes[OURS.name], outcomes[INFORMED]
    best = min(list_rivals(outcomes), key=lambda rival: outcomes[rival][P99])
    theirs = outcomes[best]
    if theirs[P99] < ours[P99]:
        yield (
            f"{title}, 99th percentile: the longest jobs are large ones, and by our rule they "
            "share evenly with all who come while they are there; AFS does so too, with "
            f"{informed[P99]:.0f} min. By the rules of {best} who has workers keeps them, and who "
            f"comes waits: {theirs[WAIT]:.1f} min on average instead of {ours[WAIT]:.1f}, so that "
            f"the mean time is {theirs[MEAN]:.1f} min instead of {ours[MEAN]:.1f}."
        )


def tabulate(title: str, outcomes: Outcomes) -> Table:
    """A row a measure, a column a policy."""
    rows = tuple(
        (measure, *(f"{numbers[measure]:.2f}" for numbers in outcomes.values()))
        for measure in outcomes[OURS.name]
    )
    return Table(title, ("", *outcomes), rows)
