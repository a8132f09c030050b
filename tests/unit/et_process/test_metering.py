from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from et_process.metering import Metered
from fakes.clock import FakeClock

SECOND = timedelta(seconds=1)


async def test_what_keeps_the_loop_is_counted_and_not_what_is_waited_for():
    clock = FakeClock()
    steps: list[float] = []

    async def work() -> str:
        clock.spend(2 * SECOND)
        await clock.sleep(60 * SECOND)
        clock.spend(3 * SECOND)
        await asyncio.sleep(0)
        return "done"

    metered = Metered(work(), clock.monotonic, steps.append)

    async def run() -> str:
        return await metered

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run())
        await clock.advance(90 * SECOND)
    assert task.result() == "done"
    assert steps == [2, 3, 0]
    assert metered.seconds == 5


async def test_an_error_is_the_works_own_and_so_is_a_cancellation():
    clock = FakeClock()
    seen: list[str] = []

    async def work(wait: float) -> None:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), wait)
        except TimeoutError:
            seen.append("late")
            clock.spend(SECOND)
            raise ValueError("of its own") from None
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    metered = Metered(work(0), clock.monotonic, lambda _: None)
    with pytest.raises(ValueError, match="of its own"):
        await metered
    assert metered.seconds == 1

    async def run() -> None:
        await Metered(work(60), clock.monotonic, lambda _: None)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run())
        await clock.settle()
        task.cancel()
    assert task.cancelled()
    assert seen == ["late", "cancelled"]
