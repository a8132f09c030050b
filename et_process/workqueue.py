"""Which keys need a look: each at most once in the queue, each with at most one worker.

A key that is added while a worker has it comes again when the worker is done. Used by reconciling;
knows nothing of what a key means.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from et_kube.backoff import RECONCILING
from et_kube.clock import Clock
from et_kube.racing import run_within
from et_process.lanes import Lanes

K = TypeVar("K", bound=Hashable)

IDLE = timedelta(hours=1)
"""How long to sleep when nothing is due; an earlier key wakes the sleeper."""

SPARE_TIMERS = 64

RETRY = "retry"
"""What makes a key due that `retry` was called for."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """When a key became or becomes due (clock.monotonic), and by what."""

    at: float
    cause: str


class WorkQueue(Generic[K]):
    """Keys in the order in which they became due, as far as their lanes let them.

    Args:
        clock: tells when delayed keys are due.
        lanes: whose turn it is among those that are due; by default all have one lane.
        chance: the dice for jitter, in [0, 1).
        on_wait: told the seconds that each key waited between being due and being taken.
        on_take: told what made each key due that is taken: the first cause where there are several.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        lanes: Lanes[K] | None = None,
        chance: Callable[[], float] = random.random,
        on_wait: Callable[[float], None] | None = None,
        on_take: Callable[[str], None] | None = None,
    ) -> None:
        self._clock = clock
        self._lanes = lanes or Lanes()
        self._chance = chance
        self._on_wait = on_wait
        self._on_take = on_take
        self._ready: dict[K, _Wish] = {}  # due since; a dict keeps the order
        self._processing: set[K] = set()
        self._again: dict[K, _Wish] = {}  # became due while being processed
        self._due: dict[K, _Wish] = {}
        self._timers: list[tuple[float, int, K]] = []  # may hold entries that `_due` overrules
        self._sequence = 0
        self._failures: dict[K, int] = {}
        self._resting: dict[K, float] = {}  # until when nothing makes the key due
        self._some_ready = asyncio.Event()
        self._timer_changed = asyncio.Event()

    @property
    def depth(self) -> int:
        """How many keys could be taken now."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """How many keys are due later."""
        return len(self._due)

    def add(self, key: K, after: timedelta | None = None, *, cause: str = "") -> None:
        """Make a key due now, which overrules a delay, or later; the earliest wish wins."""
        now = self._clock.monotonic()
        at = max(now + after.total_seconds() if after else now, self._resting.get(key, now))
        if at <= now:
            self._make_due(key, cause)
            return
        known = self._due.get(key)
        if key in self._ready or key in self._again or (known is not None and known.at <= at):
            return
        self._due[key] = _Wish(at, cause)
        self._drop_overruled_timers()
        self._sequence += 1
        heapq.heappush(self._timers, (at, self._sequence, key))
        if self._timers[0][2] == key:
            self._timer_changed.set()

    def retry(self, key: K, at_least: timedelta | None = None, *, cause: str = RETRY) -> timedelta:
        """Make a key due after one more failure; returns the delay, never below `at_least`.

        So long as somebody asked to wait (`at_least`), nothing else makes the key due: events come
        all the time, and an overloaded server would get one more request for each of them.
        """
        self._failures[key] = self._failures.get(key, 0) + 1
        delay = RECONCILING.delay(self._failures[key], self._chance())
        delay = max(delay, at_least or delay)
        if at_least is not None:
            self._resting[key] = self._clock.monotonic() + at_least.total_seconds()
            self._again.pop(key, None)
            self._due.pop(key, None)  # whoever wished it earlier did not know of that
        self.add(key, delay, cause=cause)
        return delay

    def forget(self, key: K) -> None:
        """Count the key's failures from zero again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; it is the caller's alone until `done`."""
        while (key := self._lanes.take()) is None:
            self._some_ready.clear()
            await self._wait_for_some()
        wish = self._ready.pop(key)
        self._processing.add(key)
        if self._on_wait is not None:
            self._on_wait(self._clock.monotonic() - wish.at)
        if self._on_take is not None:
            self._on_take(wish.cause)
        return key

    def done(self, key: K, kept: float = 0.0) -> float:
        """Give a key back, whatever came of it, after it kept the event loop for so many seconds.

        So its lane rests for a while, and what happens meanwhile makes one turn.

        Returns: the seconds of that rest.
        """
        rest = 0.0
        if key in self._processing:
            self._processing.remove(key)
            rest = self._lanes.release(key, kept)
        due = self._again.pop(key, None)
        if due is not None:
            self._make_ready(key, due)
        self._some_ready.set()  # its lane may have had its share
        return rest

    def clear(self) -> None:
        """Forget every key, and what was known of it: whoever looks next begins anew.

        Nobody has a key any more.
        """
        self._lanes.clear()
        self._timers.clear()
        for kept in (self._ready, self._again, self._due, self._failures, self._resting):
            kept.clear()

    async def run(self) -> None:
        """Make delayed keys due when their time has come; never ends."""
        while True:
            self._timer_changed.clear()
            wait = self._release()
            try:
                await run_within(self._clock, wait, self._timer_changed.wait())
            except TimeoutError:
                continue

    async def _wait_for_some(self) -> None:
        """Until there may be a key to take: one is ready, or a lane of some has rested."""
        rest = self._lanes.find_wait()
        if rest is None:
            await self._some_ready.wait()
            return
        with suppress(TimeoutError):
            await run_within(self._clock, timedelta(seconds=rest), self._some_ready.wait())

    def _make_due(self, key: K, cause: str) -> None:
        self._due.pop(key, None)
        self._resting.pop(key, None)
        wish = _Wish(self._clock.monotonic(), cause)
        if key in self._processing:
            self._again.setdefault(key, wish)
        elif key not in self._ready:
            self._make_ready(key, wish)

    def _make_ready(self, key: K, wish: _Wish) -> None:
        self._ready[key] = wish
        self._lanes.add(key)
        self._some_ready.set()

    def _drop_overruled_timers(self) -> None:
        """Keep the timers in proportion to the keys, however often each was put off."""
        if len(self._timers) > 2 * len(self._due) + SPARE_TIMERS:
            self._timers = [timer for timer in self._timers if self._is_wanted(timer)]
            heapq.heapify(self._timers)

    def _is_wanted(self, timer: tuple[float, int, K]) -> bool:
        """Whether no earlier wish has overruled this timer."""
        at, _, key = timer
        wish = self._due.get(key)
        return wish is not None and wish.at == at

    def _release(self) -> timedelta:
        """Make due what is due; returns the time until the next."""
        now = self._clock.monotonic()
        while self._timers:
            at, _, key = self._timers[0]
            if not self._is_wanted(self._timers[0]):
                heapq.heappop(self._timers)
            elif at <= now:
                heapq.heappop(self._timers)
                self._make_due(key, self._due[key].cause)
            else:
                return timedelta(seconds=at - now)
        return IDLE
