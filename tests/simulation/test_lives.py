"""Every life, undisturbed and in any order: it ends as it must, with few writes, and then rests."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest

from tests.simulation.conftest import choose
from tests.simulation.invariants import OPERATOR
from tests.simulation.lives import LIVES, REFUSED
from tests.simulation.schedules import Schedule, play
from tests.simulation.worlds import SimulatedWorld

SEEDS = 4
"""Orders for each life, and for each number of leaders."""
LEADERS = {False: (1, 2), True: (1,)}
MAX_WRITES = 60
"""More than any of these lives needs; an operator that writes on and on passes it soon."""


@pytest.mark.parametrize("name", LIVES)
async def test_a_life_ends_as_it_must_and_then_nothing_is_written(name: str):
    async with SimulatedWorld() as world:
        await LIVES[name](world)
        await world.settle(timedelta(hours=1))
        written = len(world.log.list_writes(OPERATOR))
        assert written <= MAX_WRITES
        await world.settle(timedelta(hours=1))
        assert len(world.log.list_writes(OPERATOR)) == written


@pytest.mark.parametrize(
    ("name", "seed", "leaders"),
    [
        (name, seed, leaders)
        for name in LIVES
        for seed, leaders in choose(name, tuple(product(range(SEEDS), LEADERS[name in REFUSED])))
    ],
)
async def test_a_life_ends_as_it_must_in_any_order_and_with_stale_caches(
    name: str, seed: int, leaders: int
):
    async def live(schedule: Schedule) -> None:
        async with SimulatedWorld(schedule, leaders=leaders) as world:
            await LIVES[name](world)

    await play(live, seed)
