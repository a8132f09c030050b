from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta

import pytest

from et_process.supervising import (
    UnexpectedEnd,
    run_for_ever,
    stop_on_signals,
    supervise,
)
from fakes.clock import FakeClock

GRACE = timedelta(seconds=5)


async def stay() -> None:
    await asyncio.Event().wait()


async def leave() -> None:
    await asyncio.sleep(0)


async def break_down() -> None:
    raise LookupError("broken")


async def test_a_task_that_ends_is_an_error_which_names_it():
    with pytest.raises(ExceptionGroup) as caught:
        await run_for_ever({"stays": stay, "leaves": leave})
    assert caught.group_contains(UnexpectedEnd, match="task leaves has ended")


async def test_a_task_that_is_cancelled_by_nobody_is_an_error_which_names_it():
    async def give_up() -> None:
        waited_for = asyncio.get_running_loop().create_future()
        waited_for.cancel()
        await waited_for

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(1):
            await run_for_ever({"stays": stay, "gives up": give_up})
    assert caught.group_contains(UnexpectedEnd, match="task gives up has ended, cancelled by")


async def test_a_task_that_fails_takes_the_others_with_it():
    stop = asyncio.Event()
    with pytest.raises(ExceptionGroup) as caught:
        await supervise(
            {"stays": stay, "breaks": break_down}, stop=stop, clock=FakeClock(), grace=GRACE
        )
    assert caught.group_contains(LookupError, match="broken")


async def test_a_stop_lets_every_task_finish_what_it_must():
    ended = []

    async def tidy_up() -> None:
        try:
            await stay()
        finally:
            await asyncio.sleep(0)
            ended.append("tidy")

    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(supervise({"tidy": tidy_up}, stop=stop, clock=FakeClock(), grace=GRACE))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stop.set()
    assert ended == ["tidy"]


async def test_tasks_that_do_not_stop_are_given_up_after_the_grace():
    clock = FakeClock()
    stop = asyncio.Event()
    given_up = asyncio.Event()

    async def ignore_the_stop() -> None:
        while not given_up.is_set():
            try:
                await given_up.wait()
            except asyncio.CancelledError:
                continue
        raise asyncio.CancelledError

    async with asyncio.TaskGroup() as group:
        group.create_task(
            supervise(
                {"stuck": ignore_the_stop},
                stop=stop,
                clock=clock,
                grace=GRACE,
                give_up=given_up.set,
            )
        )
        await clock.settle()
        stop.set()
        await clock.advance(GRACE * 0.9)
        assert not given_up.is_set()
        await clock.advance(GRACE * 0.2)
        assert given_up.is_set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
async def test_signals_ask_for_the_stop(number: int):
    with stop_on_signals() as stop:
        os.kill(os.getpid(), number)
        async with asyncio.timeout(5):
            await stop.wait()
