"""What it costs a training that one of its workers is said to end, so many seconds ahead.

Needs the image that trains. The word is the annotation that a cloud's handler or `et node leaving`
writes, on a worker's pod: so no node is used up by it, and one job hears it again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from benchmarks.apis import build_path, wait_for
from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Series
from benchmarks.namespaces import make_namespace
from benchmarks.trainings import (
    PATIENCE,
    STEADY,
    WORKERS,
    Step,
    Training,
    build_training,
    find_rings,
    find_steps,
    run_training,
)
from et_kube.notices import LEAVING_AT
from et_kube.times import format_time

SAMPLES = 5
LEADS = (120, 30, 10, 0)
"""Seconds ahead; the last is a word that comes when it is time already."""
WHOLE = (120, 30)
"""Where there is time for another worker to come before."""
COMMIT = 5
"""Steps between two commits of the training."""


@dataclass(frozen=True, slots=True)
class Move:
    """What one notice cost."""

    rings: int
    """How often a ring was built anew."""
    repeated: int
    """Steps that were trained again."""
    fewest: int
    """Ranks that trained, at the least."""
    pause: float
    """The longest time between two steps that follow each other, in seconds."""


async def measure(bench: Bench) -> Finding:
    """One job for each lead, so many notices one after the other."""
    site = bench.get_site()
    moves: dict[int, list[Move]] = {}
    async with make_namespace(site, "notice") as namespace:
        for lead in LEADS:
            manifest = build_training(f"ahead-{lead}")
            async with run_training(site, namespace, manifest) as job:
                await job.wait_until_steady(0.0)
                found = [await move(job, lead, n) for n in range(bench.count_samples(SAMPLES))]
            moves[lead] = found
    return describe(moves)


async def move(job: Training, lead: int, number: int) -> Move:
    """One worker is said to end; until all train again without it."""
    workers = await job.list_workers()
    pod = workers[number % len(workers)]
    said = job.site.clock.now()
    moment = format_time((said + timedelta(seconds=lead)).replace(microsecond=0))
    path = build_path("pods", job.namespace, pod["metadata"]["name"])
    await job.site.api.patch(path, {"metadata": {"annotations": {LEAVING_AT: moment}}})

    async def has_moved() -> bool:
        await job.check()
        names = {worker["metadata"]["name"] for worker in await job.list_workers()}
        return pod["metadata"]["name"] not in names and len(names) == WORKERS

    await wait_for(has_moved, f"{pod['metadata']['name']} is replaced", seconds=PATIENCE)
    await job.wait_until_steady(job.site.clock.now().timestamp())
    return find_move(await job.read_log(), said.timestamp())


def find_move(log: str, since: float) -> Move:
    """What a training's log tells of all that happened to it since then."""
    everything = find_steps(log)
    steps = [step for step in everything if step.at > since]
    before = [step for step in everything if step.at <= since][-1:]
    return Move(
        rings=sum(at > since for at in find_rings(log)),
        repeated=count_repeated([*before, *steps]),
        fewest=min(step.size for step in steps),
        pause=max(after.at - early.at for early, after in pairwise([*before, *steps])),
    )


def count_repeated(steps: Sequence[Step]) -> int:
    """How many steps were trained that had been trained before."""
    most, again = 0, 0
    for step in steps:
        again += step.number <= most
        most = max(most, step.number)
    return again


def describe(moves: dict[int, list[Move]]) -> Finding:
    """What each lead cost."""
    series = [
        item
        for lead, found in moves.items()
        for item in (
            Series(f"the longest pause, {lead} s ahead", "s", tuple(m.pause for m in found)),
            Series(f"rings built anew, {lead} s ahead", "", tuple(m.rings for m in found)),
            Series(f"ranks that trained, {lead} s ahead", "", tuple(m.fewest for m in found)),
        )
    ]
    goals: list[Goal] = []
    for lead, found in moves.items():
        again = max(m.repeated for m in found)
        goals.append(Goal(f"{lead} s ahead: steps trained again", again, 0, ""))
        if lead in WHOLE:
            rings, fewest = max(m.rings for m in found), min(m.fewest for m in found)
            goals += [
                Goal(f"{lead} s ahead: rings built anew", rings, 1, ""),
                Goal(f"{lead} s ahead: ranks that train", fewest, WORKERS, "", is_floor=True),
            ]
    halved = (
        "A worker leaves 20 s before its end where no drain of its job was seen yet, so with 30 s "
        "its successor has 10 s to be ready; where it is not, the worker leaves first: two rings, "
        "and one rank less between them."
    )
    note = (
        "Half of twenty workers at once is a matter of the planner alone: they change places in "
        "one change of the list, where two were the goal "
        "(`tests/unit/planning/test_pairing.py::test_half_of_twenty_change_places_at_once`)."
    )
    return Finding(tuple(series), tuple(goals), (halved, note))


_AHEAD = ", ".join(map(str, LEADS))
FIGURE = Figure(
    title="A worker that is said to end",
    explanation=(
        f"Horovod and PyTorch on {WORKERS} workers of 2 real nodes, an allreduce of 8 MB a "
        f"step, a commit each {COMMIT} steps. One worker's pod is said to end {_AHEAD} s ahead "
        f"(`{LEAVING_AT}`), when all have trained for {STEADY} steps; it ends when all train "
        "again without it. Where there is time another one is there before it goes, and both "
        "change places at one commit; where there is none it leaves first."
    ),
    measure=measure,
    place=Place.TRAINING,
)
