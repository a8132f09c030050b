"""How long the broker waits after a failure: one answer for streams, config and report."""

from __future__ import annotations

from datetime import timedelta

from et_kube.backoff import Backoff

FIRST_SECONDS = 0.5
MOST_SECONDS = 15.0
NEW_SECONDS = 0.1
"""The first wait for a pod that was never spoken to: of one that only just runs, little is due."""
RETRYING = Backoff(timedelta(seconds=FIRST_SECONDS), timedelta(seconds=MOST_SECONDS), jitter=0.5)
STARTING = Backoff(timedelta(seconds=NEW_SECONDS), timedelta(seconds=MOST_SECONDS), jitter=0.5)


def delay(failures: int, chance: float, *, is_new: bool = False) -> float:
    """Seconds before the next attempt, after so many failures in a row (>= 1).

    `is_new`: there was no success before these.
    """
    return (STARTING if is_new else RETRYING).delay(failures, chance).total_seconds()
