"""Backoff: how long to wait after the first failure, the second, and so on.

Pure: who waits and counts failures is the caller, and the dice (`chance`) are his too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

MAX_DOUBLINGS = 64
"""Beyond it any limit is reached; a larger exponent would only overflow."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that grow by `factor` from `first` to `limit`, each shortened by up to `jitter`."""

    first: timedelta
    limit: timedelta
    factor: float = 2.0
    jitter: float = 0.25

    def delay(self, failures: int, chance: float) -> timedelta:
        """The delay after this many failures in a row (>= 1); `chance` in [0, 1) is the dice."""
        steps = min(max(failures, 1) - 1, MAX_DOUBLINGS)
        full = min(self.first.total_seconds() * self.factor**steps, self.limit.total_seconds())
        return timedelta(seconds=full * (1 - self.jitter * chance))


RECONCILING = Backoff(timedelta(seconds=0.2), timedelta(seconds=60))
CONNECTING = Backoff(timedelta(seconds=0.8), timedelta(seconds=30))
"""For a server that answers, and not well: it may be overloaded."""
KNOCKING = Backoff(timedelta(seconds=0.8), timedelta(seconds=5), jitter=0.5)
"""For a server that is not there: attempts cost it nothing, and what is learned late costs time."""
