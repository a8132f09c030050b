"""The clock: the time of day, monotonic seconds, and sleep, for whoever decides by them.

Who decides by the time is handed a Clock, so that tests hand in their own. What only measures a
request reads the event loop's; what runs in job pods (launcher) reads its machine's.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from et_kube.times import YEARS

BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""Counts on while the machine is suspended, as other machines' clocks do (Linux only)."""

CLOSE = timedelta(seconds=2)
"""Clocks agree that are no further apart: answers tell whole seconds, and take a while."""

APART = timedelta(minutes=5)
"""Who decides by a clock that is further from the API server's may end what has its time still."""

AGREED = 10
"""Minutes: all their answers, as far as any were heard, must say that it is later than the machine
has it. Of several API servers one may have a wrong clock, and a time that goes forth and back with
each answer is none."""


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
        """Seconds since the machine started, suspension included where there is BOOTTIME."""
        return time.monotonic() if BOOTTIME is None else time.clock_gettime(BOOTTIME)

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
        self._last: float | None = None
        """How far the last answer's time was ahead of the clock that only goes on."""
        self._least: dict[int, float] = {}
        """Least of the same in each minute: of the last ones that were heard, AGREED at most."""

    @property
    def apart(self) -> timedelta:
        """How far it is from the last answer's, without a sign; nothing until one was heard."""
        return timedelta() if self._last is None else abs(self._compare(self._last))

    @property
    def behind(self) -> timedelta:
        """By how much every answer of AGREED minutes said that it is later (negative: earlier)."""
        return self._compare(min(self._least.values())) if self._least else timedelta()

    def hear(self, moment: datetime) -> None:
        """The server has just said, in whole seconds, that it is this moment."""
        at = self.monotonic()
        minute, self._last = int(at // 60), moment.timestamp() - at
        if minute not in self._least:
            recent = {m: least for m, least in self._least.items() if m > minute - AGREED}
            self._least = {**recent, minute: self._last}
        self._least[minute] = min(self._least[minute], self._last)

    def _compare(self, ahead: float) -> timedelta:
        return timedelta(seconds=ahead + self.monotonic() - self.now().timestamp())


class LaterClock:
    """The API server's time where the machine's clock is behind it by more than APART.

    For who records since when something is so, and decides later how long that has been: a moment
    that lies ahead is set to now once the clocks agree (but where the server made something by that
    time, decision 0178), one that lies behind is long over.
    """

    def __init__(self, clock: ComparedClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        """UTC."""
        own, behind = self._clock.now(), self._clock.behind
        if behind <= APART:
            return own
        try:
            later = own + behind
        except OverflowError:
            return own
        return later if later.year in YEARS else own  # a server may say anything

    def monotonic(self) -> float:
        """See Clock."""
        return self._clock.monotonic()

    async def sleep(self, duration: timedelta) -> None:
        """See Clock."""
        await self._clock.sleep(duration)
