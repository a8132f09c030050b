"""One session in a worker: a process that a shim asked for, until its exit is acknowledged.

Its end is told when it is over, which endings.py says, with the code of its first process.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from et_contract import frames
from et_contract.frames import Frame
from et_contract.texts import clean
from launcher.protocol import transitions
from launcher.protocol.endings import Ending
from launcher.protocol.outputs import READ, RING, Output
from launcher.protocol.signals import SENDERS
from launcher.protocol.transitions import SESSION, step, step_frame

REFUSED = 255
GONE = 137
MOST_REASON = 256
"""Characters of why a process did not start: its shim is told no more."""
MOST_LISTED = 80
"""ASCII characters of how a session ended, in its line of WELCOME: all lines fit into a frame."""


class Session:
    """`id` is 16 bytes. Methods named after a frame raise ProtocolError and then change nothing."""

    def __init__(self, session: bytes) -> None:
        self.id = session
        self.state = transitions.ABSENT
        self.output = Output()
        self.pid = 0
        self.code: Optional[int] = None
        self.reason: Optional[str] = None
        self.is_claimed = False
        """By a SPAWN or RESUME on the stream that now holds."""
        self._signaled = dict.fromkeys(SENDERS, 0)
        """By sender, the number of the last signal that came."""
        self.ending = Ending()
        self._is_closing = False

    @property
    def is_alive(self) -> bool:
        """Whether the first process has not been reaped, so that its group may be signalled."""
        return self.state in (transitions.STARTING, transitions.RUNNING)

    @property
    def is_open(self) -> bool:
        """Whether the session's exit is not yet known."""
        return self.is_alive or self.state == transitions.LEFT

    # ------------------------------------------------------------ frames

    def spawn(self, frame: Frame, body: Dict[str, Any]) -> None:
        """The process is being started, for the shim that asked."""
        self.state = step_frame(SESSION, self.state, frame)
        self.output.window = _window(body)
        self.is_claimed = True

    def claim(self, frame: Frame, body: Dict[str, Any], received: Dict[int, int]) -> None:
        """A shim is there (again), and has `received` safe."""
        state = step_frame(SESSION, self.state, frame)
        self.output.resume(received)
        self.output.window = _window(body)
        self.is_claimed = True
        self.state = state

    def acknowledge(self, frame: Frame) -> None:
        """Bytes are safe; with a payload, the window is another from now on."""
        state = step_frame(SESSION, self.state, frame)
        body = frames.decode_json(frame)
        self.output.acknowledge(frame.flags, frame.offset)
        if "window" in body:
            self.output.window = _window(body)
        self.state = state

    def acknowledge_exit(self, frame: Frame) -> bool:
        """Whether the exit is known where it counts: then only a tombstone is kept."""
        self.state = step_frame(SESSION, self.state, frame)
        if self.is_open:
            return False
        self.output.forget()
        return True

    def take_signal(self, frame: Frame) -> bool:
        """Whether this SIGNAL is to be delivered: not when it, or a later one, came before."""
        self.state = step_frame(SESSION, self.state, frame)
        is_new: bool = frame.offset > self._signaled[frame.flags]
        if is_new:
            self._signaled[frame.flags] = frame.offset
        return is_new

    # ------------------------------------------------------------ the process

    def started(self, pid: int) -> None:
        """The process runs as `pid`, which leads its own process group."""
        self.state = step(SESSION, self.state, "started")
        self.pid = pid

    def not_started(self, reason: str) -> None:
        """Nothing was started: that counts as an exit with REFUSED."""
        self.state = step(SESSION, self.state, "not started")
        self.code, self.reason = REFUSED, clean(frames.NOT_STARTED + reason, MOST_REASON)

    def add_output(self, channel: int, data: bytes) -> None:
        """Bytes were read from its pipe."""
        self.state = step(SESSION, self.state, "output")
        self.output.add(channel, data)

    def end_output(self, channel: int) -> None:
        """The pipe of this channel is closed."""
        self.state = step(SESSION, self.state, "output ended")
        self.output.end(channel)
        self.settle()

    def ended(self, code: int, reason: str, now: float) -> None:
        """The session's first process was reaped."""
        self.state = step(SESSION, self.state, "ended")
        self.code, self.reason = code, reason
        self.ending.first_ended(code, now)
        self.settle()

    def swept(self, count: int) -> None:
        """`count` of its processes were found."""
        self.ending.swept(count)
        self.settle()

    def wants_closing(self) -> bool:
        """Whether its pipes are to be closed though somebody holds them; True only once."""
        is_wanted = self.ending.is_hopeless and not self._is_closing and not self.output.is_ended
        self._is_closing = self._is_closing or is_wanted
        return is_wanted

    def wants(self, channel: int) -> bool:
        """Whether its pipe should be read now."""
        if not self.is_claimed:
            return self.output.wants(channel, None)
        # What an ended process has left in its pipes always fits.
        return self.output.wants(channel, self.output.window if self.is_alive else RING - READ)

    def settle(self) -> bool:
        """Whether it has just become over, so that its end may be told."""
        ending = self.ending
        is_over = not ending.is_forced or ending.is_empty or ending.is_hopeless
        if self.state == transitions.LEFT and self.output.is_ended and is_over:
            self.state = step(SESSION, self.state, "settled")
            ending.over()
            return True
        return False

    # ------------------------------------------------------------ what is said of it

    def spawned_frame(self, instance: str) -> bytes:
        """SPAWNED."""
        body = {"pid": self.pid, "instance": instance}
        return frames.encode_json(frames.SPAWNED, body, self.id)

    def signaled_frame(self, sender: int) -> bytes:
        """SIGNALED."""
        number = self._signaled[sender]
        return frames.encode(frames.SIGNALED, self.id, flags=sender, offset=number)

    def exit_frame(self) -> bytes:
        """EXIT."""
        body = {"code": self.code, "produced": self.output.ends, "reason": self.reason}
        return frames.encode_json(frames.EXIT, body, self.id)

    def describe(self) -> Dict[str, Any]:
        """The session's line in WELCOME."""
        return {
            "id": self.id.hex(),
            "state": "running" if self.is_open else "exited",
            "code": None if self.is_open else self.code,
            "reason": None if self.is_open else _shorten(str(self.reason)),
        }


def _shorten(reason: str) -> str:
    return clean(reason, MOST_LISTED).encode("ascii", "replace").decode()


def _window(body: Dict[str, Any]) -> int:
    window = body.get("window")
    wanted = window if type(window) is int else frames.WINDOW
    return max(frames.MAX_DATA, min(wanted, frames.MOST_WINDOW))
