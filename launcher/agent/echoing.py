"""Best-effort copies to our own stdout and stderr, which may never make anybody wait.

`kubectl logs` of a worker shows what its sessions write. A reader that does not read loses bytes
here; the shim gets all of them.
"""

from __future__ import annotations

import os
import select

_PIPE_BUF = 4096


class Echo:
    """Writes to a file descriptor without ever blocking; what does not fit is dropped."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_own = False
        try:
            # Opened anew: O_NONBLOCK on the original would reach everyone who inherited it.
            self._fd = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_APPEND)
            self._is_own = True
        except OSError:
            # Not ours to open (another user's pipe, a socket): ask before each small write.
            self._poll = select.poll()
            self._poll.register(fd, select.POLLOUT)

    def write(self, data: bytes) -> None:
        """Write what fits now."""
        try:
            while data and (self._is_own or self._poll.poll(0)):
                data = data[os.write(self._fd, data if self._is_own else data[:_PIPE_BUF]) :]
        except OSError:
            # Full, or nobody is there: the copy is lost, as promised.
            return

    def say(self, text: str) -> None:
        """One line of our own log."""
        line = "agent: " + " ".join(text.split())
        self.write(line.encode("utf-8", "backslashreplace") + b"\n")
