"""`et restart` against the whole operator, in a simulated world."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from et.errors import EtError
from et.restarting import restart
from et_kube.resources import PODS, TRAINING_JOBS
from tests.simulation.lives import start
from tests.simulation.worlds import SimulatedWorld
from tests.unit.et.rigs import join, make_screen, read

LIMIT = timedelta(minutes=5)
SECOND = timedelta(seconds=1)


@pytest.fixture
async def world() -> SimulatedWorld:
    world = SimulatedWorld()
    await start(world)
    return world


def find_uids(world: SimulatedWorld) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.cluster.list(PODS)}


async def let_pass(world: SimulatedWorld, times: int = 5) -> None:
    for _ in range(times):
        await world.settle(timedelta(minutes=1))
        await world.clock.advance(SECOND)


async def test_a_job_goes_on_with_new_pods(world: SimulatedWorld):
    before, screen = find_uids(world), make_screen()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(restart(join(world), screen, "train", LIMIT))
        await let_pass(world)
        assert task.done()
    await world.until(lambda: world.phase() == "Running")

    assert not before & find_uids(world)
    assert len(world.workers()) == 2
    assert world.launchers() == ["train-launcher-r1"]
    assert read(screen.out).splitlines() == [
        "train is suspended: its pods end, each has its grace to save",
        "train goes on with new pods, from its own checkpoint if it wrote one",
    ]


async def test_one_that_does_not_stop_stays_suspended_and_the_next_try_goes_on(
    world: SimulatedWorld,
):
    world.change(PODS, "train-worker-1", {"metadata": {"finalizers": ["corp.example/x"]}})
    errors: list[EtError] = []

    async def run() -> None:
        try:
            await restart(join(world), make_screen(), "train", LIMIT)
        except EtError as error:
            errors.append(error)

    async with asyncio.TaskGroup() as group:
        group.create_task(run())
        await let_pass(world)
        await world.clock.advance(LIMIT)
    assert str(errors[0]) == (
        "train has not stopped after 300 s (train-worker-1) and stays suspended: "
        "`et restart train` goes on"
    )
    world.change(PODS, "train-worker-1", {"metadata": {"finalizers": None}})

    async with asyncio.TaskGroup() as group:
        group.create_task(run())
        await let_pass(world)
    await world.until(lambda: world.phase() == "Running")

    assert len(errors) == 1
    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is False


async def test_one_that_has_ended_is_not_begun_again(world: SimulatedWorld):
    world.end_command(0)
    await world.until(lambda: world.phase() == "Succeeded")

    with pytest.raises(EtError, match=r"train has ended \(Succeeded\)"):
        await restart(join(world), make_screen(), "train", LIMIT)

    assert not world.get(TRAINING_JOBS, "train")["spec"].get("suspend")


async def test_who_is_interrupted_is_told_what_to_type(world: SimulatedWorld):
    screen = make_screen()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(restart(join(world), screen, "train", LIMIT))
        await world.clock.settle()
        task.cancel()

    assert read(screen.err) == "train stays suspended: `et restart train` goes on"
