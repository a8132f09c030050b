"""A hundred SIGKILLs at random moments of a step: which end a job, and why.

Needs the image that trains. Ways to kill are strikes.py's. A launcher's log goes with its pod where
another one comes, so it is followed to its last line.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import aiohttp

from benchmarks.apis import ApiRefused, Transcript, build_path
from benchmarks.benches import Bench, Site
from benchmarks.findings import Figure, Finding, Goal, Place, Series, Table
from benchmarks.namespaces import make_namespace
from benchmarks.strikes import Strike, kill_rank, kill_worker, lose_one
from benchmarks.trainings import (
    PATIENCE,
    STEADY,
    WORKERS,
    JobEnded,
    Loss,
    Training,
    build_training,
    is_progress,
    run_training,
)

KILLS = 100
KILLS_A_JOB = 5
"""A replacement waits longer with each loss of a job: more of them only make the run longer."""
STRIKES: dict[str, Strike] = {"PID 1 of a worker": kill_worker, "one rank": kill_rank}
WITHIN = 1.0
"""Seconds in which a kill comes at any moment; a step is a small part of that."""
SEED = 1
LAST_SECONDS = 10.0
"""What the last lines of a launcher may take until they are here."""
LAST_LINES = 20


@dataclass(frozen=True, slots=True)
class Lost:
    """A job that did not live through a kill."""

    job: str
    killed: str
    cause: str
    """As its status has it, or what did not come in time."""
    words: tuple[str, ...]
    """The last lines of its launcher, without those of its progress."""


@dataclass(slots=True)
class Kills:
    """What became of them: what those cost that a job lived through, by label, and the others."""

    by_label: dict[str, list[Loss]] = field(default_factory=lambda: {each: [] for each in STRIKES})
    lost: list[Lost] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(map(len, self.by_label.values())) + len(self.lost)


async def measure(bench: Bench) -> Finding:
    """One job after the other, with one rank a worker and with two in turn."""
    site, found, asked = bench.get_site(), Kills(), bench.count_samples(KILLS)
    dice, number = random.Random(SEED), 0  # noqa: S311 (nothing secret)
    async with make_namespace(site, "kills") as namespace:
        while found.count < asked:
            count = min(KILLS_A_JOB, asked - found.count)
            await kill_some(site, namespace, number, count, dice, found)
            print(f"{found.count} kills, {len(found.lost)} jobs were lost", flush=True)
            number += 1
    return describe(found)


async def kill_some(
    site: Site, namespace: str, number: int, count: int, dice: random.Random, found: Kills
) -> None:
    """So many in one job, each when all of its ranks train; fewer where it does not live so long.

    A job that ends, or trains no more, before anything is killed in it is a lost one as well.
    """
    slots = 1 + number % 2
    heard, killed = Transcript(site.clock), "nothing yet"
    manifest = build_training(f"kills-{number}", slots=slots)
    async with run_training(site, namespace, manifest, WORKERS * slots) as job:
        try:
            await job.wait_until_steady(0.0)
            async with hearing(job, heard):
                for turn in range(1, count + 1):
                    label = dice.choice(list(STRIKES))
                    killed = f"{label}, kill {turn} of the job, ranks a worker: {slots}"
                    await asyncio.sleep(dice.uniform(0.0, WITHIN))
                    loss = await lose_one(job, STRIKES[label], dice.randrange(WORKERS))
                    found.by_label[label].append(loss)
        except (JobEnded, TimeoutError) as end:
            words = find_words(line.decode(errors="replace") for _, line in heard.lines)
            found.lost.append(Lost(job.name, killed, str(end), words))


@asynccontextmanager
async def hearing(job: Training, heard: Transcript) -> AsyncIterator[None]:
    """Take in what its launcher says meanwhile; of a job that has ended, to the last line."""
    ended: JobEnded | TimeoutError | None = None
    async with asyncio.TaskGroup() as group:
        listener = group.create_task(_listen(job, heard))
        try:
            yield
        except (JobEnded, TimeoutError) as end:
            await asyncio.wait([listener], timeout=LAST_SECONDS)
            ended = end
        listener.cancel()
    if ended is not None:
        raise ended


async def _listen(job: Training, heard: Transcript) -> None:
    """A log that breaks off is no end of what is measured."""
    path = build_path("pods", job.namespace, f"{job.name}-launcher") + "/log"
    with suppress(ApiRefused, aiohttp.ClientError):
        await heard.follow(job.site.api, path, container="launcher", follow="true")


def find_words(lines: Iterable[str]) -> tuple[str, ...]:
    """The last lines of a log that tell of no progress."""
    words = [line.strip() for line in lines if line.strip() and not is_progress(line)]
    return tuple(words[-LAST_LINES:])


def describe(found: Kills) -> Finding:
    """What the kills cost, and each job that was lost with its cause."""
    lived = {label: losses for label, losses in found.by_label.items() if losses}
    everything = [loss for losses in lived.values() for loss in losses]
    repeated = max((loss.repeated for loss in everything), default=0)
    beside = sum(loss.beside for loss in everything)
    rows = tuple((lost.job, lost.killed, lost.cause, " / ".join(lost.words)) for lost in found.lost)
    note = (
        f"At most {repeated} steps were trained again. "
        f"Hosts that Horovod gave up beside the first: {beside}."
    )
    header = ("job", "killed", "cause", "last lines of its launcher")
    return Finding(
        series=tuple(
            Series(f"without a step, {label} killed", "s", tuple(loss.seconds for loss in losses))
            for label, losses in lived.items()
        ),
        goals=(
            Goal("kills", found.count, KILLS, "", is_floor=True),
            Goal("kills that a job did not live through", len(found.lost), 0, ""),
        ),
        tables=(Table("Jobs that were lost", header, rows),) if rows else (),
        notes=(note,),
    )


FIGURE = Figure(
    title="A hundred kills",
    explanation=(
        f"Horovod and PyTorch on {WORKERS} workers of 2 real nodes, one rank or two on each, whose "
        "steps are an allreduce of 8 MB each and nothing else. SIGKILL for PID 1 of a worker, or "
        f"for one rank, as a seed chooses, at a moment that it chooses within {WITHIN:.0f} s: "
        f"{KILLS} in all, at most {KILLS_A_JOB} in each job, each when all ranks have trained "
        f"again for {STEADY} steps. Seconds to the next step, by the training's own clock. A job "
        "is lost where it ends, where its command does so that another launcher comes, or where "
        f"not all ranks train again within {PATIENCE:.0f} s of the next step, which has so long "
        "to come; each is named, with the operator's words and the last ones of its launcher. "
        "Half an hour and more, so it is measured where it is asked for by name."
    ),
    measure=measure,
    place=Place.TRAINING,
    is_asked_for=True,
)
