"""What the broker keeps of each session: enough to go on after a cut, and no output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from launcher.protocol import frames
from launcher.protocol.frames import Frame, ProtocolError


@dataclass(slots=True)
class Flow:
    """One output stream on its way to a shim; all are bytes since the stream's start."""

    received: int = 0
    """Acknowledged."""
    skipped: int = 0
    """Where the last loss ended: an agent need not wait for its acknowledgement."""
    passed: int = 0
    """Come from the agent for the shim's present connection, or acknowledged."""

    def acknowledge(self, offset: int) -> None:
        """The shim has written what came before `offset`, be it from an earlier connection.

        Then the agent goes on from there, and this is where we expect it.
        """
        self.received = max(self.received, offset)
        self.passed = max(self.passed, offset)

    def take(self, frame: Frame) -> bool:
        """Count DATA or DROPPED; whether the shim lacks it. Raises ProtocolError."""
        if frame.offset > self.passed:
            # Sent before the agent heard that the shim has come back: it will be sent again.
            return False
        if frame.type == frames.DROPPED:
            end = frames.decode_json(frame).get("to")
            if type(end) is not int or not frame.offset <= end <= frames.MAX_OFFSET:
                raise ProtocolError(f"DROPPED to {end!r}")
            self.skipped = max(self.skipped, end)
        else:
            end = frame.offset + len(frame.payload)
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
    is_sent: bool = False
    """The agent may have got the SPAWN."""
    instance: str = ""
    flows: dict[int, Flow] = field(default_factory=dict)
    """By stream."""
    window: int = 0
    """Bytes that its agent may send ahead, see windows.py; 0 before it was told."""
    most_window: int = frames.WINDOW
    """What its shim takes at most."""
    round_at: float = 0.0
    """When the present round trip began, and what was acknowledged then."""
    round_from: int = 0
    ending: int | None = None
    """The last signal that should end it."""
    is_exited: bool = False
    alone_until: float | None = None
    """Without a shim: when the next step to its end is due."""
    is_given_up: bool = False
    """No shim will come for it: we acknowledge in its place."""

    def __post_init__(self) -> None:
        self.go_on_from(dict.fromkeys(frames.STREAMS, 0))

    def go_on_from(self, received: dict[int, int]) -> None:
        """A connection of its shim opens: so much of each stream is there already."""
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

    def encode_signal(self, number: int) -> bytes:
        """SIGNAL."""
        return frames.encode_json(frames.SIGNAL, {"signal": number}, self.id)

    def acknowledge(self) -> bytes:
        """ACKs for all that has come, in the place of a shim that never will."""
        frames_ = bytearray()
        for stream, flow in self.flows.items():
            if flow.passed > flow.received:
                flow.received = flow.passed
                frames_ += frames.encode(frames.ACK, self.id, flags=stream, offset=flow.passed)
        return bytes(frames_)
