"""One output channel of a session, counted: no byte of it is kept.

A part of a Session. Offsets only grow, whatever an agent or a shim says; what neither can mean is a
ProtocolError. No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from et_contract import frames
from et_contract.frames import Frame, ProtocolError

MOST_LOSSES = 8
"""Of one channel that an agent may tell of, each time that it is asked to go on."""


@dataclass(slots=True)
class Flow:
    """One output channel on its way to a shim; all are bytes since the channel's start."""

    received: int = 0
    """Acknowledged."""
    skipped: int = 0
    """Where the last loss ended: an agent need not wait for its acknowledgement."""
    passed: int = 0
    """Come from the agent for the shim's present connection, or acknowledged."""
    losses: int = 0
    """Told of by the agent since it was last asked to go on: MOST_LOSSES are heard."""

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
