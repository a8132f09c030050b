"""`et restart` against the whole operator, in a simulated world."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from et.errors import EtError
from et.restarting import restart
from et.screens import Screen
from et_kube.errors import KubeError, OutcomeUnknown, Refused, Unreachable
from et_kube.resources import PODS, TRAINING_JOBS
from fakes.clients import Call, Moment
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


async def test_who_may_not_see_pods_hears_so_before_anything_ends(world: SimulatedWorld):
    def refuse(call: Call, moment: Moment) -> None:
        if (call.user, call.verb, call.ref.resource) == ("et", "list", PODS):
            raise Refused(403, "Forbidden", "may not list pods")

    world.log.faults.append(refuse)
    with pytest.raises(Refused):
        await restart(join(world), make_screen(), "train", LIMIT)

    assert not world.get(TRAINING_JOBS, "train")["spec"].get("suspend")


@pytest.mark.parametrize(
    ("is_wanted", "moment", "error", "said"),
    [
        (False, Moment.BEFORE, Refused(403, "Forbidden", "may not"), "stays suspended"),
        (False, Moment.BEFORE, Unreachable("no route"), "stays suspended"),
        (True, Moment.AFTER, OutcomeUnknown("reset"), "may be suspended"),
    ],
)
async def test_whatever_goes_wrong_after_the_suspension_it_is_said_what_to_type(
    world: SimulatedWorld, is_wanted: bool, moment: Moment, error: KubeError, said: str
):
    def fault(call: Call, when: Moment) -> None:
        is_meant = (call.user, call.verb, when) == ("et", "patch", moment)
        if is_meant and call.body["spec"]["suspend"] is is_wanted:
            raise error

    world.log.faults.append(fault)
    screen = make_screen()
    raised = await try_to_restart(world, screen, times=80)

    assert raised == [error]
    assert read(screen.err) == f"train {said}: `et restart train` goes on"
    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is True


async def test_a_lost_answer_of_the_resume_is_asked_for_again(world: SimulatedWorld):
    answers = [OutcomeUnknown("reset"), Unreachable("no route")]

    def fault(call: Call, when: Moment) -> None:
        is_resume = (call.user, call.verb) == ("et", "patch") and not call.body["spec"]["suspend"]
        if is_resume and answers and when is Moment.AFTER:
            raise answers.pop()

    world.log.faults.append(fault)
    assert await try_to_restart(world, make_screen(), times=10) == []

    assert not answers
    assert world.get(TRAINING_JOBS, "train")["spec"]["suspend"] is False


async def try_to_restart(world: SimulatedWorld, screen: Screen, times: int) -> list[KubeError]:
    raised: list[KubeError] = []

    async def go() -> None:
        try:
            await restart(join(world), screen, "train", LIMIT)
        except KubeError as error:
            raised.append(error)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(go())
        await let_pass(world, times)
        assert task.done()
    return raised
