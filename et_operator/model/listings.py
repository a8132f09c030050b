"""Since when workers are on the served list of hosts.

A part of the job's status: recorded and judged by planning/holding.py, which never lets the last
host with the training's state go.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

SYNCED_AFTER = timedelta(seconds=60)
"""Who is listed for so long has joined the training, and has its state."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Workers, by index, that are listed since then as far as is known; no index is used twice."""

    since: datetime
    indexes: tuple[int, ...]
