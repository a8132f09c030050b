"""One thing goes wrong with one write, whichever: the life ends as it does without that.

Each fault is a run of its own. `make check` tries a few, chosen once and for all; SIMULATE=all
tries every answer at every write of every life.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.conftest import choose
from tests.simulation.faults import KINDS, Strike
from tests.simulation.invariants import OPERATOR
from tests.simulation.lives import LIVES
from tests.simulation.worlds import World

FEW = 3
"""Faults in each life that are tried in `make check`."""
COST = 4
"""Writes that one fault may cost in all: the lost one again, and what people are told of it."""

EXPECTED: dict[str, tuple[dict[str, Any], int]] = {}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in LIVES for kind in choose(name, tuple(KINDS), FEW)]
)
async def test_a_fault_at_any_write_changes_nothing_in_the_end(name: str, kind: str):
    expected, writes = await live_undisturbed(name)
    for number in choose((name, kind), range(1, writes + 1)):
        async with World() as world:
            strike = Strike(number, kind)
            world.log.faults.append(strike)
            await LIVES[name](world)
            assert strike.has_struck or strike.is_answered
            assert world.summarise() == expected
            assert len(world.log.list_writes(OPERATOR)) <= writes + COST


async def live_undisturbed(name: str) -> tuple[dict[str, Any], int]:
    """How the life ends, and the number of writes that it took."""
    if name not in EXPECTED:
        async with World() as world:
            await LIVES[name](world)
            EXPECTED[name] = world.summarise(), len(world.log.list_writes(OPERATOR))
    return EXPECTED[name]
