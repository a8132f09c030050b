"""One thing goes wrong with one write, whichever: the life ends as it does without that.

Each fault is a run of its own. `make check` tries a few, chosen once and for all; SIMULATE=all
tries every answer at every write of every life.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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


class Undisturbed(NamedTuple):
    """A life with which nothing goes wrong."""

    end: dict[str, Any]
    writes: int
    attempts: int
    """Writes and those that the server refused."""


LIVED: dict[str, Undisturbed] = {}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in LIVES for kind in choose(name, tuple(KINDS), FEW)]
)
async def test_a_fault_at_any_write_changes_nothing_in_the_end(name: str, kind: str):
    undisturbed = await live_undisturbed(name)
    for number in choose((name, kind), range(1, undisturbed.attempts + 1)):
        async with World() as world:
            strike = Strike(number, kind)
            world.log.faults.append(strike)
            await LIVES[name](world)
            assert strike.has_struck or strike.is_answered
            assert world.summarise() == undisturbed.end
            assert len(world.log.list_writes(OPERATOR)) <= undisturbed.writes + COST


async def live_undisturbed(name: str) -> Undisturbed:
    """How the life goes by itself, found out once."""
    if name not in LIVED:
        async with World() as world:
            await LIVES[name](world)
            tried = [call for call in world.log.calls if call.is_write and call.user == OPERATOR]
            writes = len(world.log.list_writes(OPERATOR))
            LIVED[name] = Undisturbed(world.summarise(), writes, len(tried))
    return LIVED[name]
