"""What workers printed last, on its way into our log: nobody waits where nobody reads it.

tails.py has the lines; one after the other goes into the log. While nobody reads that, they wait
here, and the rest of the broker never does.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import struct
import termios
from collections import deque
from collections.abc import Callable

from et_contract.tails import TOLD, LastLines, encode_last_lines
from launcher.broker.logging import log
from launcher.broker.tails import Tails

MOST_WAITING = 2**14
"""Bytes that wait to be read in our log's pipe, which takes 64 KiB: then it is given time."""
FINISH_SECONDS = 3.0
STDERR = 2
_LOOK_SECONDS = 0.01
_LONGEST_LOOK_SECONDS = 1.0


def tell(last: LastLines) -> None:
    """One line of our log."""
    log.info(TOLD, **encode_last_lines(last))


class Teller:
    """Tells what is over, as fast as somebody reads.

    Args:
        tails: what there is to tell.
        measure: how many bytes of our log nobody has read yet.
        say: puts one into the log.
    """

    def __init__(
        self, tails: Tails, measure: Callable[[], int], say: Callable[[LastLines], None] = tell
    ) -> None:
        self._tails = tails
        self._measure = measure
        self._say = say
        self._waiting = deque(tails.hand_over())
        self._is_held_up = asyncio.Event()

    def look(self) -> None:
        """What may have come is told, as far as there is room."""
        self._waiting.extend(self._tails.hand_over())
        while self._waiting and self._measure() <= MOST_WAITING:
            self._say(self._waiting.popleft())
        if self._waiting:
            self._is_held_up.set()

    async def run(self) -> None:
        """For ever: what had to wait is told once there is room, whether anything happens or not.

        A log that nobody reads is looked at ever more seldom.
        """
        while True:
            await self._is_held_up.wait()
            pause = _LOOK_SECONDS
            while waiting := len(self._waiting):
                await asyncio.sleep(pause)
                self.look()
                is_read = len(self._waiting) < waiting
                pause = _LOOK_SECONDS if is_read else min(2 * pause, _LONGEST_LOOK_SECONDS)
            self._is_held_up.clear()

    async def finish(self, seconds: float = FINISH_SECONDS) -> None:
        """The launcher ends: all is told, if that takes no longer."""
        self._tails.end_all()
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self.look()
                    if not self._waiting:
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            return


def measure_waiting(fd: int = STDERR) -> int:
    """Bytes that were written to a pipe and not read yet; 0 for what is none."""
    try:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return 0
        return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0])
    except OSError:
        return 0
