"""Waiting until something is so: asked each second, and a TimeoutError when it takes too long.

It changes nothing. Who can be told by a watch takes following.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from et.errors import explain
from et_kube.clock import Clock
from et_kube.racing import run_within
from et_kube.retrying import TRANSIENT, ask_again

LOOK = timedelta(seconds=1)

Look = Callable[[], Awaitable[bool]]
"""Asks once whether what is waited for is so."""


async def wait_until(clock: Clock, look: Look, limit: timedelta) -> None:
    """Look each second until it is so; again, too, where the server cannot answer just now.

    Raises:
        TimeoutError: it is not so within `limit`; where the last look has failed, and so nothing
            is known, with why.
    """
    trouble = ""

    async def try_look() -> bool:
        nonlocal trouble
        try:
            answer = await look()
        except TRANSIENT as error:
            trouble = explain(error)
            raise
        trouble = ""
        return answer

    try:
        await run_within(clock, limit, _look_on(clock, try_look, limit))
    except (TimeoutError, *TRANSIENT) as error:
        raise TimeoutError(*[trouble] if trouble else ()) from error


async def _look_on(clock: Clock, look: Look, limit: timedelta) -> None:
    while not await ask_again(clock, LOOK, limit)(look):
        await clock.sleep(LOOK)
