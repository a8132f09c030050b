"""Signals that PID 1 takes: none of them is lost, however long it looks at something else."""

from __future__ import annotations

import os
import signal
from typing import Any, List, Sequence


class Caught:
    """Takes these signals from now on; `fileno` can be read when one has come.

    What is written there only wakes us: it holds some hundred signals, and the children of a worker
    may end by thousands while we look for them. Python keeps each signal until its handler has run.
    """

    def __init__(self, numbers: Sequence[signal.Signals]) -> None:
        self._numbers: List[int] = []
        self._reader, writer = os.pipe()
        for end in (self._reader, writer):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in numbers:
            # Caught and not ignored: children inherit what is ignored, also by who started us.
            signal.signal(number, self._note)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)  # boot.py has held them back

    def fileno(self) -> int:
        """For poll and selectors."""
        return self._reader

    def take(self) -> List[int]:
        """The numbers of those that came since; of many that were alike at least one."""
        try:
            while os.read(self._reader, 4096):
                pass
        except BlockingIOError:
            pass
        signal.pthread_sigmask(signal.SIG_BLOCK, ())  # runs the handlers of what was read there
        taken, self._numbers = self._numbers, []
        return taken

    def _note(self, number: int, _frame: Any) -> None:
        self._numbers.append(number)
