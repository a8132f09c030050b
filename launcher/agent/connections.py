"""One bridge: a socket, its unfinished input and its queue of output.

serving.py has one for each bridge. Frames pass through, and none is understood: which bridge
commands, and what may be said on it, is protocol/bridges.py's.
"""

from __future__ import annotations

import socket
from typing import Callable, Iterator, Optional

from et_contract.frames import Decoder, Frame

READ = 64 * 1024
LOW = 64 * 1024
"""Below this much queued, data is taken from the sessions."""
HIGH = 4 * 1024 * 1024
"""More than this is never queued: the peer does not read."""


class Connection:
    """Never blocks; OSError of the socket means that the peer is gone."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.sock = sock
        self.close_at: Optional[float] = None
        """Set when no more is said: what comes in is thrown away until then."""
        self._decoder = Decoder()
        self._queue = bytearray()
        sock.settimeout(0)

    @property
    def has_queued(self) -> bool:
        """Bytes wait for the socket."""
        return bool(self._queue)

    @property
    def is_overfull(self) -> bool:
        """The peer does not read."""
        return len(self._queue) > HIGH

    def receive(self) -> bool:
        """Take what has come; False at its end."""
        try:
            data = self.sock.recv(READ)
        except BlockingIOError:
            return True
        if self.close_at is None:
            self._decoder.feed(data)
        return bool(data)

    def frames(self) -> Iterator[Frame]:
        """The frames that are complete; raises ProtocolError for garbage."""
        return iter(self._decoder)

    def queue(self, data: bytes) -> None:
        """Send later."""
        self._queue += data

    def flush(self, more: Callable[[int], Optional[bytes]]) -> None:
        """Send as much as the socket takes, of the queue and of what `more` brings."""
        while True:
            while len(self._queue) < LOW and self.close_at is None:
                data = more(self.number)
                if data is None:
                    break
                self._queue += data
            if not self._queue:
                return
            try:
                del self._queue[: self.sock.send(self._queue)]
            except BlockingIOError:
                return

    def hang(self, close_at: float) -> None:
        """Say no more, and be closed later: at once would take back what the peer has not read."""
        self.close_at = close_at
        try:
            self.flush(lambda _number: None)
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close_at = 0.0
