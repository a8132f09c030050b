"""The broker's unix socket: shims, host discovery and PID 1 of the launcher.

Frames go to brokering.py, and what is to be sent comes back by `Wires`. Anything in the pod may
connect: who breaks a rule is told which and cut off, and nobody else suffers.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

from et_contract import frames
from et_contract.frames import ProtocolError
from launcher.broker.brokering import Broker
from launcher.broker.logging import log
from launcher.broker.wiring import Wires

BACKLOG = 1024
"""All slots of a large job may connect at once."""
FRAMES_A_TURN = 64
"""Of one connection; then all others have theirs. What is read at once holds thousands."""


@asynccontextmanager
async def serve(
    path: Path, broker: Broker, wires: Wires, touch: Callable[[], None]
) -> AsyncIterator[None]:
    """Answer on the socket at `path`, which is replaced when it is there; raises OSError."""
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(
        lambda: Connection(broker, wires, touch), sock=bind(path), backlog=BACKLOG
    )
    try:
        yield
    finally:
        server.close()
        wires.hang_up_all()


def bind(path: Path) -> socket.socket:
    """The socket in the place of an earlier one; raises OSError."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    # The user's container may run as anybody; nobody else can see this folder.
    path.chmod(0o666)
    return listener


class Connection(asyncio.Protocol):
    """One connection: frames in, frames out through `Wires`."""

    def __init__(self, broker: Broker, wires: Wires, touch: Callable[[], None]) -> None:
        self._broker = broker
        self._wires = wires
        self._touch = touch
        self._decoder = frames.Decoder()
        self._peer = 0
        self._has_news = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 (of a unix socket it is)
        self._transport = transport
        self._peer = self._wires.add_peer(transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self._decoder.feed(data)
        self._take_turn()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio. However it came, the other side may come back."""
        if exc is not None:
            log.info("connection broke", peer=self._peer, reason=str(exc))
        self._wires.remove_peer(self._peer)
        self._broker.lose_peer(self._peer, asyncio.get_running_loop().time())
        self._touch()

    # ------------------------------------------------------------ inside

    def _take_turn(self) -> None:
        """Take what has come. Where that is much, no more is read before the rest has its turn."""
        transport = self._transport
        if transport is None or transport.is_closing():
            self._tell_news()
            return
        taken = 0
        try:
            for frame in islice(self._decoder, FRAMES_A_TURN):
                self._broker.take_peer_frame(self._peer, frame, asyncio.get_running_loop().time())
                self._has_news = self._has_news or frame.type != frames.ACK
                taken += 1
                if transport.is_closing():
                    break
        except ProtocolError as error:
            self._refuse(str(error))
        except Exception:
            transport.abort()  # as asyncio does for what it calls itself: a shim comes back then
            raise
        self._wires.note_unfinished(self._peer, self._decoder.unfinished)
        if taken == FRAMES_A_TURN:
            transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._take_turn)
            return
        transport.resume_reading()
        self._tell_news()

    def _tell_news(self) -> None:
        if self._has_news:
            self._has_news = False
            self._touch()

    def _refuse(self, reason: str) -> None:
        """Who breaks a rule is told which, and cut off."""
        log.warning("connection refused", peer=self._peer, reason=reason)
        self._wires.to_peer(self._peer, frames.encode_json(frames.REJECT, {"reason": reason}))
        self._wires.hang_up(self._peer)
