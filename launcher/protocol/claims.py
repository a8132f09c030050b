"""The shim's end of a session: what has come, what is written, and with which code to leave.

No I/O, no clock: frames go in, bytes to write and bytes to send come out.

    claim = Claim(session=os.urandom(16), host="job-w-3", command="python train.py")
    loop, for as long as claim.exit_code is None:
        after each connect to the broker:  send claim.opening()
        when the broker has sent bytes:    for frame in decoder: claim.receive(frame)
        for channel in frames.CHANNELS:    data = claim.unwritten(channel)
                                           if data: claim.wrote(channel, os.write(fd, data))
                                           (EPIPE: claim.discard(channel), and end the process)
        send claim.outgoing()
        on a signal:                       send claim.signal(number)
    send claim.outgoing() once more, then leave with claim.exit_code

What it promises, however often connections are cut and wherever:
* Every byte of a channel comes out once and in order. Bytes that the agent had to drop are missing
  as a whole, and a line on stderr says how many.
* Every signal reaches the process once and in order, if it lives to see it.
* A byte is acknowledged when `wrote` (or `discard`) has said so, never before.
* `exit_code` is None until the end is certain and every byte before it was written. It is 0 only
  for an EXIT frame with code 0 after received + dropped = produced.
* At most one window of bytes is held; everything else waits at the agent.

A ProtocolError means: drop this connection and start again with `opening()`; the claim is
unchanged by the frame that raised it.
"""

from __future__ import annotations

from collections import deque, namedtuple

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.protocol.signals import FROM_SHIM, Signals

TYPE_CHECKING = False
if TYPE_CHECKING:  # keeps `typing` out of the start of a worker process
    from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Tuple

    _Span = List[Any]
    """[data not yet written, offset where the channel stands after it or None for our own text]."""

GONE = 137
"""Exit code when the session cannot be heard of any more and no EXIT told better."""

ACK_STEP = frames.WINDOW // 4
"""Bytes written after which an acknowledgement does not wait for more."""


class _Inlet:
    """One channel: `end` has come (or is known to be lost), `safe` is written (or lost)."""

    def __init__(self) -> None:
        self.end = 0
        self.safe = 0
        self.told = 0
        self.discarded = False
        self.spans: Deque[_Span] = deque()

    def add(self, data: bytes) -> None:
        self.end += len(data)
        self._append([memoryview(data), self.end])

    def skip(self, end: int) -> None:
        self.end = end
        self._append([memoryview(b""), end])

    def say(self, text: str) -> None:
        self._append([memoryview(text.encode("utf-8", "backslashreplace")), None])

    def take(self, count: int) -> None:
        """`count` bytes of the first span were written."""
        span = self.spans[0]
        span[0] = span[0][count:]
        if span[1] is not None:
            self.safe = span[1] - len(span[0])
        self.drop_written()

    def drop_written(self) -> None:
        """Let go of what needs no writing."""
        while self.spans and (self.discarded or not self.spans[0][0]):
            end = self.spans.popleft()[1]
            self.safe = self.safe if end is None else end

    def _append(self, span: _Span) -> None:
        self.spans.append(span)
        self.drop_written()


Purpose = namedtuple("Purpose", ["ranks", "blacklists"])
"""What a session is to its starter: how many ranks of an elastic training, 0 for all that nobody
starts because its host is listed; and whether that host is never used again once one has failed."""
GUEST = Purpose(ranks=0, blacklists=False)


class Claim:
    """See the module. `session` is 16 random bytes; `env` is added to the process's environment.

    `window` is how many bytes the agent may send ahead of the acknowledgements at most; the broker
    grants what the way needs.
    """

    def __init__(
        self,
        *,
        session: bytes,
        host: str,
        command: str,
        env: Optional[Mapping[str, str]] = None,
        window: int = frames.MOST_WINDOW,
        purpose: Purpose = GUEST,
    ) -> None:
        self.session = session
        self.host = host
        self.command = command
        self.env = dict(env or {})
        self.window = window
        self.purpose = purpose
        self.instance: Optional[str] = None
        """Of the agent that runs the process, once it is known to have started."""
        self.signals = Signals(session)
        """The signals that have not been delivered yet."""
        self.is_said = False
        """For who connects to set: an opening has left, from then on the process may exist."""
        self._inlets = {channel: _Inlet() for channel in frames.CHANNELS}
        self._outgoing = bytearray()
        self._end: Optional[Tuple[int, Dict[int, int]]] = None
        self._lost: Optional[int] = None
        self._acknowledged = False
        self._handlers: Dict[int, Callable[[Frame], None]] = {
            frames.SPAWNED: self._on_spawned,
            frames.DATA: self._on_data,
            frames.DROPPED: self._on_dropped,
            frames.EXIT: self._on_exit,
            frames.LOST: self._on_lost,
            frames.SIGNALED: self._on_signaled,
            frames.REJECT: self._on_rejected,
        }

    # ------------------------------------------------------------ towards the broker

    def opening(self) -> bytes:
        """What to send first on every new connection, instead of anything queued before.

        SPAWN until the agent is known to have started the process, RESUME ever after: a process
        is started once. Signals that were not delivered follow; where one of them ends what has
        not been started, SPAWN says so, and also that it may have been said before.
        """
        del self._outgoing[:]
        if self.instance is None:
            body: Dict[str, Any] = {"host": self.host, "command": self.command}
            body.update(env=self.env, window=self.window, **self._tell_purpose())
            if self.is_said:
                body["again"] = True
            if self.signals.ending is not None:
                body["ending"] = self.signals.ending
            opening = frames.encode_json(frames.SPAWN, body, self.session)
        else:
            for inlet in self._inlets.values():
                inlet.told = inlet.safe
            opening = frames.encode_json(frames.RESUME, self._position(), self.session)
        opening += self.signals.encode()
        self._acknowledged = False
        self._acknowledge_exit()
        return opening

    def signal(self, number: int) -> bytes:
        """The frame that passes signal `number` to the process group of the session.

        Without a connection it need not be sent: the next opening has it.
        """
        return self.signals.add(number)

    def outgoing(self) -> bytes:
        """Acknowledgements to send now; forgotten once taken."""
        taken = bytes(self._outgoing)
        del self._outgoing[:]
        return taken

    # ------------------------------------------------------------ from the broker

    def receive(self, frame: Frame) -> None:
        """Take one frame of the broker; raises ProtocolError, then nothing has changed."""
        if frame.type not in self._handlers:
            raise ProtocolError(f"a shim gets no {frames.NAMES.get(frame.type, frame.type)}")
        if frame.session != self.session and frame.type != frames.REJECT:
            raise ProtocolError("a frame of another session")
        self._handlers[frame.type](frame)
        self._acknowledge_exit()

    def _on_rejected(self, frame: Frame) -> None:
        reason = frames.decode_json(frame).get("reason")
        raise ProtocolError(f"rejected: {reason}")

    def _on_spawned(self, frame: Frame) -> None:
        instance = frames.decode_json(frame).get("instance")
        if not isinstance(instance, str) or not instance:
            raise ProtocolError("SPAWNED without an instance")
        if self.instance not in (None, instance):
            raise ProtocolError(f"SPAWNED by {instance} after {self.instance}")
        self.instance = instance

    def _on_data(self, frame: Frame) -> None:
        inlet = self._inlet(frame)
        if frame.offset > inlet.end:
            raise ProtocolError(f"DATA at {frame.offset} leaves a gap after {inlet.end}")
        known = inlet.end - frame.offset
        if known < len(frame.payload):
            self._check_end(frame.flags, frame.offset + len(frame.payload))
            inlet.add(frame.payload[known:])
        # A copy of what has come already asks where we stand.
        self._tell(frame.flags, again=known > 0)

    def _on_dropped(self, frame: Frame) -> None:
        inlet = self._inlet(frame)
        end = frames.decode_json(frame).get("to")
        if type(end) is not int or not frame.offset <= end <= frames.MAX_OFFSET:
            raise ProtocolError("DROPPED without its end")
        if frame.offset > inlet.end:
            raise ProtocolError(f"DROPPED at {frame.offset} leaves a gap after {inlet.end}")
        if end > inlet.end:
            self._check_end(frame.flags, end)
            name = "stdout" if frame.flags == frames.STDOUT else "stderr"
            self._say(f"{end - inlet.end} bytes of {name} were dropped while it was out of reach")
            inlet.skip(end)
        self._tell(frame.flags, again=True)

    def _on_exit(self, frame: Frame) -> None:
        body = frames.decode_json(frame)
        code = body.get("code")
        produced = frames.decode_counts(frame, body, "produced")
        if type(code) is not int or not 0 <= code <= 255:  # noqa: PLR2004 (an exit status)
            raise ProtocolError(f"EXIT with code {code!r}")
        if self._end not in (None, (code, produced)):
            raise ProtocolError(f"EXIT says {code}, {produced} after {self._end}")
        if any(inlet.end > produced[channel] for channel, inlet in self._inlets.items()):
            raise ProtocolError("EXIT counts fewer bytes than have come")
        reason = str(body.get("reason"))
        if self._end is None and reason.startswith(frames.NOT_STARTED):
            self._say(reason)
        self._end = (code, produced)

    def _on_lost(self, frame: Frame) -> None:
        body = frames.decode_json(frame)
        code = body.get("code")
        if self._lost is None and not self.is_complete:
            self._say(str(body.get("reason") or "the session is lost"))
        # Whatever the frame says: a loss is never a success.
        self._lost = code if type(code) is int and 0 < code < 256 else GONE  # noqa: PLR2004 (same)

    def _on_signaled(self, frame: Frame) -> None:
        if frame.flags == FROM_SHIM:
            self.signals.confirm(frame.offset)

    # ------------------------------------------------------------ towards our own stdout and stderr

    def unwritten(self, channel: int) -> memoryview:
        """The next bytes for this channel; empty when there are none."""
        spans = self._inlets[channel].spans
        view: memoryview = spans[0][0] if spans else memoryview(b"")
        return view

    def wrote(self, channel: int, count: int) -> None:
        """write(2) took the first `count` bytes of `unwritten(channel)`."""
        if count:
            self._inlets[channel].take(count)
            self._tell(channel)
            self._acknowledge_exit()

    def discard(self, channel: int) -> None:
        """Nobody reads this channel any more: its bytes count as written from now on."""
        inlet = self._inlets[channel]
        inlet.discarded = True
        inlet.drop_written()
        self._tell(channel)
        self._acknowledge_exit()

    # ------------------------------------------------------------ the end

    @property
    def is_complete(self) -> bool:
        """The process has ended and every byte of it has come or is known to be lost."""
        if self._end is None:
            return False
        produced = self._end[1]
        return all(inlet.end == produced[channel] for channel, inlet in self._inlets.items())

    @property
    def exit_code(self) -> Optional[int]:
        """With what to leave; None while the process may live or bytes are still unwritten."""
        if any(inlet.spans for inlet in self._inlets.values()):
            return None
        if self._end is not None and self.is_complete:
            return self._end[0]
        if self._lost is not None:
            return (self._end[0] if self._end else 0) or self._lost
        return None

    # ------------------------------------------------------------ inside

    def _position(self) -> Dict[str, Any]:
        received = [self._inlets[channel].safe for channel in frames.CHANNELS]
        return {
            "host": self.host,
            "instance": self.instance,
            "received": received,
            "window": self.window,
            **self._tell_purpose(),
        }

    def _tell_purpose(self) -> Dict[str, Any]:
        return {name: value for name, value in self.purpose._asdict().items() if value}

    def _inlet(self, frame: Frame) -> _Inlet:
        if frame.flags not in self._inlets:
            raise ProtocolError(f"no channel {frame.flags}")
        return self._inlets[frame.flags]

    def _check_end(self, channel: int, end: int) -> None:
        if self._end is not None and end > self._end[1][channel]:
            raise ProtocolError("more bytes than EXIT has counted")

    def _say(self, text: str) -> None:
        self._inlets[frames.STDERR].say(f"edl: {self.host}: {text}\n")

    def _tell(self, channel: int, *, again: bool = False) -> None:
        """Acknowledge: when all is written, or ACK_STEP of it."""
        inlet = self._inlets[channel]
        news = inlet.safe - inlet.told
        if again or (news and (not inlet.spans or news >= ACK_STEP)):
            inlet.told = inlet.safe
            self._outgoing += frames.encode(
                frames.ACK, self.session, flags=channel, offset=inlet.safe
            )

    def _acknowledge_exit(self) -> None:
        if self._end is not None and self.exit_code is not None and not self._acknowledged:
            self._acknowledged = True
            self._outgoing += frames.encode(frames.EXIT_ACK, self.session)
