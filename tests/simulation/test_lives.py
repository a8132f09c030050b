"""Every life without a crash: it ends as it must, with few writes, and rests afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.simulation.conftest import SEEDS
from tests.simulation.invariants import OPERATOR
from tests.simulation.lives import LIVES
from tests.simulation.worlds import World

MAX_WRITES = 60
"""More than any of these lives needs; an operator that writes on and on passes it soon."""


@pytest.mark.parametrize("name", LIVES)
async def test_a_life_ends_as_it_must_and_then_nothing_is_written(name: str):
    async with World() as world:
        await LIVES[name](world)
        await world.settle(timedelta(hours=1))
        written = len(world.log.list_writes(OPERATOR))
        assert written <= MAX_WRITES
        await world.settle(timedelta(hours=1))
        assert len(world.log.list_writes(OPERATOR)) == written


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", LIVES)
async def test_a_life_ends_as_it_must_in_any_order_and_with_stale_caches(name: str, seed: int):
    async with World(seed=seed) as world:
        await LIVES[name](world)
