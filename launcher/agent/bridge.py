"""A dumb pump between stdin and stdout and the agent's socket: the one command that is exec'd.

Ends when either side does, or when stdin brought nothing for 60 s: a broker pings each 10 s, and
an exec stream that is cut often leaves its process behind. What is started by exec is a script and
not a module, and imports next to nothing, for it stands in the way of every reconnection.
"""

import errno
import os
import select
import socket
import sys
import time

RUN_DIR = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
)
"""Former brokers start the copy, <run dir>/lib/launcher/agent/bridge.py, and name no socket; others
start this file as it is mounted, before anything is copied."""
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 10.0
RETRY_SECONDS = 0.05
CHUNK = 64 * 1024


class Pipe:
    """One direction: reads only when everything read before is written."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.target = target
        self.held = b""

    def read(self) -> bool:
        """Take what has come; False at the end."""
        try:
            self.held = os.read(self.source, CHUNK)
        except OSError as error:
            return error.errno in (errno.EAGAIN, errno.EINTR)
        return bool(self.held)

    def write(self) -> bool:
        """Pass on what fits; False when nobody takes it any more."""
        try:
            self.held = self.held[os.write(self.target, self.held) :]
        except OSError as error:
            return error.errno in (errno.EAGAIN, errno.EINTR)
        return True


def pump(inward: Pipe, outward: Pipe, idle: float) -> str:
    """Until one side ends or nothing came in for `idle` seconds; why it ended."""
    heard = time.monotonic()
    while True:
        reads = [pipe.source for pipe in (inward, outward) if not pipe.held]
        writes = [pipe.target for pipe in (inward, outward) if pipe.held]
        patience = heard + idle - time.monotonic()
        if patience <= 0:
            return "nothing came in"
        readable, writable, _ = select.select(reads, writes, [], patience)
        for pipe, reason in ((inward, "stdin has ended"), (outward, "the agent has closed")):
            if pipe.target in writable and not pipe.write():
                return "one side does not read"
            if pipe.source in readable:
                if not pipe.read():
                    return reason
                if pipe is inward:
                    heard = time.monotonic()


def connect(path: str, patience: float) -> socket.socket:
    """The agent's socket, waited for; raises OSError when it does not appear."""
    deadline = time.monotonic() + patience
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(path)
        except OSError:
            sock.close()
            if time.monotonic() >= deadline:
                raise
            select.select([], [], [], RETRY_SECONDS)
        else:
            return sock


def main(path: str, idle: float = IDLE_SECONDS, patience: float = CONNECT_SECONDS) -> int:
    """0 after a connection, 1 without one."""
    try:
        sock = connect(path, patience)
    except OSError as error:
        sys.stderr.write("bridge: no agent at %s: %s\n" % (path, error))
        return 1
    for fd in (0, 1, sock.fileno()):
        os.set_blocking(fd, False)
    pump(Pipe(0, sock.fileno()), Pipe(sock.fileno(), 1), idle)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(RUN_DIR, "agent.sock")))
