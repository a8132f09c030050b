"""Tasks that must not end, and the orderly end of all of them.

One that returns or fails ends the whole process, for a part of it must never go on alone; one that
does not stop in time is not waited for.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import structlog

from et_kube.clock import Clock
from et_kube.racing import Interrupted, run_unless

log = structlog.get_logger()

Tasks = Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
"""Never-ending coroutine functions by the name under which people look for them."""

EXIT_STUCK = 70


class UnexpectedEnd(Exception):  # noqa: N818 (a fact about a task)
    """A task that should run for ever has ended, though nobody ended it."""


async def run_for_ever(tasks: Tasks) -> None:
    """Run all of them until one fails or the caller is cancelled; then all have ended.

    Raises:
        UnexpectedEnd: in an ExceptionGroup, if one returned; its own error if one failed.
    """
    async with asyncio.TaskGroup() as group:
        for name, function in tasks.items():
            group.create_task(guard_end(name, function), name=name)


async def guard_end(name: str, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a task; its return is an error, and any error is logged under its name.

    A cancellation that nobody sent (a library's own, of what the task waited for) is a return: a
    group of tasks would take it for a wish, and go on without.
    """
    try:
        await function()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise UnexpectedEnd(f"task {name} has ended, cancelled by nobody") from error
    except Exception:
        log.exception("task failed", task=name)
        raise
    raise UnexpectedEnd(f"task {name} has ended; it should run for ever")


def exit_now() -> None:
    """End the process at once: some task does not react to being cancelled."""
    os._exit(EXIT_STUCK)


async def supervise(
    tasks: Tasks,
    *,
    stop: asyncio.Event,
    clock: Clock,
    grace: timedelta,
    give_up: Callable[[], None] = exit_now,
) -> None:
    """Run the tasks until `stop` is set, then cancel them and wait until they have ended.

    Errors are those of run_for_ever. If the tasks do not end within `grace` of the wish to stop,
    `give_up` is called.
    """
    work = run_unless(stop.wait(), run_for_ever(tasks))
    try:
        await run_unless(watch_the_end(stop, clock, grace, give_up), work)
    except Interrupted:
        log.info("all tasks have stopped")


async def watch_the_end(
    stop: asyncio.Event, clock: Clock, grace: timedelta, give_up: Callable[[], None]
) -> None:
    """Call `give_up` if this is still running `grace` after the stop."""
    await stop.wait()
    log.info("stopping", grace_seconds=grace.total_seconds())
    await clock.sleep(grace)
    running = sorted(task.get_name() for task in asyncio.all_tasks())
    log.error("tasks do not stop", tasks=running)
    give_up()


@contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set while the context lasts."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    wanted = (signal.SIGTERM, signal.SIGINT)
    for number in wanted:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in wanted:
            loop.remove_signal_handler(number)
