"""What comes about by others' doing is looked for, again and again, for so long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from et_kube.clock import Clock
from et_kube.racing import run_within
from et_kube.retrying import ask_again

LOOK = timedelta(seconds=1)

Look = Callable[[], Awaitable[bool]]
"""Whether it is so."""


async def wait_until(clock: Clock, look: Look, limit: timedelta) -> None:
    """Look each second until it is so; again, too, where the server cannot answer just now.

    Raises:
        TimeoutError: it is not so within `limit`.
    """
    await run_within(clock, limit, _look_on(clock, look, limit))


async def _look_on(clock: Clock, look: Look, limit: timedelta) -> None:
    while not await ask_again(clock, LOOK, limit)(look):
        await clock.sleep(LOOK)
