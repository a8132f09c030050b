"""Any job, any scalings, any faults together, in any order: what Hypothesis can think of."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from hypothesis import HealthCheck, example, given, settings

from tests.simulation.conftest import find_draws
from tests.simulation.invariants import OPERATOR, check_rest
from tests.simulation.stories import HARD_STORIES, STORIES, Step, Story, tell

CONTRADICTED_BY_A_LEADER_THAT_KNOWS_LESS = Story(
    workers=1,
    spec={"restartPolicy": "OnFailure", "launcherCreationPolicy": "WaitForWorkersReady"},
    steps=(Step("do_a_few_things", 6), Step("do_a_few_things", 7), Step("scale_in", 5)),
    tokens=(
        *("stall scaleins@1", "stall rolebindings@1", "scaleins@1", "rolebindings"),
        *("rolebindings", "stall nodes", "rolebindings@1", "stall configmaps", "work@1"),
        *("stall pods@1", "trainingjobs", "rolebindings@1", "stall roles@1"),
    ),
    leaders=2,
)
"""Each write of one is news for the other, while its watch of pods, or of configs, is behind."""


@settings(
    max_examples=find_draws(12),
    derandomize=True,  # a failure is the same tomorrow; its story is printed as it is
    suppress_health_check=list(HealthCheck),
)
@given(STORIES)
@example(CONTRADICTED_BY_A_LEADER_THAT_KNOWS_LESS)
def test_whatever_happens_the_invariants_hold_and_the_job_comes_to_rest_as_it_was_asked(
    story: Story,
):
    asyncio.run(tell_and_judge(story))


KEPT_BY_A_FINALIZER = Story(
    workers=4,
    steps=(
        Step("wait", 3),
        Step("cling", 3),
        Step("scale_in", 0),
        Step("do_a_few_things", 2),
        Step("add_a_finalizer", 0),
        Step("cancel", 2),
        Step("wait", 9),
        Step("scale_out", 0),
    ),
)
"""A ScaleIn that is deleted while it goes on, and stays: the next scaling has its turn."""


@settings(
    max_examples=find_draws(8),
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(HARD_STORIES)
@example(KEPT_BY_A_FINALIZER)
def test_whatever_is_in_its_way_a_job_is_as_it_was_asked_or_says_why_not(story: Story):
    asyncio.run(tell_and_judge(story))


async def tell_and_judge(story: Story) -> None:
    world = await tell(story)
    try:
        check_rest(world.cluster, world.broker)
        written = len(world.log.list_writes(OPERATOR))
        await world.settle(timedelta(hours=1))
        assert len(world.log.list_writes(OPERATOR)) == written
    except AssertionError as error:
        error.add_note(world.describe())
        raise
