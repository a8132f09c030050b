"""Signals that PID 1 takes: none of them is lost, and none counts that its own container sends."""

from __future__ import annotations

import os
import signal
import threading
from typing import AbstractSet, List, Sequence

NAME = "edl"
"""What we are called among processes: whoever ends all that is called `python` means his own."""


class Caught:
    """Takes these signals from now on; `fileno` can be read when one has come.

    The end of a pod comes from outside of its process namespace, where the kernel shows no sender.
    To PID 1 what a process of the container sends says nothing, `pkill -f train.py` of a script
    that clears up least of all. Where we are not PID 1, nobody can be told from anybody: all count.

    They stay blocked, for only who waits for a signal is told who sent it; `spawning.start` gives
    children none of that. A pipe that is full makes the kernel keep one of each kind.
    """

    def __init__(self, numbers: Sequence[signal.Signals]) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        for number in numbers:
            # Not ignored, as whoever started us may have had it: children would inherit that.
            signal.signal(number, signal.SIG_DFL)
        _take_name()
        threading.Thread(target=self._wait, args=(frozenset(numbers),), daemon=True).start()

    def fileno(self) -> int:
        """For poll and selectors."""
        return self._reader

    def take(self) -> List[int]:
        """The numbers of those that came since; of many that were alike at least one."""
        try:
            return list(os.read(self._reader, 4096))
        except BlockingIOError:
            return []

    def _wait(self, numbers: AbstractSet[signal.Signals]) -> None:
        while True:
            taken = signal.sigwaitinfo(numbers)
            if taken.si_signo == signal.SIGCHLD or taken.si_pid == 0 or os.getpid() != 1:
                os.write(self._writer, bytes([taken.si_signo]))


def _take_name() -> None:
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(NAME)
    except OSError:
        # A sandbox: then only what a signal is sent by protects us.
        return
