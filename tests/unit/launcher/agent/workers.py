"""A real agent, started as PID 1 starts it, by the Python that $PYTHON names (else this one)."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from et_contract import frames, paths
from et_operator.assembly import read_runtime
from et_operator.settings import Settings
from launcher.protocol.claims import Claim

PYTHON = os.environ.get("PYTHON", sys.executable)
ROOT = Path(__file__).parents[4]
SHIPPED = read_runtime(Settings(broker_image="broker"))
PATIENCE = 20.0


class Peer:
    """A broker's end of one connection, over a socket or a bridge."""

    def __init__(
        self, source: Any, send: Callable[[bytes], object], end: Callable[[], None]
    ) -> None:
        self.source, self.send, self.close = source, send, end
        self.decoder = frames.Decoder()
        self.queue: list[frames.Frame] = []

    def say(
        self, kind: int, body: dict[str, Any] | None = None, session: bytes = frames.NO_SESSION
    ) -> None:
        self.send(frames.encode_json(kind, body, session))

    def read(self) -> bool:
        """Take what comes; False at the end."""
        assert select.select([self.source], [], [], PATIENCE)[0], "nothing comes"
        try:
            data = os.read(self.source.fileno(), 65536)
        except ConnectionResetError:
            return False
        self.decoder.feed(data)
        self.queue += list(self.decoder)
        return bool(data)

    def expect(self, kind: int) -> dict[str, Any]:
        """The body of the next frame of this kind; others stay where they are."""
        while True:
            for frame in self.queue:
                if frame.type == kind:
                    self.queue.remove(frame)
                    return frames.decode_json(frame)
            assert self.read(), f"the connection ends without {frames.NAMES[kind]}"

    def expect_end(self) -> None:
        while self.read():
            pass

    def hello(self, connection: int = 1, **changes: Any) -> Peer:
        body = {"job": "j", "pod": "p", "epoch": 3, "launcher": "l", "brokerStart": 0}
        self.say(frames.HELLO, {**body, "connection": connection, **changes})
        return self

    def spawn(self, command: str, env: dict[str, str] | None = None) -> Claim:
        claim = Claim(session=os.urandom(16), host="w", command=command, env=env)
        self.send(claim.opening())
        return claim

    def start(self, command: str) -> tuple[Claim, dict[str, Any]]:
        claim = self.spawn(command)
        return claim, self.expect(frames.SPAWNED)

    def serve(self, claim: Claim) -> tuple[bytes, bytes]:
        """Write what comes for this claim: what it wrote so far, [stdout, stderr]."""
        written = {1: b"", 2: b""}
        for frame in [f for f in self.queue if f.session == claim.session]:
            self.queue.remove(frame)
            claim.receive(frame)
        for channel in frames.CHANNELS:
            while claim.unwritten(channel):
                data = bytes(claim.unwritten(channel))
                written[channel] += data
                claim.wrote(channel, len(data))
        if answer := claim.outgoing():
            self.send(answer)
        return written[1], written[2]

    def finish(self, claim: Claim) -> tuple[int, bytes, bytes]:
        """Serve until the claim leaves: (code, stdout, stderr)."""
        written = [self.serve(claim)]
        while claim.exit_code is None:
            assert self.read(), "the connection ends before the session"
            written.append(self.serve(claim))
        out, err = (b"".join(parts) for parts in zip(*written, strict=True))
        return claim.exit_code, out, err

    def run(self, command: str, env: dict[str, str] | None = None) -> tuple[int, bytes, bytes]:
        return self.finish(self.spawn(command, env))

    def wait_for(self, claim: Claim, text: bytes) -> bytes:
        """Serve until the session has written `text`; what it wrote."""
        out = self.serve(claim)[0]
        while text not in out:
            assert self.read()
            out += self.serve(claim)[0]
        return out


class Worker:
    """One agent; `log` is its stderr."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "src").mkdir()
        for path, text in SHIPPED.files.items():
            (folder / "src" / path.replace("/", paths.SLASH)).write_text(text)
        (folder / "run").mkdir()
        self.path = str(folder / "run" / "agent.sock")
        self.log_path = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.others: list[Any] = []

    def start(self, *command: str, prefix: tuple[str, ...] = (), **changes: str) -> Worker:
        env = {**os.environ, "EDL_JOB_UID": "j", "EDL_POD_UID": "p", "EDL_EPOCH": "3"}
        env.update({"EDL_GRACE_SECONDS": "60", **changes})
        boot = str(self.folder / "src" / Path(paths.BOOT).name)
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*prefix, PYTHON, "-I", "-S", boot, "agent", "--", *command],
                stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, env=env,
                cwd=self.folder,
            )  # fmt: skip
        return self

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def connect(self) -> Peer:
        """A connection to the socket, without a bridge."""
        sock = socket.socket(socket.AF_UNIX)
        self.wait_until(lambda: Path(self.path).exists())
        sock.connect(self.path)
        self.others.append(sock)
        return Peer(sock, sock.sendall, sock.close)

    def bridge(
        self, *arguments: str, script: Path | None = None
    ) -> tuple[Peer, subprocess.Popen[bytes]]:
        """The program that exec starts, from where it is mounted."""
        if script is None:
            script = self.folder / "src" / Path(paths.BRIDGE).name
            arguments = arguments or (self.path,)
        self.wait_until(script.exists)
        process = subprocess.Popen(
            [PYTHON, "-I", "-S", str(script), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.others.append(process)
        assert process.stdin
        descriptor = process.stdin.fileno()

        def send(data: bytes) -> None:
            while data:
                data = data[os.write(descriptor, data) :]

        return Peer(process.stdout, send, process.stdin.close), process

    def hello(self, connection: int = 1, **changes: Any) -> Peer:
        peer = self.connect().hello(connection, **changes)
        peer.expect(frames.WELCOME)
        return peer

    def wait_until(self, is_so: Callable[[], object]) -> None:
        """Poll what cannot be waited for otherwise."""
        for _ in range(int(PATIENCE / 0.01)):
            if is_so():
                return
            assert self.process is None or self.process.poll() is None, self.log
            select.select([], [], [], 0.01)
        pytest.fail(f"it does not come to pass; log:\n{self.log}")

    def wait(self) -> int:
        assert self.process
        return self.process.wait(PATIENCE)

    def terminate(self) -> None:
        assert self.process
        self.process.terminate()

    def close(self) -> None:
        for other in self.others:
            if isinstance(other, subprocess.Popen):
                other.kill()
                with other:
                    pass
            else:
                other.close()
        if self.process:
            self.process.kill()
            with self.process:
                pass
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and self._is_left_behind(entry):
                os.kill(int(entry.name), signal.SIGKILL)

    def _is_left_behind(self, entry: Path) -> bool:
        try:
            return (entry / "cwd").readlink() == self.folder
        except OSError:
            return False
