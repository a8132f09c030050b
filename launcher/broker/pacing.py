"""When the broker draws its consequences: soon after something happened, and when something is due.

Many frames that came together lead to one pass, so that a burst of ends is kept and reported once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Protocol

_LEAST_SECONDS = 0.005


class Settling(Protocol):
    """What is paced."""

    def settle(self, now: float) -> None:
        """Do all that follows."""

    def due(self) -> float:
        """When to settle at the latest, on the loop's clock."""


class Pacer:
    """Calls `settle`, then the followers."""

    def __init__(self, core: Settling, followers: Sequence[Callable[[], None]]) -> None:
        self._core = core
        self._followers = followers
        self._touched = asyncio.Event()

    def touch(self) -> None:
        """Something happened."""
        self._touched.set()

    async def run(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        while True:
            self._touched.clear()
            self._core.settle(loop.time())
            for follow in self._followers:
                follow()
            due = self._core.due()
            delay = None if due == math.inf else max(due - loop.time(), _LEAST_SECONDS)
            try:
                async with asyncio.timeout(delay):
                    await self._touched.wait()
            except TimeoutError:
                continue
