"""`et delete` against the whole operator, in a simulated world."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from et.deleting import delete_job, delete_jobs
from et.errors import EtError
from et.reading import read_job
from et.screens import Screen
from et_kube.errors import Unreachable
from et_kube.resources import PODS, SCALE_INS, TRAINING_JOBS
from et_operator.codec.decoding import decode_job
from fakes.clients import Call, Moment
from tests.makers import make_job, make_scale_in
from tests.simulation.lives import assert_nothing_left, start
from tests.simulation.worlds import SimulatedWorld
from tests.unit.et.rigs import join, make_screen, read

LONG = timedelta(minutes=5)
SECOND = timedelta(seconds=1)


class Answering(Screen):
    """A person who always says the same."""

    def __init__(self, *, says: bool) -> None:
        blank = make_screen()
        super().__init__(blank.out, blank.err)
        self.says = says

    def ask(self, question: str) -> bool:
        self.hint(question)
        return self.says


@pytest.fixture
async def world() -> SimulatedWorld:
    world = SimulatedWorld()
    await start(world)
    return world


async def delete(world: SimulatedWorld, screen: Screen, *, is_sure: bool = False) -> None:
    """Delete the job, and let time pass until that is over."""
    async with asyncio.TaskGroup() as group:
        work = delete_jobs(join(world), screen, ["train"], is_sure=is_sure, limit=LONG)
        task = group.create_task(work)
        await world.clock.settle()
        await world.settle()
        await world.clock.advance(SECOND)
        await world.settle()
        await world.clock.advance(SECOND)
        assert task.done()


async def test_a_job_goes_with_its_pods_once_somebody_agrees(world: SimulatedWorld):
    world.create(SCALE_INS, make_scale_in("shrink", count=1))
    screen = Answering(says=True)

    await delete(world, screen)

    assert_nothing_left(world)
    assert read(screen.out) == "TrainingJob train is deleted"
    asked = read(screen.err)
    assert asked.startswith(
        "TrainingJob train (Running), 3 pods with what they have printed, 1 scaling"
    )
    assert "what stays: claims and their volumes" in asked


async def test_nothing_is_deleted_where_nobody_agrees(world: SimulatedWorld):
    with pytest.raises(EtError, match="nothing was deleted"):
        await delete_jobs(join(world), Answering(says=False), ["train"], is_sure=False, limit=LONG)

    assert world.phase() == "Running"


async def test_nobody_is_asked_who_was_sure_before(world: SimulatedWorld):
    screen = Answering(says=False)

    await delete(world, screen, is_sure=True)

    assert_nothing_left(world)
    assert read(screen.err) == ""


async def test_of_several_none_goes_where_one_is_not_there(world: SimulatedWorld):
    names = ["train", "nobody"]
    with pytest.raises(EtError, match="there is no TrainingJob 'nobody'"):
        await delete_jobs(join(world), make_screen(), names, is_sure=True, limit=LONG)

    assert world.phase() == "Running"


@pytest.mark.long
async def test_what_does_not_go_is_named_when_the_time_is_over(world: SimulatedWorld):
    finalizers = {"metadata": {"finalizers": ["corp.example/billing"]}}
    world.change(TRAINING_JOBS, "train", finalizers)
    world.change(PODS, "train-worker-1", finalizers)
    error: list[EtError] = []

    async def run() -> None:
        try:
            await delete_jobs(join(world), make_screen(), ["train"], is_sure=True, limit=LONG)
        except EtError as found:
            error.append(found)

    async with asyncio.TaskGroup() as group:
        group.create_task(run())
        await world.clock.settle()
        await world.settle()
        await world.clock.advance(LONG)

    words = str(error[0])
    assert words.startswith("deleted, and not gone after 300 s: Pod train-worker-1 on ")
    assert words.endswith("TrainingJob train (held by the finalizer corp.example/billing)")


async def test_where_the_server_cannot_be_asked_nothing_is_said_of_what_is_there(
    world: SimulatedWorld,
):
    error: list[EtError] = []
    deleted: list[Call] = []

    def cut_off(call: Call, moment: Moment) -> None:
        if call.user == "et" and call.verb == "delete" and moment is Moment.AFTER:
            deleted.append(call)
        elif call.user == "et" and deleted and moment is Moment.BEFORE:
            raise Unreachable("no route to host")

    world.log.faults.append(cut_off)

    async def run() -> None:
        try:
            await delete_jobs(join(world), make_screen(), ["train"], is_sure=True, limit=LONG)
        except EtError as found:
            error.append(found)

    async with asyncio.TaskGroup() as group:
        group.create_task(run())
        await world.clock.settle()
        await world.clock.advance(LONG)

    assert str(error[0]) == (
        "deleted; whether it is gone is not known after 300 s: the cluster cannot be reached: no "
        "route to host"
    )


async def test_one_that_was_made_anew_meanwhile_is_left_alone(world: SimulatedWorld):
    old = decode_job(await read_job(join(world), "train"))
    world.delete(TRAINING_JOBS, "train")
    world.create(TRAINING_JOBS, make_job())

    with pytest.raises(EtError, match="train was deleted and made anew meanwhile"):
        await delete_job(join(world), old)

    assert world.get(TRAINING_JOBS, "train")
