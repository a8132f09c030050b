"""Where the time comes from.

Who decides by the time is handed a Clock, so that tests hand in their own. What only measures a
request reads the event loop's; what runs in job pods (launcher) reads its machine's.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

BOOTTIME: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Counts on while the machine is suspended, as other machines' clocks do (Linux only)."""

CLOSE = timedelta(seconds=2)
"""Clocks agree that are no further apart: answers tell whole seconds, and take a while."""

APART = timedelta(minutes=5)
"""Who decides by a clock that is further from the API server's may end what has its time still."""


class Clock(Protocol):
    """Time as the program sees it; tests hand in one of their own."""

    def now(self) -> datetime:
        """What people call the time: aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some start; never goes back, never stands still."""
        ...

    async def sleep(self, duration: timedelta) -> None:
        """Wait; at once where the duration is not positive."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)  # noqa: TID251 (this is where time comes from)

    def monotonic(self) -> float:
        """Seconds since the machine started, suspension included."""
        return time.clock_gettime(BOOTTIME)

    async def sleep(self, duration: timedelta) -> None:
        """Wait in the event loop."""
        await asyncio.sleep(max(duration.total_seconds(), 0))


class ServerClock(SystemClock):
    """What people call the time is the API server's, whatever this machine's clock says.

    Until the server has been heard, and while both agree within CLOSE, it is the machine's.
    """

    def __init__(self) -> None:
        self._ahead = timedelta()

    def now(self) -> datetime:
        """UTC, as the server has it."""
        return super().now() + self._ahead

    def hear(self, moment: datetime) -> None:
        """The server has just said, in whole seconds, that it is this moment."""
        ahead = moment - super().now()
        self._ahead = ahead if abs(ahead) > CLOSE else timedelta()


class ComparedClock(SystemClock):
    """The machine's clocks, and how far from the API server's they are.

    The server's time is the moment that it said last, and what has passed since: who sets this
    machine's clock is noticed before the next answer.
    """

    def __init__(self) -> None:
        self._heard: tuple[datetime, float] | None = None

    @property
    def ahead(self) -> timedelta:
        """How much later it is for the server; nothing until it has been heard."""
        if self._heard is None:
            return timedelta()
        moment, at = self._heard
        return moment - self.now() + timedelta(seconds=self.monotonic() - at)

    @property
    def apart(self) -> timedelta:
        """How far, without a sign."""
        return abs(self.ahead)

    def hear(self, moment: datetime) -> None:
        """The server has just said, in whole seconds, that it is this moment."""
        self._heard = moment, self.monotonic()


class LaterClock:
    """Of the machine's clock and the API server's the one that is ahead, where they are APART.

    For who records since when something is so, and decides later how long that has been: a moment
    that lies ahead is seen to be wrong once the clocks agree, one that lies behind is long over.
    """

    def __init__(self, clock: ComparedClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        """UTC."""
        own, ahead = self._clock.now(), self._clock.ahead
        if ahead <= APART:
            return own
        try:
            return own + ahead
        except OverflowError:  # a server may say anything
            return own

    def monotonic(self) -> float:
        """See Clock."""
        return self._clock.monotonic()

    async def sleep(self, duration: timedelta) -> None:
        """See Clock."""
        await self._clock.sleep(duration)
