"""How long the broker waits after a failure: one answer for streams, config and report.

Those three call it, roll the dice and sleep; nothing here waits, or knows what has failed. tenacity
is not imported: a user waits for the broker's start, and no attempt is the last.
"""

from __future__ import annotations

from datetime import timedelta

from et_kube.backoff import Backoff

FIRST_SECONDS = 0.5
MOST_SECONDS = 15.0
LONGEST_AFTER = 6
"""Failures in a row after which the wait is the longest."""
RETRYING = Backoff(timedelta(seconds=FIRST_SECONDS), timedelta(seconds=MOST_SECONDS), jitter=0.5)


def delay(failures: int, chance: float) -> float:
    """Seconds before the next attempt, after so many failures in a row (>= 1)."""
    return RETRYING.delay(failures, chance).total_seconds()
