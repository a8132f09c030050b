"""Workers whose hosts a command has given up.

A part of the job's status: kept by planning/exhausting.py, which needs to know how many there were
when no pod of them is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

USED_UP = "UsedUp"
"""Reason of a worker that leaves for that."""


@dataclass(frozen=True, slots=True)
class Moment:
    """So many workers were used up within about a minute of this time."""

    at: datetime
    count: int


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Workers of a launcher's command that were replaced in the last hour, and when that stopped.

    It says nothing of a launcher of another epoch. `moments` are of the hour before the last one,
    the newest last; `stopped`: since when none is replaced any more, for there were too many.
    """

    epoch: int
    moments: tuple[Moment, ...] = ()
    stopped: datetime | None = None
