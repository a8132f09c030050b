"""`et restart` against the whole operator, in a simulated world."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from et.errors import EtError
from et.renewing import check, renew
from et.restarting import restart
from et.screens import Screen
from et_kube.errors import KubeError, OutcomeUnknown, Refused, Unreachable
from et_kube.resources import PODS, TRAINING_JOBS
from et_operator.model.statuses import JobStatus
from fakes.clients import Call, Moment
from tests.planning_makers import make_job, make_spec
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


# ------------------------------------------------------------------ the workers alone
async def try_to_renew(world: SimulatedWorld, screen: Screen, times: int = 40) -> str:
    """Runs it, and the world beside it; what it failed with."""
    errors: list[str] = []

    async def run() -> None:
        try:
            await renew(join(world), screen, "train", LIMIT)
        except EtError as error:
            errors.append(str(error))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run())
        for _ in range(times):
            if task.done():
                break
            await let_pass(world, 1)
        if not task.done():
            await world.clock.advance(LIMIT)
    return "; ".join(errors)


async def test_workers_alone_are_replaced_while_it_trains():
    world, screen = SimulatedWorld(), make_screen()
    await start(world, minReplicas=1)
    launcher = world.launchers()

    assert not await try_to_renew(world, screen)

    assert world.launchers() == launcher
    assert world.workers() == ["train-worker-2", "train-worker-3"]
    assert read(screen.out).splitlines()[0] == (
        "train: 2 workers to be replaced one after the other while it trains"
    )
    assert read(screen.out).splitlines()[-1] == "train has 2 new workers"


async def test_workers_that_cannot_be_missed_are_not_replaced_and_it_is_said_what_can_be_done():
    world = SimulatedWorld()
    await start(world, minReplicas=2)

    told = await try_to_renew(world, make_screen())

    assert told == (
        "train has 2 workers and cannot go on with fewer: `et scale train --by +1` first, or "
        "`et restart train`"
    )
    assert not world.get(TRAINING_JOBS, "train")["metadata"].get("annotations")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec": make_spec(2, is_elastic=False)}, "starts all its processes at once"),
        ({"status": JobStatus()}, "has no workers now"),
        ({"spec": make_spec(2, command_least=2)}, "cannot go on with fewer"),
    ],
)
def test_what_has_none_to_replace_is_told_so(changes: dict[str, Any], words: str):
    job = replace(make_job(2), **{"status": JobStatus(decided_replicas=2), **changes})
    with pytest.raises(EtError, match=words):
        check(job)


async def test_who_waits_no_longer_for_new_workers_is_told_that_it_goes_on():
    world, screen = SimulatedWorld(), make_screen()
    await start(world, minReplicas=1)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(renew(join(world), screen, "train", LIMIT))
        await world.clock.settle()
        task.cancel()

    assert read(screen.err) == "it goes on: condition RestartingWorkers, `et describe train`"
