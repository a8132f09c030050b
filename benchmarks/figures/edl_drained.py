"""EDL's two experiments in et-scheduler's simulator, where workers leave at their next commit.

No cluster and no time of this machine: on simulated nodes a worker goes at once, and what drains
cost is seen here alone. What happens when is that of edl_1.py and edl_2.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Series, Side, Table
from et_scheduler.simulating.cases import TIDES, run_case_1, run_case_2
from et_scheduler.simulating.measures import mean
from et_scheduler.simulating.policies import OURS, POLICIES

SEEDS = range(1, 7)
"""Of the drains: runs of each experiment."""
JOBS = 20
FIRST, GANG, LONGEST = "first trainer, mean s", "whole gang, mean s", "whole gang, max s"
STARTED, JAIN, ENDED, USE = "started", "Jain", "trainers ended", "of the placed bound, %"
SERVICES = "services, max wait s"
SOON = tuple(f"{number}: {wanted}, after 20 s, %" for number, wanted in enumerate(TIDES))
LONGEST_DRAIN, GRACE = 60.0, 5.0
TWO_DRAINS_NOTE = (
    "Case 1, the longest waits: a gang may have to wait for two drains. Ten pods without a queue "
    "come with each job, and kube-scheduler binds them to whatever is free first, also to what "
    "workers have left for a gang; room for it is then asked for once more. When no more of them "
    "come, all gangs start."
)
ONE_BY_ONE_NOTE = (
    "Case 2, pods of the service: a turn of the tide takes 4 s, and they come one by one. For the "
    "first few each of the six jobs is asked for a worker or two within half a second, and a job "
    "whose workers are leaving is asked for no more. So the others wait for the shortest of six "
    "drains, and then for one that makes room for all."
)
LEVEL_NOTE = (
    "Case 2, CPU after a turn: who has just grown rests for 30 s, and nobody grows while room is "
    "given back for the level of all. What the service leaves meanwhile is idle until then; at the "
    "end of each phase in which it needs less, the cluster is full."
)

Run = Mapping[str, float]
"""What one run took, by the name of the measure."""


async def measure(bench: Bench) -> Finding:
    """Both with several seeds, and once under EDL's own rules."""
    del bench  # of this machine nothing is measured
    return await asyncio.to_thread(run_all)


def run_all() -> Finding:
    """Simulated time only."""
    [edl] = (one for one in POLICIES if one.name == "edl")
    return conclude(
        [run_case_1(OURS, seed=seed).numbers for seed in SEEDS],
        [run_case_2(OURS, seed=seed).numbers for seed in SEEDS],
        (run_case_1(edl).numbers, run_case_2(edl).numbers),
    )


def conclude(first: Sequence[Run], second: Sequence[Run], edl: tuple[Run, Run]) -> Finding:
    """Each goal is held against the worst of the runs, a mean against that of all of them."""
    goals = (*judge_first(first), *judge_second(second))
    return Finding(
        series=(
            Series("case 1: created to first trainer, mean of a run", "s", _list(first, FIRST)),
            Series("case 1: created to whole gang, mean of a run", "s", _list(first, GANG)),
            Series("case 1: created to whole gang, longest of a run", "s", _list(first, LONGEST)),
            Series("case 1: by EDL's rules, mean", "s", (edl[0][GANG],), Side.PEER),
            Series("case 2: longest without a node, of a run", "s", _list(second, SERVICES)),
            Series(
                "case 2: CPU to the most, 20 s after a turn",
                "%",
                tuple(one[name] for one in second for name in SOON),
            ),
        ),
        goals=goals,
        notes=(TWO_DRAINS_NOTE, ONE_BY_ONE_NOTE, LEVEL_NOTE),
        tables=(tabulate("Case 1", first, edl[0]), tabulate("Case 2", second, edl[1])),
    )


def judge_first(runs: Sequence[Run]) -> tuple[Goal, ...]:
    """Of twenty jobs that come one after the other."""
    return (
        Goal("case 1: created to whole gang, mean of all runs", mean(_list(runs, GANG)), 30.0, "s"),
        Goal("case 1: created to whole gang, longest", max(_list(runs, LONGEST)), 70.0, "s"),
        Goal("case 1: jobs that have started", min(_list(runs, STARTED)), JOBS, "", is_floor=True),
        Goal("case 1: Jain's fairness", min(_list(runs, JAIN)), 0.95, "", is_floor=True),
        Goal("case 1: trainers that et-scheduler ended", max(_list(runs, ENDED)), 300.0, ""),
        Goal("case 1: CPU, to the most", min(_list(runs, USE)), 98.0, "%", is_floor=True),
    )


def judge_second(runs: Sequence[Run]) -> tuple[Goal, ...]:
    """Of a service that needs less, and then more again."""
    soon = min(one[name] for one in runs for name in SOON)
    longest, limit = max(_list(runs, SERVICES)), LONGEST_DRAIN + GRACE
    return (
        Goal("case 2: the longest that a pod of the service had no node", longest, limit, "s"),
        Goal("case 2: CPU to the most, 20 s after the worst turn", soon, 98.0, "%", is_floor=True),
    )


def tabulate(title: str, runs: Sequence[Run], edl: Run) -> Table:
    """A row a measure, a column a run."""
    rows = tuple(
        (name, *(f"{one[name]:.2f}" for one in (*runs, edl))) for name in runs[0] if name in edl
    )
    return Table(title, ("", *(f"seed {seed}" for seed in SEEDS), "EDL's rules"), rows)


def _list(runs: Sequence[Run], name: str) -> tuple[float, ...]:
    return tuple(one[name] for one in runs)


FIGURE = Figure(
    title="EDL's experiments with drains",
    explanation=(
        "Both experiments in et-scheduler's simulator, with workers that take 5 to 60 s until they "
        f"have left: their job's next commit. {len(SEEDS)} runs of each, which differ by their "
        "drains; all goals but that of the mean are held against the worst. Beside it EDL's rules, "
        "by which workers are killed at once. Simulated time, so that the machine does not matter."
    ),
    measure=measure,
    place=Place.NOTHING,
)
