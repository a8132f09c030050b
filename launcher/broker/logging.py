"""The broker's log: one JSON object a line on stderr, as et_process writes it.

Written by hand: structlog, which the other programs use, takes a twentieth of the time from a
broker's first instruction to its first request. It knows nothing of what is logged; no token and no
command of a user is ever given to it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from et_kube.clock import SystemClock

_CLOCK = SystemClock()


class Log:
    """Takes what happened, and the facts beside it, by the name of each."""

    def info(self, event: str, **facts: Any) -> None:
        """What is as it should be."""
        _write(event, "info", facts)

    def warning(self, event: str, **facts: Any) -> None:
        """What may mend itself, or is tried again."""
        _write(event, "warning", facts)

    def error(self, event: str, **facts: Any) -> None:
        """What is lost, or stays as it is until somebody does something."""
        _write(event, "error", facts)

    def critical(self, event: str, **facts: Any) -> None:
        """What keeps the broker from its work."""
        _write(event, "critical", facts)


log = Log()


def _write(event: str, level: str, facts: dict[str, Any]) -> None:
    time = _CLOCK.now().isoformat().replace("+00:00", "Z")
    line = json.dumps({**facts, "event": event, "level": level, "time": time}, default=repr)
    # One write for the whole line: others write to the same stderr.
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
