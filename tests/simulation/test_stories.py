"""Any job, any scalings, any faults together, in any order: what Hypothesis can think of."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from hypothesis import HealthCheck, given, settings

from tests.simulation.conftest import IS_EXHAUSTIVE
from tests.simulation.invariants import OPERATOR, check_rest
from tests.simulation.stories import STORIES, Story, tell

EXAMPLES = 400 if IS_EXHAUSTIVE else 12


@settings(
    max_examples=EXAMPLES,
    derandomize=True,  # a failure is the same tomorrow; its story is printed as it is
    suppress_health_check=list(HealthCheck),
)
@given(STORIES)
def test_whatever_happens_the_invariants_hold_and_the_job_comes_to_rest_as_it_was_asked(
    story: Story,
):
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
