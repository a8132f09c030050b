"""How long the system is asked to wait, at the most. Numbers alone: nothing here waits."""

from typing import Optional

LONGEST = 3600.0
"""Seconds. poll and epoll take milliseconds in 32 bits: 25 days, and an error for more."""


def bound_wait(seconds: Optional[float]) -> Optional[float]:
    """A wait of that many seconds, not below zero and not above LONGEST; None waits for ever.

    Whoever waits looks again at what is due when it is over.
    """
    return None if seconds is None else min(max(0.0, seconds), LONGEST)
