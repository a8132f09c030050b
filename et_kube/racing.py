"""Work that something else may cut short; whatever was cut is cancelled and awaited, never left.

For loops that wait for one of two things. No task that is begun here outlives its call, and no
error of either is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from et_kube.clock import Clock

T = TypeVar("T")


class Interrupted(Exception):  # noqa: N818 (a fact, not a failure)
    """The interrupt ended before the work did."""


async def run_unless(interrupt: Coroutine[Any, Any, object], work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, or its error.

    Raises:
        Interrupted: `interrupt` ended first; `work` has then been cancelled and has ended.
            An error of `interrupt` is raised as it is.
    """
    async with asyncio.TaskGroup() as group:
        # Errors are carried out as results: a group would wrap them.
        worker = group.create_task(catch(work))
        waiter = group.create_task(catch(interrupt))
        await asyncio.wait({worker, waiter}, return_when=asyncio.FIRST_COMPLETED)
        worker_was_done = worker.done()
        waiter.cancel()
        worker.cancel()
    if worker_was_done:
        return unwrap(worker)
    unwrap(waiter)
    if not worker.cancelled() and worker.result()[1] is not None:
        unwrap(worker)
    raise Interrupted


async def run_within(clock: Clock, limit: timedelta, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, or its error.

    Raises:
        TimeoutError: it took longer than `limit`; it has then been cancelled and has ended.
    """
    try:
        return await run_unless(clock.sleep(limit), work)
    except Interrupted:
        raise TimeoutError from None


async def catch(work: Coroutine[Any, Any, T]) -> tuple[T | None, Exception | None]:
    """The result or the error, as a value."""
    try:
        return await work, None
    except Exception as error:  # noqa: BLE001 (raised again by unwrap)
        return None, error


def unwrap(task: asyncio.Task[tuple[T | None, Exception | None]]) -> T:
    """What `catch` carried out, as if the task had been awaited itself."""
    result, error = task.result()
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # None only where T allows it
