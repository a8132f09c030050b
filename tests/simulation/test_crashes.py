"""The operator dies before or after each of its writes: the life ends all the same.

Each crash is a run of its own. A run in which no write has that number any more ends the series.
"""

from __future__ import annotations

import pytest

from et_operator.errors import OutcomeUnknown
from tests.fakes.clients import Call, Moment
from tests.simulation.invariants import OPERATOR
from tests.simulation.lives import LIVES
from tests.simulation.worlds import CrashAt, World

MAX_WRITES = 200


@pytest.mark.parametrize("moment", Moment, ids=lambda m: m.value)
@pytest.mark.parametrize("name", LIVES)
async def test_a_crash_changes_nothing_in_the_end(name: str, moment: Moment):
    async with World() as world:
        await LIVES[name](world)
        expected = world.summarise()
    for number in range(1, MAX_WRITES):
        crash = CrashAt(number, moment)
        async with World() as world:
            world.schedule.append(f"(crash {moment.value} write {number})")
            world.log.faults.append(crash)
            await LIVES[name](world)
            assert world.summarise() == expected
        if not crash.has_struck:
            return
    pytest.fail(f"more than {MAX_WRITES} writes")


class LostAnswer:
    """The answer to the n-th write of the operator never comes; it was done, or was not."""

    def __init__(self, number: int, moment: Moment) -> None:
        self._crash = CrashAt(number, moment)

    @property
    def has_struck(self) -> bool:
        return self._crash.has_struck

    def __call__(self, call: Call, moment: Moment) -> None:
        from tests.simulation.worlds import Crash

        if call.user != OPERATOR:
            return
        try:
            self._crash(call, moment)
        except Crash as crash:
            raise OutcomeUnknown("the connection ended") from crash


@pytest.mark.parametrize("moment", Moment, ids=lambda m: m.value)
@pytest.mark.parametrize("name", LIVES)
async def test_a_lost_answer_changes_nothing_in_the_end(name: str, moment: Moment):
    async with World() as world:
        await LIVES[name](world)
        expected = world.summarise()
    for number in range(1, MAX_WRITES):
        fault = LostAnswer(number, moment)
        async with World() as world:
            world.schedule.append(f"(answer to write {number} lost, {moment.value} it)")
            world.log.faults.append(fault)
            await LIVES[name](world)
            assert world.summarise() == expected
        if not fault.has_struck:
            return
    pytest.fail(f"more than {MAX_WRITES} writes")
