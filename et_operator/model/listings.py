"""Since when workers are on the served list of hosts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

SETTLED = timedelta(seconds=60)
"""Who is listed for so long has joined the training, and has its state."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Workers, by index, that are listed since then as far as is known; no index is used twice."""

    since: datetime
    indexes: tuple[int, ...]
