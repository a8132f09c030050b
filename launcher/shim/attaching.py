"""One session of a worker, attached to this process's stdout, stderr, signals and parent."""

from __future__ import annotations

import os
import select
import signal
import stat
from time import monotonic

from launcher import contract
from launcher.protocol import frames
from launcher.shim.connecting import Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional, Tuple

    from launcher.protocol.claims import Claim

PASSED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals that go to the remote process group."""
KILL_AFTER_SECONDS = 30.0
"""From TERM to KILL."""
SPAWN_SECONDS = 120.0
"""What a SPAWN that was never sent waits for the broker; like ssh's ConnectTimeout."""
_FAREWELL_SECONDS = 1.0
_ATOMIC = 4096
"""PIPE_BUF: a pipe that poll calls writable takes this much without blocking."""
_CHUNK = 64 * 1024
"""What a pipe holds: much more in one write would only be copied in vain."""
_CLOSED = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Attachment:
    """Runs a claim until its exit code is known; blocks nowhere but in poll.

    Args:
        claim: the session.
        broker: path of the broker's socket.
        parent: read end of a pipe whose other end only the parent holds.
        signals: read end of the pipe that signal.set_wakeup_fd writes to.
    """

    def __init__(self, claim: Claim, *, broker: str, parent: int, signals: int) -> None:
        self._claim = claim
        self._line = Line(broker)
        self._parent = parent
        self._signals = signals
        self._outputs: Dict[int, int] = {}
        self._sizes: Dict[int, int] = {}
        """Bytes per write that cannot block."""
        for stream, fd in ((frames.STDOUT, 1), (frames.STDERR, 2)):
            self._outputs[stream], self._sizes[stream] = _open_anew(fd)
        self._spawn_until: Optional[float] = monotonic() + SPAWN_SECONDS
        """None once a SPAWN was sent: from then on the process may exist."""
        self._kill_at: Optional[float] = None
        self._late = b""
        """USR1 and the like that came while there was no connection."""
        self._verdict: Optional[int] = None
        """Our own exit code, where the claim's can no longer matter."""
        self._complaint = ""

    def run(self) -> int:
        """Returns the exit code to leave with."""
        while True:
            now = monotonic()
            self._act(now)
            code = self._verdict if self._verdict is not None else self._claim.exit_code
            if code is not None:
                self._farewell()
                return code
            for fd, events in self._poll(now):
                self._dispatch(fd, events)
            self._line.send(self._claim.outgoing(), monotonic())

    def _act(self, now: float) -> None:
        """What the clock asks for."""
        if self._kill_at is not None and now >= self._kill_at:
            self._signal(signal.SIGKILL, now)
            self._kill_at = now + KILL_AFTER_SECONDS
            # Without a parent nobody reads our code, and the broker ends what its shim has left.
            self._verdict = contract.EXIT_GONE if self._parent < 0 else None
        if self._line.due_in(now) == 0 and self._line.connect(now, self._claim.opening()):
            self._spawn_until = None
            self._line.send(self._late, now)
            self._late = b""
        if self._spawn_until is not None and now >= self._spawn_until:
            self._complain(f"no broker in this pod for {SPAWN_SECONDS:.0f} s")
            self._verdict = contract.EXIT_REFUSED

    def _poll(self, now: float) -> list[tuple[int, int]]:
        poll = select.poll()
        for fd in (self._parent, self._signals):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        if self._line.is_open:
            poll.register(self._line.fd, self._line.events)
        for stream, fd in self._outputs.items():
            # With no event asked for, poll still tells when the reader has gone.
            poll.register(fd, select.POLLOUT if len(self._claim.unwritten(stream)) else 0)
        times = [self._line.due_in(now), self._kill_at and self._kill_at - now]
        times.append(self._spawn_until and self._spawn_until - now)
        known = [max(0.0, seconds) for seconds in times if seconds is not None]
        return poll.poll(min(known) * 1000 + 1 if known else None)

    def _dispatch(self, fd: int, events: int) -> None:
        now = monotonic()
        if fd == self._parent:
            self._parent = -1
            self._end(signal.SIGTERM, now)
        elif fd == self._signals:
            for number in os.read(fd, 64):
                self._end(number, now)
        elif fd == self._line.fd:
            self._talk(events, now)
        else:
            for stream in [s for s, output in self._outputs.items() if output == fd]:
                self._write(stream, fd, events, now)

    def _talk(self, events: int, now: float) -> None:
        if events & select.POLLOUT:
            self._line.flush(now)
        if events & ~select.POLLOUT:
            try:
                for frame in self._line.receive(now):
                    self._claim.receive(frame)
            except frames.ProtocolError as error:
                self._line.drop(now)
                self._complain(f"{error}; connecting again")

    def _write(self, stream: int, fd: int, events: int, now: float) -> None:
        data = self._claim.unwritten(stream)
        try:
            if events & select.POLLOUT and len(data):
                self._claim.wrote(stream, os.write(fd, data[: self._sizes[stream]]))
            elif events & _CLOSED:
                self._close(stream, now)
        except BlockingIOError:
            return  # somebody who shares it made it non-blocking: poll says when it goes on
        except OSError:
            self._close(stream, now)

    def _close(self, stream: int, now: float) -> None:
        """Nobody reads it any more. Without a reader of stdout there is no parent either."""
        del self._outputs[stream]
        self._claim.discard(stream)
        if stream == frames.STDOUT:
            self._end(signal.SIGTERM, now)

    def _end(self, number: int, now: float) -> None:
        """A signal for the remote group, from outside or because our own side has gone."""
        if self._spawn_until is not None and number not in (signal.SIGUSR1, signal.SIGUSR2):
            self._verdict = 128 + number  # nothing was ever started
            return
        if number == signal.SIGTERM and self._kill_at is None:
            self._kill_at = now + KILL_AFTER_SECONDS
        self._signal(number, now)

    def _signal(self, number: int, now: float) -> None:
        frame = self._claim.signal(number)
        self._line.send(frame, now)
        if not self._line.is_open and number in (signal.SIGUSR1, signal.SIGUSR2):
            self._late += frame  # the claim itself repeats only what ends a process

    def _complain(self, text: str) -> None:
        """Tell people, once in a row; best effort, for the reader may have gone."""
        if text != self._complaint and frames.STDERR in self._outputs:
            self._complaint = text
            try:
                line = f"edl: {self._claim.host}: {text}\n"
                os.write(2, line.encode("utf-8", "backslashreplace"))
            except OSError:
                self._claim.discard(frames.STDERR)
                del self._outputs[frames.STDERR]

    def _farewell(self) -> None:
        """The acknowledgement of EXIT leaves before we do, if the broker takes it in time."""
        now = monotonic()
        self._line.send(self._claim.outgoing(), now)
        until = now + _FAREWELL_SECONDS
        while not self._line.is_flushed and now < until:
            poll = select.poll()
            poll.register(self._line.fd, select.POLLOUT)
            poll.poll((until - now) * 1000)
            now = monotonic()
            self._line.flush(now)


def _open_anew(fd: int) -> Tuple[int, int]:
    """An output as we write to it, and how much at once.

    A pipe is opened anew, so that O_NONBLOCK is ours alone; where that is not allowed, small
    writes do not block either. Others take what they get.
    """
    try:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return fd, _CHUNK
        return os.open("/proc/self/fd/%d" % fd, os.O_WRONLY | os.O_NONBLOCK), _CHUNK
    except OSError:
        return fd, _ATOMIC
