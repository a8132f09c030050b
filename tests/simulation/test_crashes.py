"""The operator dies, or an answer is lost, before or after any one of its writes.

The life must end as it does without that. Each fault is a run of its own; `make check` takes a few
of them, chosen once and for all, SIMULATE=all every one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from et_operator.errors import OutcomeUnknown
from tests.fakes.clients import Call, Moment
from tests.simulation.conftest import IS_EXHAUSTIVE
from tests.simulation.invariants import OPERATOR
from tests.simulation.lives import LIVES
from tests.simulation.worlds import Crash, CrashAt, World

CHOSEN = 1
"""Faults of each sort in each life that are tried in `make check`."""

EXPECTED: dict[str, tuple[dict[str, Any], int]] = {}


class LostAnswer(CrashAt):
    """The answer to the n-th write of the operator never comes; it was done, or was not."""

    def __call__(self, call: Call, moment: Moment) -> None:
        try:
            super().__call__(call, moment)
        except Crash as crash:
            raise OutcomeUnknown("the connection ended") from crash


@pytest.mark.parametrize("moment", Moment, ids=lambda m: m.value)
@pytest.mark.parametrize("fault", [CrashAt, LostAnswer], ids=["crash", "lost-answer"])
@pytest.mark.parametrize("name", LIVES)
async def test_a_fault_at_any_write_changes_nothing_in_the_end(
    name: str, fault: Callable[[int, Moment], CrashAt], moment: Moment
):
    expected, writes = await live_undisturbed(name)
    for number in choose(f"{name} {moment.value}", writes):
        async with World() as world:
            world.schedule.append(f"({fault.__name__}: write {number}, {moment.value} it)")
            world.log.faults.append(fault(number, moment))
            await LIVES[name](world)
            assert world.summarise() == expected


async def live_undisturbed(name: str) -> tuple[dict[str, Any], int]:
    """How the life ends, and the number of writes that it took."""
    if name not in EXPECTED:
        async with World() as world:
            await LIVES[name](world)
            EXPECTED[name] = world.summarise(), len(world.log.list_writes(OPERATOR))
    return EXPECTED[name]


def choose(what: str, writes: int) -> Iterable[int]:
    """Which writes are struck."""
    every = range(1, writes + 1)
    return every if IS_EXHAUSTIVE else random.Random(what).sample(every, min(CHOSEN, writes))  # noqa: S311 (a choice, no secret)
