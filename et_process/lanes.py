"""Whose turn it is: keys by lane, each with a bounded share of those who work on them, and of time.

A part of the work queue and of the recorder of Events, which wait and wake; here nothing is
asynchronous, and what a key means is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SLOW = 2.0
"""Seconds for which a key is held before its lane counts as slow: a pass takes some ten requests of
milliseconds, and one that a webhook holds up takes that webhook's time-out."""
SLOW_FOR = 60.0
"""Seconds for which a lane stays slow after it was; quick keys between slow ones prove nothing."""

LIGHT = 0.005
"""Seconds for which a key may keep the event loop and nothing is charged: so long others wait for
their turn anyway."""
PARTS = 4
"""In the long run a lane has the loop for one of so many seconds."""
AT_ONCE = 2.0
"""Seconds of the loop that a lane may have before that holds: what a large job needs to start."""
LONGEST_REST = 60.0
"""Seconds after which a lane comes again, whatever it has cost."""


class Lanes(Generic[K]):
    """Keys that wait; lanes take turns, keys of a lane go in the order in which they came.

    Args:
        lane: the lane of a key; by default all have the same.
        share: how many keys of a lane may be taken and not released.
        slow_share: the same for all lanes together that are slow: who is quick never waits for
            them, however many they are.
        now: seconds, from any start (Clock.monotonic).
    """

    def __init__(
        self,
        lane: Callable[[K], Hashable] = lambda _: "",
        share: int = 2**31,
        *,
        slow_share: int = 2**31,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._lane = lane
        self._share = share
        self._slow_share = slow_share
        self._now = now
        self._waiting: dict[Hashable, dict[K, None]] = {}  # whose turn it is first
        self._busy: dict[Hashable, dict[K, float]] = {}  # when each key was taken
        self._slow: dict[Hashable, float] = {}  # until when, for those that were
        self._paid: dict[Hashable, float] = {}  # when each will have paid for what it has cost

    def add(self, key: K) -> None:
        """Let a key wait that does not yet."""
        self._waiting.setdefault(self._lane(key), {})[key] = None

    def take(self) -> K | None:
        """The key whose turn it is; None where there is none, or every lane has its share."""
        slow = self._find_slow()
        has_room = sum(len(self._busy.get(lane, ())) for lane in slow) < self._slow_share
        for lane in self._waiting:
            busy = self._busy.get(lane, {})
            may_go = len(busy) < self._share and (has_room or lane not in slow)
            if may_go and self._find_rest(lane) <= 0:
                return self._take_first(lane)
        return None

    def find_wait(self) -> float | None:
        """Seconds until a lane has rested that has keys; None where none does."""
        rests = (self._find_rest(lane) for lane in self._waiting)
        return min((rest for rest in rests if rest > 0), default=None)

    def clear(self) -> None:
        """No key waits, and no lane is known to be slow, or to owe anything."""
        self._waiting.clear()
        self._slow.clear()
        self._paid.clear()

    def release(self, key: K, kept: float = 0.0) -> float:
        """A key that was taken is worked on no more; it has kept the event loop so many seconds.

        Returns: the seconds for which its lane rests.
        """
        lane, now = self._lane(key), self._now()
        if kept > LIGHT:
            self._charge(lane, kept, now)
        busy = self._busy.get(lane, {})
        if now - busy.pop(key, now) > SLOW:
            self._slow[lane] = now + SLOW_FOR
        if not busy:
            self._busy.pop(lane, None)
        return self._find_rest(lane)

    def _charge(self, lane: Hashable, kept: float, now: float) -> None:
        self._paid = {lane: until for lane, until in self._paid.items() if until > now}
        until = self._paid.get(lane, now) + PARTS * kept
        self._paid[lane] = min(until, now + PARTS * AT_ONCE + LONGEST_REST)

    def _find_rest(self, lane: Hashable) -> float:
        """Seconds until a lane may have another key taken; none where it owes no more than that."""
        until = self._paid.get(lane)
        return 0.0 if until is None else max(until - PARTS * AT_ONCE - self._now(), 0.0)

    def _take_first(self, lane: Hashable) -> K:
        keys = self._waiting.pop(lane)
        key = next(iter(keys))
        del keys[key]
        if keys:
            self._waiting[lane] = keys  # behind all others
        self._busy.setdefault(lane, {})[key] = self._now()
        return key

    def _find_slow(self) -> set[Hashable]:
        """Lanes that were slow lately, or have held a key for long by now."""
        now = self._now()
        self._slow = {lane: until for lane, until in self._slow.items() if until > now}
        held = (lane for lane, busy in self._busy.items() if now - min(busy.values()) > SLOW)
        return {*self._slow, *held}
