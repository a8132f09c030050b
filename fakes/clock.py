"""Time that passes only when a test says so.

It sleeps on the event loop and never on the machine: `advance` lets all who sleep wake in their
order, and tasks do what they can between two of them.
"""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)
TURNS = 50
"""Turns of the event loop after which tasks that have something to do have done it."""


class FakeClock:
    """A Clock for tests: `advance` moves it and wakes whoever sleeps on it, in order."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._passed = 0.0
        self._sequence = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """START, and what has passed since."""
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        """Seconds; what has passed shows in it too."""
        return 1000.0 + self._passed

    async def sleep(self, duration: timedelta) -> None:
        """Until `advance` has come that far."""
        if duration <= timedelta(0):
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sequence += 1
        at = self._passed + duration.total_seconds()
        heapq.heappush(self._sleepers, (at, self._sequence, woken))
        await woken

    def spend(self, duration: timedelta) -> None:
        """Whoever runs takes so long, and nobody else has a turn meanwhile."""
        self._passed += duration.total_seconds()

    async def settle(self) -> None:
        """Let every task do what it can without time passing."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def advance(self, duration: timedelta) -> None:
        """Let time pass; each sleeper wakes at its time and does what it can before the next."""
        end = self._passed + duration.total_seconds()
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, woken = heapq.heappop(self._sleepers)
            if woken.done():
                continue
            self._passed = max(self._passed, at)
            woken.set_result(None)
            await self.settle()
        self._passed = max(self._passed, end)
        await self.settle()


class WrongClock:
    """Another machine's clock: as the true one, but for the time of day, which may jump."""

    def __init__(self, true: FakeClock) -> None:
        self._true = true
        self.off = timedelta()

    def now(self) -> datetime:
        """The true time, and how far this clock is off."""
        return self._true.now() + self.off

    def monotonic(self) -> float:
        """As the true clock's."""
        return self._true.monotonic()

    async def sleep(self, duration: timedelta) -> None:
        """As on the true clock."""
        await self._true.sleep(duration)
