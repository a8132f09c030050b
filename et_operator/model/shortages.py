"""Shortages: since when a command has too few workers to go on, and waits for others.

A part of the job's status: recorded by planning/excusing.py, which judges by it whether a command
that gave up had waited in vain.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Shortage:
    """Since when a launcher's command has had too few workers to go on, for some were taken.

    `until` is when it had enough again. It says nothing of a launcher of another epoch.
    """

    epoch: int
    since: datetime
    until: datetime | None = None
