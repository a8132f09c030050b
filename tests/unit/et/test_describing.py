"""`et describe` after a loss, where the launcher's log tells little of it, or nothing in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta

import pytest

from et.describing import LOG_LIMIT, Account, describe, show_story
from et.screens import LONGEST_CELL
from et.stories import JOB, Entry
from et_kube.resources import TRAINING_JOBS, Ref
from et_operator.codec.decoding import decode_job
from et_operator.model.conditions import RECOVERING, find_condition
from tests.planning_makers import make_job
from tests.simulation.lives import start
from tests.simulation.worlds import SimulatedWorld
from tests.unit.et.rigs import FakeLogs, join, make_screen, read

pytestmark = pytest.mark.long

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
LAUNCHER = "train-launcher"
LOST = "train-worker-1"
GONE = "[1]<stderr>:edl: {}: the worker's pod is gone"


class HangingLogs(FakeLogs):
    """Of a node that is down: after what there is nothing comes, and no end."""

    async def read_log(self, ref: Ref, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        async for line in FakeLogs.read_log(self, ref, params):
            yield line
        await asyncio.Event().wait()


def is_recovering(world: SimulatedWorld) -> bool | None:
    job = decode_job(world.get(TRAINING_JOBS, "train"))
    told = find_condition(job.status.conditions, RECOVERING)
    return None if told is None else told.status == "True"


@pytest.fixture
async def world() -> SimulatedWorld:
    """A worker is lost now, and its place empty."""
    world = SimulatedWorld()
    await start(world, minReplicas=1)
    world.kubelet.fail(LOST)
    await world.until(lambda: is_recovering(world) is True)
    return world


async def recover(world: SimulatedWorld) -> None:
    await world.until(lambda: is_recovering(world) is False)


async def test_a_log_that_does_not_come_holds_up_nothing_else(world: SimulatedWorld):
    await recover(world)
    logs, screen = HangingLogs(), make_screen(width=160)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(describe(join(world, logs), screen, "train", as_json=False))
        await world.clock.advance(LOG_LIMIT)
        assert work.done()
    told = read(screen.out)
    assert told.count("last loss") == 1
    assert "last loss  2 hosts again, " in told
    assert "train-worker-2  running" in told
    assert "the launcher and its workers run" in told


async def test_a_log_without_the_loss_is_read_until_none_can_follow(world: SimulatedWorld):
    await recover(world)
    logs, screen, now = HangingLogs(), make_screen(width=160), world.clock.now()
    logs.write(LAUNCHER, "step=1", at=now)
    logs.write(LAUNCHER, "step=2", at=now + HOUR)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(describe(join(world, logs), screen, "train", as_json=False))
        await world.clock.settle()
        assert work.done()
    assert read(screen.out).count("last loss") == 1


async def test_while_hosts_are_missing_steps_before_the_loss_are_known(world: SimulatedWorld):
    """They come each two minutes; an older loss is no matter any more."""
    logs, screen, now = FakeLogs(), make_screen(width=160), world.clock.now()
    lines = [(-400, "step=1"), (-300, GONE.format("train-worker-9"))]
    lines += [(-280, "step=2"), (-160, "step=3"), (-40, "step=4")]
    for seconds, text in lines:
        logs.write(LAUNCHER, text, at=now + seconds * SECOND)
    await describe(join(world, logs), screen, "train", as_json=False)
    assert read(screen.out).count("last loss") == 1

    for seconds, text in ((1, GONE.format(LOST)), (80, "step=5"), (200, "step=6")):
        logs.write(LAUNCHER, text, at=now + seconds * SECOND)
    await describe(join(world, logs), screen, "train", as_json=False)
    usual = "(from step to step it takes 120.0 s)"
    cost = f"no pause: each step came within 360.0 s of the one before {usual}"
    assert f"{LOST} was lost: {cost}, no step trained again" in read(screen.out)
    assert int(logs.requests[-1][1]["sinceSeconds"]) >= 11 * 60


def test_what_was_told_at_length_is_cut_in_the_story():
    job, screen = make_job(), make_screen(width=3 * LONGEST_CELL)
    story = [Entry(job.created, JOB, "Submitted", text) for text in ("shortly", "x" * 9000)]
    show_story(screen, Account(job, {}, [], story), job.created)
    _, first, second = read(screen.out).splitlines()
    assert first.endswith("Submitted  shortly")
    assert second.endswith("x [...]")
    assert len(second) < LONGEST_CELL + 50
