from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from et_kube.racing import Interrupted, run_unless, run_within
from fakes.clock import FakeClock

SECOND = timedelta(seconds=1)


async def test_work_that_is_in_time_gives_its_result():
    async def work() -> int:
        return 7

    assert await run_within(FakeClock(), SECOND, work()) == 7


async def test_an_error_of_the_work_comes_out_as_itself():
    async def work() -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await run_within(FakeClock(), SECOND, work())


async def test_work_that_takes_too_long_has_ended_when_the_time_out_is_told():
    clock = FakeClock()
    ends = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ends.append("work")

    async def race() -> None:
        with pytest.raises(TimeoutError):
            await run_within(clock, SECOND, work())
        ends.append("race")

    async with asyncio.TaskGroup() as group:
        group.create_task(race())
        await clock.advance(SECOND)
    assert ends == ["work", "race"]


async def test_an_interrupt_that_fails_is_not_mistaken_for_an_end():
    async def interrupt() -> None:
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        await run_unless(interrupt(), asyncio.Event().wait())


async def test_an_interrupt_that_ends_first_is_told():
    with pytest.raises(Interrupted):
        await run_unless(asyncio.sleep(0), asyncio.Event().wait())


async def test_whoever_is_cancelled_before_the_start_leaves_no_coroutine_behind():
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run_unless(asyncio.Event().wait(), asyncio.Event().wait()))
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
