"""Times as Kubernetes writes them: RFC 3339, always with a zone.

Pure; `parse_time` never raises: what is no time, or too far off to compute with, is None.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_MAX_TEXT = 64
YEARS = range(1900, 9000)
"""What is added to a moment, or taken from it, must give one that can be written down too."""
_FRACTION = re.compile(r"\.(\d{1,6})\d*")


def parse_time(text: object) -> datetime | None:
    """The moment in UTC; None where there is no text or no time in it, or a year out of YEARS.

    Go writes up to nine digits of a second; what is finer than a microsecond is cut off.
    """
    if not isinstance(text, str) or not 0 < len(text) <= _MAX_TEXT:
        return None
    try:
        moment = datetime.fromisoformat(_FRACTION.sub(r".\1", text))
        is_usable = moment.tzinfo is not None and moment.year in YEARS
        return moment.astimezone(UTC) if is_usable else None
    except (ValueError, OverflowError):
        return None


def format_time(moment: datetime) -> str:
    """`2026-01-02T03:04:05Z`, with microseconds where there are some."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def format_micro_time(moment: datetime) -> str:
    """`2026-01-02T03:04:05.000000Z`: a MicroTime is refused without its six digits."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
