"""Limits of texts in statuses and Events: words are cut to so many bytes, lists to so many names.

Others' words are cut here before they go into a status, in bytes as the API server counts them.
What may be in such words at all is said in et_contract/texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

MAX_MESSAGE = 2048
"""Bytes of one condition's message, as JSON."""
MAX_REASONS = 24 * 1024
"""Bytes, as JSON, of what is remembered of why workers ended: of all of a job together."""
MAX_REASON = 256
"""Bytes, as JSON, of what is remembered of one worker's end, where there are few."""
MAX_TAIL = 896
"""Bytes, as JSON, of what a process has written last: an Event has room for it."""
NAMED = 10
"""So many names a message lists."""
_MARK = "..."


def find_reason_limit(workers: int) -> int:
    """How many bytes each of so many workers has for the reason of its end; perhaps none.

    Of pods that somebody has given to a job there may be any number.
    """
    return min(MAX_REASON, MAX_REASONS // max(workers, 1))


def cut(text: str, limit: int) -> str:
    """Text that is at most so many bytes long as JSON, dots where something is missing.

    Characters are counted as the API server writes them, and with no less than they take anywhere.
    """
    if len(text) <= limit and measure(text) <= limit:
        return text
    end = max(limit - len(_MARK), 0)
    text = text[:end]
    while measure(text) > end:
        text = text[: len(text) - (measure(text) - end + 11) // 12]
    return text + _MARK[: max(limit, 0)]


def keep_end(text: str, limit: int) -> str:
    """A text cut at its beginning: what a program wrote last says why it ended."""
    if len(text) <= limit and measure(text) <= limit:
        return text
    most = max(limit - len(_MARK), 0)
    text = text[max(len(text) - most, 0) :]
    while measure(text) > most:
        text = text[(measure(text) - most + 11) // 12 :]
    return _MARK[: max(limit, 0)] + text


def measure(text: str) -> int:
    """Bytes of a text inside the quotes of JSON; Go writes <, > and & with six each."""
    return len(json.dumps(text)) - 2 + 5 * sum(map(text.count, "<>&"))


def count(number: int | None, what: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def name_some(names: Sequence[str]) -> str:
    """All of them, or as many as anybody reads."""
    more = len(names) - NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:NAMED])} and {more} more"


def show_time(moment: datetime) -> str:
    """A time in a message: absolute, so that what is told of a wait does not change with it."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
