"""Signals that PID 1 takes: none of them is lost, and none counts that its own container sends.

Both PIDs 1 take theirs here, once: from then on these signals stay blocked in them. What follows
from one is decided by who reads it (serving.py, shim/launching.py).
"""

from __future__ import annotations

import os
import signal
import threading
from typing import List, NamedTuple

from launcher.protocol.signals import PASSED

NAME = "edl"
"""What we are called among processes: whoever ends all that is called `python` means his own."""
ENDING = (
    *PASSED,
    signal.SIGWINCH,
    signal.SIGPWR,
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)
"""What a container may be told its end by: the STOPSIGNAL of its image, or `lifecycle.stopSignal`.
Left out are those by which the kernel tells a process of itself."""
_PLAIN = (signal.SIGTERM, signal.SIGINT)
_END = 0x80  # numbers are at most 64


class Came(NamedTuple):
    """A signal, and whether it is the end of the pod."""

    number: int
    is_end: bool


class Caught:
    """Takes SIGCHLD and ENDING from now on; `fileno` can be read when one has come.

    The end of a pod comes from outside of its process namespace, where the kernel shows no sender,
    and with whatever signal its image wants. To PID 1 what a process of the container sends says
    nothing, `pkill -f train.py` of a script that clears up least of all; what the kernel says of a
    terminal (a key, a new size) is nobody's word. Where we are not PID 1, nobody can be told from
    anybody: all come, TERM and INT as the end.

    They stay blocked, for only who waits for a signal is told who sent it; `spawning.start` gives
    children none of that. A pipe that is full makes the kernel keep one of each kind.
    """

    def __init__(self) -> None:
        numbers = (signal.SIGCHLD, *ENDING)
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        for number in numbers:
            # Not ignored, as whoever started us may have had it: children would inherit that.
            signal.signal(number, signal.SIG_DFL)
        _take_name()
        threading.Thread(target=self._wait, daemon=True).start()

    def fileno(self) -> int:
        """For poll and selectors."""
        return self._reader

    def take(self) -> List[Came]:
        """The signals that came since; of many that were alike at least one."""
        try:
            return [Came(byte & ~_END, byte >= _END) for byte in os.read(self._reader, 4096)]
        except BlockingIOError:
            return []

    def _wait(self) -> None:
        while True:
            taken = signal.sigwaitinfo((signal.SIGCHLD, *ENDING))
            number, is_ours = taken.si_signo, os.getpid() == 1
            is_child = number == signal.SIGCHLD
            is_end = not is_child and is_from_outside(taken.si_pid, taken.si_code)
            is_end = is_end or (not is_ours and number in _PLAIN)
            if is_child or is_end or not is_ours:
                os.write(self._writer, bytes([number | _END if is_end else number]))


def is_from_outside(sender: int, code: int) -> bool:
    """Whether a process of another process namespace sent it (sigaction(2): si_pid, si_code)."""
    return sender == 0 and code <= 0


def _take_name() -> None:
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(NAME)
    except OSError:
        # A sandbox: then only what a signal is sent by protects us.
        return
