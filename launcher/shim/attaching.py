"""One session of a worker, attached to this process's stdout, stderr, signals and parent.

rsh.py runs one in its child, or in the parent where that was killed. Rules are those of
protocol/claims.py and courses.py; here are the descriptors, one thread, and no wait but in poll.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import stat
import sys
from time import monotonic

from et_contract import frames
from launcher.protocol import courses
from launcher.protocol.signals import Signals
from launcher.protocol.timeouts import bound_wait
from launcher.shim.connecting import Line
from launcher.shim.holding import Hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Tuple

    from launcher.protocol.claims import Claim

ORPHAN_SECONDS = 40.0
"""What a shim without a parent waits for the delivery; the broker ends what it leaves."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A log that has no room left is no reader that has gone: a training does not end for it."""
_FAREWELL_SECONDS = 1.0
_AFTER_ALL = 2**32
"""More signals than any process before us has sent to the session."""
_FIONREAD = 0x541B
"""ioctl(2), of `termios`, which would have to be imported."""
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
        parent: read end of a pipe whose other end only the parent holds; -1 for none.
        signals: read end of the pipe that signal.set_wakeup_fd writes to.
        stdin: where nothing may come from; -1 if it does not matter.
    """

    def __init__(
        self, claim: Claim, *, broker: str, parent: int, signals: int, stdin: int = -1
    ) -> None:
        self._claim = claim
        self._course = courses.Course(claim, monotonic())
        self._line = Line(broker)
        self._hold = Hold(broker)
        self._parent = parent
        self._signals = signals
        self._stdin = stdin
        self._outputs: Dict[int, int] = {}
        self._sizes: Dict[int, int] = {}
        """Bytes per write that cannot block."""
        for channel, fd in ((frames.STDOUT, 1), (frames.STDERR, 2)):
            self._outputs[channel], self._sizes[channel] = _open_anew(fd)
        self._least_code = 0
        """What stands for 0."""
        self._complaint = ""

    def end(self) -> int:
        """End the session in the place of a process that was killed; the exit code, never 0.

        Whatever that process has sent, and whether it has. What it has not written is lost.
        """
        self._course.opened()
        self._claim.signals = Signals(self._claim.session, last=_AFTER_ALL)
        for channel in list(self._outputs):
            self._claim.discard(channel)
            del self._outputs[channel]
        now = monotonic()
        until = now + ORPHAN_SECONDS + courses.KILL_AFTER_SECONDS
        self._course.leave(until, or_with_kill=True)
        self._end(signal.SIGTERM, now)
        return self.run() or frames.EXIT_GONE

    def run(self) -> int:
        """Returns the exit code to leave with."""
        if self._course.code is not None:
            self._complain(self._course.reason)
            return self._course.code
        self._look_at_stdin(monotonic())
        while True:
            now = monotonic()
            self._act(now)
            code = self._claim.exit_code if self._course.code is None else self._course.code
            if code is not None:
                self._farewell()
                self._hold.close()
                return code or self._least_code
            for fd, events in self._poll(now):
                self._dispatch(fd, events)
            self._line.send(self._claim.outgoing(), monotonic())

    def _act(self, now: float) -> None:
        """What the clock asks for."""
        if self._line.due_in(now) == 0 and self._line.connect(now, self._claim.opening()):
            if not self._claim.is_said:
                self._hold.add(self._claim.session)
            self._course.opened()
        self._line.send(self._course.advance(now), now)
        if self._course.reason:
            self._complain(self._course.reason)

    def _poll(self, now: float) -> list[tuple[int, int]]:
        poll = select.poll()
        for fd in (self._parent, self._signals, self._stdin):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        if self._line.is_open:
            poll.register(self._line.fd, self._line.events)
        for channel, fd in self._outputs.items():
            # With no event asked for, poll still tells when the reader has gone.
            poll.register(fd, select.POLLOUT if len(self._claim.unwritten(channel)) else 0)
        due = self._course.due()
        times = (self._line.due_in(now), None if due is None else due - now)
        wait = bound_wait(min((each for each in times if each is not None), default=None))
        return poll.poll(None if wait is None else wait * 1000 + 1)

    def _dispatch(self, fd: int, events: int) -> None:
        now = monotonic()
        if fd == self._parent:
            self._parent = -1
            self._course.leave(now + ORPHAN_SECONDS, or_with_kill=True)
            self._end(signal.SIGTERM, now)
        elif fd == self._signals:
            for number in os.read(fd, 64):
                self._end(number, now)
        elif fd == self._stdin:
            self._look_at_stdin(now)
            self._stdin = -1
        elif fd == self._line.fd:
            self._talk(events, now)
        else:
            for channel in [c for c, output in self._outputs.items() if output == fd]:
                self._write(channel, fd, events, now)

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

    def _write(self, channel: int, fd: int, events: int, now: float) -> None:
        data = self._claim.unwritten(channel)
        try:
            if events & select.POLLOUT and len(data):
                self._claim.wrote(channel, os.write(fd, data[: self._sizes[channel]]))
            elif events & _CLOSED:
                self._close(channel, now)
        except BlockingIOError:
            return  # somebody who shares it made it non-blocking: poll says when it goes on
        except OSError as error:
            if error.errno in FULL:
                self._complain(f"output is lost: {error.strerror}")
                self._claim.wrote(channel, len(data))
            else:
                self._close(channel, now)

    def _look_at_stdin(self, now: float) -> None:
        """What comes in would be lost without a word, and its reader take nothing for all."""
        if self._stdin >= 0 and _count_input(self._stdin):
            self._complain(
                "stdin is not passed on to workers, and something comes in on it: use a volume"
                " for files; ssh -n, or </dev/null, where nothing is meant"
            )
            self._least_code = frames.EXIT_REFUSED
            self._stdin = -1
            self._end(signal.SIGTERM, now)
            if self._course.code is not None:
                self._course.code = frames.EXIT_REFUSED

    def _close(self, channel: int, now: float) -> None:
        """Nobody reads it any more. Without a reader of stdout there is no parent either."""
        del self._outputs[channel]
        self._claim.discard(channel)
        if channel == frames.STDOUT:
            self._end(signal.SIGTERM, now)

    def _end(self, number: int, now: float) -> None:
        """A signal for the remote group, from outside or because our own side has gone."""
        self._line.send(self._course.signal(number), now)

    def _complain(self, text: str) -> None:
        """Tell people, once in a row; best effort: poll says when the reader has gone."""
        fd = self._outputs.get(frames.STDERR, -1)
        if text != self._complaint and fd >= 0:
            self._complaint = text
            try:
                os.write(
                    fd, f"edl: {self._claim.host}: {text}\n".encode("utf-8", "backslashreplace")
                )
            except OSError:
                return  # the log is full, or nobody takes it now

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


def _count_input(fd: int) -> int:
    """Bytes that can be read from a pipe, a socket or a file; 0 for other things."""
    try:
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)):
            return 0
        return int.from_bytes(fcntl.ioctl(fd, _FIONREAD, b"\0" * 4), sys.byteorder)
    except OSError:
        return 0


def _open_anew(fd: int) -> Tuple[int, int]:
    """An output as we write to it, and how much at once.

    A pipe or terminal is opened anew, so that O_NONBLOCK is ours alone; where that is not allowed,
    small writes hardly block either. Others take what they get.
    """
    try:
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
            return fd, _CHUNK
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
        return os.open("/proc/self/fd/%d" % fd, flags), _CHUNK
    except OSError:
        return fd, _ATOMIC
