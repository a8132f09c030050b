"""One thing goes wrong with one write, whichever: the life ends as it does without that.

Each fault is a run of its own. `make check` tries a few, chosen once and for all, `make
test` an eighth of them; SIMULATE=all tries every answer at every write of every life.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any, NamedTuple

import pytest

from tests.simulation.conftest import choose
from tests.simulation.faults import KINDS, Strike
from tests.simulation.invariants import OPERATOR
from tests.simulation.lives import LIVES
from tests.simulation.worlds import SimulatedWorld

FEW = 3
"""Faults in each life that are tried in `make check`."""
COST = 6
"""Writes that one fault may cost in all: the lost one again, what people are told of it, and the
list and the rights of what therefore comes later."""


class Undisturbed(NamedTuple):
    """A life with which nothing goes wrong."""

    end: dict[str, Any]
    writes: int
    attempts: tuple[str, ...]
    """Writes and those that the server refused, each with what it said."""


LIVED: dict[str, Undisturbed] = {}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in LIVES for kind in choose(name, tuple(KINDS), FEW)]
)
async def test_a_fault_at_any_write_changes_nothing_in_the_end(name: str, kind: str):
    undisturbed = await live_undisturbed(name)
    for number in choose((name, kind), await list_own_attempts(name), part=True):
        async with SimulatedWorld() as world:
            strike = Strike(number, kind)
            world.log.faults.append(strike)
            await LIVES[name](world)
            assert strike.has_struck or strike.is_answered
            assert world.summarise() == undisturbed.end
            assert len(world.log.list_writes(OPERATOR)) <= undisturbed.writes + COST


async def live_undisturbed(name: str) -> Undisturbed:
    """How the life goes by itself, found out once."""
    if name not in LIVED:
        async with SimulatedWorld() as world:
            await LIVES[name](world)
            tried = [call for call in world.log.calls if call.is_write and call.user == OPERATOR]
            writes = len(world.log.list_writes(OPERATOR))
            said = tuple(f"{c.verb} {c.ref} {c.subresource} {c.body}" for c in tried)
            LIVED[name] = Undisturbed(world.summarise(), writes, said)
    return LIVED[name]


async def list_own_attempts(name: str) -> list[int]:
    """Numbers of the writes up to which no life before it in the list was the same: each is tried.

    Lives begin alike, and what goes wrong in the beginning that they share is tried in one of them.
    """
    own = (await live_undisturbed(name)).attempts
    shared = 0
    for other in takewhile(lambda other: other != name, LIVES):
        theirs = (await live_undisturbed(other)).attempts
        same = takewhile(lambda pair: pair[0] == pair[1], zip(own, theirs, strict=False))
        shared = max(shared, len(list(same)))
    return list(range(shared + 1, len(own) + 1))
