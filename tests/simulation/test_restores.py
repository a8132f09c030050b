"""Etcd is restored from a backup at any moment of a life, while operators live or are away.

What was until the restore, and what is after it, must each be right by itself. Across it two things
cannot hold: a generation falls, and a launcher that nobody remembers lives until its kubelet knows,
beside the next one of its epoch. Agents obey the first of these two, so that where its successor
has the same epoch, their workers are replaced. A script may be run twice.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings

from et_kube.resources import TRAINING_JOBS
from tests.simulation.conftest import find_draws
from tests.simulation.invariants import OPERATOR, check_rest, check_standing
from tests.simulation.lives import start
from tests.simulation.stories import (
    BUMP,
    MOST_WRITES,
    RESTORED_STORIES,
    Step,
    Story,
    do_a_few_things,
    tell,
)
from tests.simulation.worlds import SimulatedWorld

SET_BACK = {"set back": 0, "bumped": 1, "set back while down": 2, "bumped while down": 3}


@pytest.mark.parametrize("how", SET_BACK.values(), ids=SET_BACK)
def test_a_job_of_which_all_but_itself_is_forgotten_runs_as_it_was_asked(how: int):
    asyncio.run(tell_and_judge(Story(steps=(Step("wait", 9), Step("restore", how)))))


def forget(*steps: Step, workers: int = 3) -> Story:
    """What these steps do to a job that runs is set back."""
    started = (Step("wait", 9), Step("do_a_few_things", 20), Step("back_up"))
    return Story(workers=workers, steps=(*started, *steps, Step("wait", 9), Step("restore")))


ANSWERED_AND_NEVER_SHOWN = Story(
    steps=(Step("do_a_few_things", 9), Step("restore")), tokens=("kubelet", "stall configmaps")
)
"""Its answers are all that an operator has known of what it wrote since its list."""


ENDED_BEFORE_ANYBODY_LOOKED = Story(
    workers=4,
    steps=(
        Step("do_a_few_things", 9),
        Step("delete_a_pod", 9),
        Step("back_up"),
        Step("restore", 2),
        Step("end_the_command"),
        Step("do_a_few_things", 6),
        Step("restore"),
    ),
)
ENDED_AND_SET_BACK_TWICE = Story(
    workers=1,
    spec={"restartPolicy": "OnFailure"},
    steps=(
        Step("do_a_few_things", 9),
        Step("crash_a_worker"),
        Step("back_up"),
        Step("end_the_command", 1),
        Step("restore", 2),
        Step("restore"),
    ),
)
"""Kubelets know how containers ended, and tell it after any restore."""
FORGOTTEN_WHILE_IT_DRAINED = Story(
    workers=3,
    steps=(
        Step("wait", 9),
        Step("cling", 1),
        Step("back_up"),
        Step("set_replicas", 5),
        Step("wait", 6),
        Step("restore"),
    ),
)
"""Its process does not end, and nobody remembers that it is to."""


@pytest.mark.parametrize("launcher", ["delete_a_pod", "evict_a_pod"])
def test_workers_that_obey_a_launcher_which_is_forgotten_are_replaced(launcher: str):
    async def check() -> None:
        world = await tell(forget(Step(launcher, 0)))
        check_rest(world.cluster, world.broker)
        assert max(epoch for epoch, _ in world.broker.fences.values()) >= 2

    asyncio.run(check())


@pytest.mark.parametrize("bump", [0, BUMP])
async def test_a_job_whose_deletion_is_forgotten_is_deleted_again(bump: int):
    async with SimulatedWorld() as world:
        await start(world, ttlSecondsAfterFinished=60)
        world.end_command(0)
        await world.settle(timedelta(seconds=30))
        world.backup = world.cluster.back_up()
        await world.act("stall trainingjobs")
        await world.clock.advance(timedelta(seconds=60))
        await do_a_few_things(world, 2, "")
        assert not world.get(TRAINING_JOBS, "train")
        world.restore(bump=bump)
        assert world.get(TRAINING_JOBS, "train")
        await world.settle(timedelta(minutes=10))
        assert not world.get(TRAINING_JOBS, "train")


@settings(
    max_examples=find_draws(8),
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(RESTORED_STORIES)
@example(ANSWERED_AND_NEVER_SHOWN)
@example(ENDED_BEFORE_ANYBODY_LOOKED)
@example(ENDED_AND_SET_BACK_TWICE)
@example(FORGOTTEN_WHILE_IT_DRAINED)
@example(forget(Step("crash_a_worker", 1), Step("crash_a_worker", 1)))
@example(forget(Step("scale_in", 1)))
@example(forget(Step("delete_a_pod", 0)))
def test_whatever_is_forgotten_a_job_is_as_it_was_asked_or_says_why_not(story: Story):
    asyncio.run(tell_and_judge(story))


async def tell_and_judge(story: Story) -> None:
    world = await tell(story)
    try:
        check_standing(world.cluster, world.broker, ())
        assert world.broker.reused == []
        written = len(world.log.list_writes(OPERATOR))
        await world.settle(timedelta(hours=1))
        assert len(world.log.list_writes(OPERATOR)) - written <= MOST_WRITES
    except AssertionError as error:
        error.add_note(world.describe())
        raise
