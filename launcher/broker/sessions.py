"""What the broker keeps of each session: enough to go on after a cut, and no output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from typing import Any

from et_contract import frames
from et_contract.frames import Frame, ProtocolError
from launcher.protocol.signals import FROM_BROKER, Signals

_START_BITS = 32
MOST_INSTANCE = 64
"""Characters of an agent's name for itself, which its shims say again."""
MOST_LOSSES = 8
"""Of one stream that an agent may tell of, each time that it is asked to go on."""


@dataclass(slots=True)
class Flow:
    """One output stream on its way to a shim; all are bytes since the stream's start."""

    received: int = 0
    """Acknowledged."""
    skipped: int = 0
    """Where the last loss ended: an agent need not wait for its acknowledgement."""
    passed: int = 0
    """Come from the agent for the shim's present connection, or acknowledged."""
    losses: int = 0
    """That the agent has told of since it was last asked to go on: MOST_LOSSES are heard."""

    def acknowledge(self, offset: int) -> None:
        """The shim has written what came before `offset`, be it from an earlier connection.

        Then the agent goes on from there, and this is where we expect it. Raises ProtocolError.
        """
        if offset > frames.MAX_OFFSET:
            raise ProtocolError(f"ACK of {offset} bytes")
        self.received = max(self.received, offset)
        self.passed = max(self.passed, offset)

    def take(self, frame: Frame) -> bool:
        """Count DATA or DROPPED; whether the shim lacks it. Raises ProtocolError."""
        if frame.offset > self.passed:
            # Sent before the agent heard that the shim has come back: it will be sent again.
            return False
        if frame.type == frames.DROPPED:
            self.losses += 1
            if self.losses > MOST_LOSSES:
                return False
            end = frames.decode_json(frame).get("to")
            if type(end) is not int or not frame.offset <= end <= frames.MAX_OFFSET:
                raise ProtocolError(f"DROPPED to {end!r}")
            self.skipped = max(self.skipped, end)
        else:
            end = frame.offset + len(frame.payload)
            if end > frames.MAX_OFFSET:  # its shim could not say that it has it
                raise ProtocolError(f"DATA up to {end}")
        is_new = end > self.passed
        self.passed = max(self.passed, end)
        return is_new

    @property
    def under_way(self) -> int:
        """Bytes that have come and are not acknowledged."""
        return max(0, self.passed - max(self.received, self.skipped))


@dataclass(slots=True)
class Session:
    """One process in a worker, known by the id that its shim made up."""

    id: bytes
    host: str
    uid: str = ""
    """Of the pod; "" until the config that names the host was read."""
    peer: int | None = None
    """The shim's connection."""
    opening: dict[str, Any] | None = None
    """The body of its SPAWN, until SPAWNED came."""
    ranks: int = 0
    """Of an elastic training, as its shim says: 0 for all that comes and goes without the list of
    hosts, and until its shim has come."""
    is_sent: bool = False
    """The agent may have got the SPAWN, from us or from a broker before us."""
    size: int = 0
    """Bytes of the SPAWN."""
    instance: str = ""
    flows: dict[int, Flow] = field(default_factory=dict)
    """By stream."""
    window: int = 0
    """Bytes that its agent may send ahead, see windows.py; 0 before it was told."""
    most_window: int = frames.WINDOW
    """What its shim takes at most."""
    is_exit_awaited: bool = True
    """Its shim has asked how it stands and was not told of the end."""
    round_at: float = 0.0
    """When the present round trip began, and what was acknowledged then."""
    round_from: int = 0
    signals: Signals = field(init=False)
    """Of its shim, until they are delivered."""
    orders: Signals = field(init=False)
    """Ours, in the place of a shim that is gone."""
    is_told_to_end: bool = False
    """TERM was sent, by its shim or by us: once is enough."""
    ending: int | None = None
    """The last step to its end that we have taken in the place of its shim: TERM or KILL."""
    is_exited: bool = False
    alone_until: float | None = None
    """Without a shim: when the next step to its end is due."""
    is_given_up: bool = False
    """No shim will come for it: we acknowledge in its place."""

    start: InitVar[int] = 1
    """Of the broker: signals of a later one have higher numbers."""

    def __post_init__(self, start: int) -> None:
        self.go_on_from(dict.fromkeys(frames.STREAMS, 0))
        self.signals = Signals(self.id)
        self.orders = Signals(self.id, FROM_BROKER, start << _START_BITS)

    def go_on_from(self, received: dict[int, int]) -> None:
        """A connection of its shim opens: so much of each stream is there already."""
        self.is_exit_awaited = True
        self.flows = {
            stream: Flow(received=count, passed=count) for stream, count in received.items()
        }

    @property
    def received(self) -> int:
        """Bytes acknowledged, of both streams."""
        return sum(flow.received for flow in self.flows.values())

    @property
    def under_way(self) -> int:
        """Bytes that have come and are not acknowledged, of both streams."""
        return sum(flow.under_way for flow in self.flows.values())

    def go_on(self) -> None:
        """Its agent is asked to start it or to go on, and may tell of losses again."""
        for flow in self.flows.values():
            flow.losses = 0

    def find_flow(self, frame: Frame) -> Flow:
        """The stream that a frame is about; raises ProtocolError."""
        flow = self.flows.get(frame.flags)
        if flow is None:
            raise ProtocolError(f"no stream {frame.flags}")
        return flow

    def encode_resume(self, window: int) -> bytes:
        """RESUME, from what is acknowledged."""
        body = {
            "host": self.host,
            "instance": self.instance,
            "received": [self.flows[stream].received for stream in frames.STREAMS],
            "window": window,
        }
        return frames.encode_json(frames.RESUME, body, self.id)

    def encode_window(self) -> bytes:
        """The ACK that says how large the window is now."""
        payload = b'{"window":%d}' % self.window
        offset = self.flows[frames.STDOUT].received
        return frames.encode(frames.ACK, self.id, payload, flags=frames.STDOUT, offset=offset)

    def encode_signals(self) -> bytes:
        """A SIGNAL for each that is not known to be delivered."""
        return self.signals.encode() + self.orders.encode()

    def note(self, frame: Frame) -> bool:
        """What its agent tells of it, but for its output; raises ProtocolError.

        Returns whether its shim waits to hear it. An agent may say anything any number of times,
        and what its shim is sent is not bounded by a window as output is.
        """
        is_news = True
        if frame.type == frames.SPAWNED:
            is_news = self.opening is not None
            self.instance = _read_instance(frame)
            self.opening = None
        elif frame.type == frames.EXIT:
            is_news, self.is_exit_awaited = self.is_exit_awaited, False
            self.is_exited = True
        elif frame.type == frames.SIGNALED:
            signals = self.orders if frame.flags == FROM_BROKER else self.signals
            is_news = signals.confirm(frame.offset)
        return is_news

    @property
    def is_running(self) -> bool:
        """It may have a process."""
        return self.is_sent and not self.is_exited

    @property
    def has_heard_all(self) -> bool:
        """Every signal has been delivered."""
        return not self.signals.is_waiting() and not self.orders.is_waiting()

    def acknowledge(self) -> bytes:
        """ACKs for all that has come, in the place of a shim that never will."""
        frames_ = bytearray()
        for stream, flow in self.flows.items():
            if flow.passed > flow.received:
                flow.received = flow.passed
                frames_ += frames.encode(frames.ACK, self.id, flags=stream, offset=flow.passed)
        return bytes(frames_)


def count_ranks(sessions: Iterable[Session]) -> Counter[str]:
    """By uid of the pods that have any."""
    ranks: Counter[str] = Counter()
    for session in sessions:
        if session.ranks:
            ranks[session.uid] += session.ranks
    return ranks


def _read_instance(frame: Frame) -> str:
    """Raises ProtocolError for one that a shim could not say again."""
    instance = frames.decode_json(frame).get("instance")
    if not isinstance(instance, str) or not 0 < len(instance) <= MOST_INSTANCE:
        raise ProtocolError("SPAWNED without an instance")
    return instance
