"""Virtual time: what happens when, in order.

Nothing sleeps, and no clock of the machine is read: time jumps to the next event that somebody has
planned.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

Event = Callable[[], None]


class Clock:
    """Milliseconds from 0. Events of one time happen in the order in which they were planned."""

    def __init__(self) -> None:
        self.now = 0
        self._events: list[tuple[int, int, Event]] = []
        self._count = 0

    def at(self, time: int, event: Event) -> None:
        """Plan an event; one of the past happens next."""
        self._count += 1
        heappush(self._events, (max(time, self.now), self._count, event))

    def step(self, until: int) -> bool:
        """Let all events of the next time happen; False where there are none before `until`."""
        if not self._events or self._events[0][0] > until:
            self.now = until
            return False
        self.now = self._events[0][0]
        while self._events and self._events[0][0] == self.now:
            heappop(self._events)[2]()
        return True
