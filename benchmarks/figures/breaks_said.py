"""What it costs planned scalings that ranks are told, falsely and at any moment, who is gone.

Needs the image that trains. The word is that of BREAK (docs/transport.md), written where an agent
writes it: a rank that reads it ends its connections to members that live and train.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.apis import build_path, wait_for
from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Series, Side
from benchmarks.namespaces import make_namespace
from benchmarks.strikes import say_gone
from benchmarks.trainings import (
    PATIENCE,
    STEADY,
    WORKERS,
    JobEnded,
    Step,
    Training,
    build_training,
    run_training,
)

SCALINGS = 50
PLAIN = 10
"""Scalings beside which nobody says anything."""
WITHIN = 5.0
"""Seconds from a scaling in which the word is said: a ring is built anew by then, mostly."""
SEED = 1


@dataclass(slots=True)
class Scalings:
    """What was found of them: seconds to the first step with the new number, and who was left."""

    seconds: list[float] = field(default_factory=list)
    otherwise: list[str] = field(default_factory=list)
    """Scalings that did not end as in peace: another worker went, or the job did."""


async def measure(bench: Bench) -> Finding:
    """One job that is scaled in and out by one, first in peace."""
    site, plain, told = bench.get_site(), Scalings(), Scalings()
    dice = random.Random(SEED)  # noqa: S311 (nothing secret)
    async with (
        make_namespace(site, "breaks") as namespace,
        run_training(site, namespace, build_training("told")) as job,
    ):
        try:
            await job.wait_until_steady(0.0)
            for number in range(bench.count_samples(PLAIN)):
                await scale(job, number, plain, None)
            for number in range(bench.count_samples(SCALINGS)):
                await scale(job, number, told, dice)
        except JobEnded as end:
            told.otherwise.append(str(end))
    return describe(plain, told)


async def scale(job: Training, number: int, found: Scalings, dice: random.Random | None) -> None:
    """In or out by one, in turn; with dice a word is said to one worker of all others."""
    before = await job.list_workers()
    wanted = WORKERS - 1 if len(before) == WORKERS else WORKERS
    path = build_path("trainingjobs", job.namespace, job.name)
    scaled = job.site.clock.now().timestamp()
    body = {"spec": {"etReplicaSpecs": {"worker": {"replicas": wanted}}}}
    await job.site.api.patch(path, body)
    if dice is not None:
        await asyncio.sleep(dice.uniform(0.0, WITHIN))
        await say(job, dice)
    resized = replace(job, ranks=wanted)
    await resized.wait_until_steady(scaled)

    async def is_stable() -> bool:
        return len(await job.list_workers()) == wanted

    await wait_for(is_stable, f"{job.name} has {wanted} workers", seconds=PATIENCE)
    found.seconds.append(find_seconds(await job.read_steps(), scaled, wanted))
    if others := find_others(before, await job.list_workers()):
        found.otherwise.append(f"scaling {number}: {', '.join(sorted(others))}")


async def say(job: Training, dice: random.Random) -> None:
    """To one of those that run now, of all others."""
    workers = await job.list_workers()
    pod = dice.choice(workers)
    addresses = [str(other["status"]["podIP"]) for other in workers if other is not pod]
    say_gone(job.site.cluster, str(pod["metadata"]["uid"]), addresses)


def find_seconds(steps: list[Step], scaled: float, wanted: int) -> float:
    """From a scaling to the first step with the number that it wanted."""
    return min(step.at for step in steps if step.at > scaled and step.size == wanted) - scaled


def find_others(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> set[str]:
    """Who went, or came, beside the one that a scaling was about: nobody, as a rule."""
    was, now = ({pod["metadata"]["name"] for pod in pods} for pods in (before, after))
    fewer, more = sorted((was, now), key=len)
    return fewer - more


def describe(plain: Scalings, told: Scalings) -> Finding:
    """How the two kinds end."""
    series = (
        Series("to the first step with the new number, a word said", "s", tuple(told.seconds)),
        Series("the same in peace", "s", tuple(plain.seconds), Side.BARE),
    )
    otherwise = "; ".join([*plain.otherwise, *told.otherwise]) or "none"
    return Finding(
        tuple(each for each in series if each.samples),
        (
            Goal("scalings that got their number", len(told.seconds), SCALINGS, "", is_floor=True),
            Goal("scalings that ended otherwise than in peace", len(told.otherwise), 0, ""),
        ),
        (f"Otherwise: {otherwise}.",),
    )


FIGURE = Figure(
    title="A word that others are gone, said of who lives",
    explanation=(
        f"Horovod and PyTorch on {WORKERS} workers of 2 real nodes, an allreduce of 8 MB a step, "
        f"scaled in and out by one in turn, {SCALINGS} times, each when all have trained for "
        f"{STEADY} steps. Within {WITHIN:.0f} s of each, at a moment that a seed chooses, one "
        "worker's ranks are told that all the others are gone, as BREAK tells it, and end their "
        "connections to them: before the ring is built anew, while it is, and after. A scaling "
        "has ended as it does in peace when the job trains with the new number, and nobody "
        "else's worker has gone."
    ),
    measure=measure,
    place=Place.TRAINING,
)
