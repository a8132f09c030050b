"""What the agent was told of the end of its pod, and when processes hear of that by a signal.

A notice is told again on each new stream: what it changes is written, and is no other notice for
that. No I/O, no clock: times are monotonic seconds handed in.
"""

from __future__ import annotations

import json
import math

from launcher.protocol.effects import ShowNotice, SignalHandlers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

SIGNAL_SECONDS = 10.0
"""Between two signals at least: whoever changes a pod's annotation each second interrupts nobody
as often."""


class Notices:
    """Effects are appended to `effects`."""

    def __init__(self, effects: List[Any]) -> None:
        self._effects = effects
        self._notice: Optional[Dict[str, Any]] = None
        self._signal = 0
        self._due: Optional[float] = None
        """When the signal goes that a notice has yet to be told by."""
        self._not_before = -math.inf

    @property
    def is_told(self) -> bool:
        """Whether there is a notice, as far as we have been told."""
        return self._notice is not None

    def take(self, notice: Optional[Dict[str, Any]], number: int, now: float) -> None:
        """The broker's word, None for no notice (any more); `number` of the signal, 0 for none."""
        before, self._notice, self._signal = self._notice, notice, number
        self._effects.append(ShowNotice(encode_notice(notice)))
        if notice is None:
            self._due = None
        elif _is_news(notice, before) and self._due is None:
            self._due = max(now, self._not_before)
        self.tick(now)

    def deadline(self) -> Optional[float]:
        """When `tick` is due; None: never."""
        return self._due

    def tick(self, now: float) -> None:
        """Signal if that is due."""
        if self._due is None or now < self._due:
            return
        self._due = None
        if self._signal:
            self._not_before = now + SIGNAL_SECONDS
            self._effects.append(SignalHandlers(self._signal))


def encode_notice(notice: Optional[Dict[str, Any]]) -> str:
    """What a script reads, "" where there is no notice: one line of JSON, in ASCII."""
    return json.dumps(notice, sort_keys=True) + "\n" if notice is not None else ""


def _is_news(notice: Dict[str, Any], before: Optional[Dict[str, Any]]) -> bool:
    """Whether the notice is another one than before: by another sign, or of an earlier moment.

    The same sign in other words is none, nor one that gives more time.
    """
    if before is None or notice["source"] != before["source"]:
        return True
    # Both are written alike; no moment is at once.
    return str(notice["deadline"] or "") < str(before["deadline"] or "")
