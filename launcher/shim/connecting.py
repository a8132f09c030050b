"""The connection to the broker's unix socket, made again whenever it is lost.

Shims and PID 1 of the launcher have one each. Frames pass through, and none is understood: what has
to be said again on a new connection is its holder's to say.
"""

from __future__ import annotations

import os
import select
import socket

from et_contract import frames

TYPE_CHECKING = False
if TYPE_CHECKING:  # keeps `typing` out of the start of a worker process
    from typing import List, Optional

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
GROWTH = 2.0
"""Seconds between two attempts; doubled each time, back to the first after a frame has come."""
PROMPT_PAUSE = 0.01
PROMPT_GROWTH = 1.1
"""For the one process of a pod that people wait for: its broker, which begins beside it,
is found no later than after a tenth of what it took to begin."""
_CHUNK = 256 * 1024


class Line:
    """Frames to and from the broker; never blocks, never raises for a broker that is away.

    Who holds it polls `fd` for `events`, calls `connect` when `due_in` is 0, `flush` and `receive`
    when poll says so. After a cut what was not sent is forgotten: the holder opens anew.
    """

    def __init__(self, path: str, first: float = FIRST_PAUSE, growth: float = GROWTH) -> None:
        self._path = path
        self._first = first
        self._growth = growth
        self._socket: Optional[socket.socket] = None
        self._decoder = frames.Decoder()
        self._unsent = bytearray()
        self._pause = first
        self._due = 0.0
        self._finishing = False
        self.is_finished = False
        """The broker has read everything that was sent before `finish`."""

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as it is known."""
        return self._socket is not None

    @property
    def is_flushed(self) -> bool:
        """Whether the kernel has taken everything that was sent."""
        return not self._unsent

    @property
    def fd(self) -> int:
        """For poll; -1 without a connection."""
        return self._socket.fileno() if self._socket else -1

    @property
    def events(self) -> int:
        """What to poll `fd` for."""
        return select.POLLIN | (select.POLLOUT if self._unsent else 0)

    def due_in(self, now: float) -> Optional[float]:
        """Seconds until `connect` should be tried; None while there is a connection."""
        return None if self._socket else max(0.0, self._due - now)

    def connect(self, now: float, opening: bytes) -> bool:
        """Try once; on success `opening` is the first thing sent."""
        try:
            self._socket = _connect(self._path)
        except OSError:  # also where there is no descriptor or memory for a socket
            self._wait(now)
            return False
        self.send(opening, now)
        return self._socket is not None

    def send(self, data: bytes, now: float) -> None:
        """Send now what the kernel takes, keep the rest; without a connection: nothing."""
        if self._socket:
            self._unsent += data
            self.flush(now)

    def flush(self, now: float) -> None:
        """Send what was kept."""
        try:
            while self._socket and self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self.drop(now)

    def receive(self, now: float) -> List[frames.Frame]:
        """The frames that have come; raises ProtocolError after dropping the connection."""
        if not self._socket:
            return []
        try:
            data = self._socket.recv(_CHUNK)
            # Had it left anything unread, this were ECONNRESET and not an end.
            self.is_finished = self._finishing and not data
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.drop(now)
            return []
        self._decoder.feed(data)
        try:
            received = list(self._decoder)
        except frames.ProtocolError:
            self.drop(now)
            raise
        if received:
            self._pause = self._first
        return received

    def finish(self) -> None:
        """Nothing more will be sent: the broker sees the end, reads what is there, and closes."""
        if self._socket and not self._finishing:
            self._finishing = True
            try:
                self._socket.shutdown(socket.SHUT_WR)
            except OSError:
                return  # it has closed already: poll is about to say so

    def drop(self, now: float) -> None:
        """End the connection; the next attempt is after a pause."""
        if self._socket:
            self._socket.close()
            self._socket = None
        self._unsent.clear()
        self._finishing = False
        self._decoder = frames.Decoder()
        self._wait(now)

    def _wait(self, now: float) -> None:
        # A broker that restarts meets hundreds of shims: they must not come in step.
        self._due = now + self._pause * (0.5 + os.urandom(1)[0] / 512)
        self._pause = min(self._pause * self._growth, LONGEST_PAUSE)


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(0.0)
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection
