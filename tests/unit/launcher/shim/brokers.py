"""The broker of a pod, played by hand over a real unix socket, and programs started to meet it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest

from et_contract import frames

ROOT = Path(__file__).parents[4]
PYTHON = os.environ.get("PYTHON", sys.executable)
"""The Python of the user's container: 3.7 and newer."""
PATIENCE = 20.0
_IPV6 = Path("/proc/net/if_inet6")
needs_ipv6 = pytest.mark.skipif(
    not (_IPV6.exists() and _IPV6.read_text()), reason="this machine has no IPv6"
)


class Start(Protocol):
    """Starts Python code, with sys and our modules at hand, as user containers do: -I -S."""

    def __call__(
        self, code: str, *argv: str | bytes, **options: Any
    ) -> subprocess.Popen[bytes]: ...


class Peer:
    """One connection as the broker sees it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.connection.settimeout(PATIENCE)
        self._decoder = frames.Decoder()
        self._received: list[frames.Frame] = []

    def receive(self) -> frames.Frame | None:
        """The next frame; None at the end of the connection."""
        while not self._received:
            data = self.connection.recv(1 << 16)
            if not data:
                return None
            self._decoder.feed(data)
            self._received += list(self._decoder)
        return self._received.pop(0)

    def expect(self, kind: int) -> frames.Frame:
        """The next frame of this type; ACKs before it are skipped."""
        while True:
            frame = self.receive()
            assert frame is not None, f"connection ended before {frames.NAMES[kind]}"
            if frame.type == kind:
                return frame
            assert frame.type == frames.ACK, f"{frames.NAMES[frame.type]} {frame.payload!r}"

    def body(self, kind: int) -> dict[str, Any]:
        return frames.decode_json(self.expect(kind))

    def confirm(self, *signals: int) -> int:
        """The next SIGNAL, which must be one of these; it is delivered."""
        frame = self.expect(frames.SIGNAL)
        signal: int = frames.decode_json(frame)["signal"]
        assert signal in signals
        self.connection.sendall(
            frames.encode(frames.SIGNALED, frame.session, flags=frame.flags, offset=frame.offset)
        )
        return signal

    def send(self, kind: int, body: dict[str, Any] | None = None, session: bytes = b"\0" * 16):
        self.connection.sendall(frames.encode_json(kind, body, session))

    def send_data(self, session: bytes, data: bytes, *, offset: int = 0, channel: int = 1):
        self.connection.sendall(
            frames.encode(frames.DATA, session, data, flags=channel, offset=offset)
        )

    def close(self) -> None:
        self.connection.close()


class SocketBroker:
    """Listens where the broker would; every test says by hand what it answers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.peers: list[Peer] = []
        self.listener = self._listen()

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.path))
        listener.listen(16)
        listener.settimeout(PATIENCE)
        return listener

    def accept(self) -> Peer:
        self.peers.append(Peer(self.listener.accept()[0]))
        return self.peers[-1]

    def stop(self) -> None:
        self.listener.close()
        for peer in self.peers:
            peer.close()
        self.path.unlink(missing_ok=True)

    def restart(self) -> None:
        self.stop()
        self.listener = self._listen()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill_with_children(process: subprocess.Popen[bytes]) -> None:
    """Like the end of a container: nothing is left, every child leads a group of its own."""
    process.send_signal(signal.SIGSTOP)  # or it would see its children end
    with suppress(FileNotFoundError):  # it has ended meanwhile
        for child in children_of(process.pid):
            os.killpg(child, signal.SIGKILL)
    process.kill()
    process.wait(PATIENCE)
