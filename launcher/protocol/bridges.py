"""The connections to an agent, and the one of them that commands.

A bridge is admitted by its HELLO (fences.py) and commands once it has its WELCOME; whoever was
there before is closed. Any frame is a sign of life; without one a bridge is closed.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from et_contract import frames
from et_contract.frames import Frame
from launcher.protocol import transitions
from launcher.protocol.effects import Hang, Send
from launcher.protocol.fences import Fence
from launcher.protocol.transitions import CONNECTION, step, step_frame

HELLO_SECONDS = 10.0
"""A bridge that has not said HELLO by then is closed."""


class _Bridge:
    def __init__(self, connection: int, now: float) -> None:
        self.connection = connection
        self.state = transitions.NEW
        self.heard = now

    @property
    def patience_ends(self) -> float:
        is_new = self.state == transitions.NEW
        return self.heard + (HELLO_SECONDS if is_new else frames.DEAD_SECONDS)


class Bridges:
    """Effects are appended to `effects`; `now` is a monotonic time in seconds."""

    def __init__(self, fence: Fence, effects: List[Any]) -> None:
        self._fence = fence
        self._effects = effects
        self._bridges: Dict[int, _Bridge] = {}
        self._newest: Optional[_Bridge] = None
        """The one that was admitted; it commands once it is HOLDING."""

    @property
    def epoch(self) -> int:
        """The epoch of the launcher that is obeyed."""
        return self._fence.epoch

    @property
    def holder(self) -> Optional[int]:
        """The connection that commands; None while there is none."""
        newest = self._newest
        if newest is None or newest.state != transitions.HOLDING:
            return None
        return newest.connection

    def connected(self, connection: int, now: float) -> None:
        """A bridge has come."""
        self._bridges[connection] = _Bridge(connection, now)

    def disconnected(self, connection: int) -> None:
        """A bridge has gone; an unknown one is none."""
        bridge = self._bridges.pop(connection, None)
        if bridge is not None and bridge is self._newest:
            self._newest = None

    def drop(self, connection: int, reason: str, *, is_fenced: bool = False) -> None:
        """End a connection, and say why."""
        if connection in self._bridges:
            rejection = frames.build_rejection(reason, is_fenced=is_fenced)
            self._effects += [Send(connection, rejection), Hang(connection, reason)]
            self.disconnected(connection)

    def check(self, connection: int, frame: Frame) -> bool:
        """Whether the connection is known; raises ProtocolError for a frame it may not send."""
        bridge = self._bridges.get(connection)
        if bridge is not None:
            step_frame(CONNECTION, bridge.state, frame)
        return bridge is not None

    def heard(self, connection: int, now: float) -> None:
        """A legal frame has come."""
        bridge = self._bridges.get(connection)
        if bridge is not None:
            bridge.heard = now

    def admit(self, connection: int, frame: Frame) -> bool:
        """Take a HELLO; whether it begins a new epoch. Raises ProtocolError to refuse it."""
        bridge = self._bridges[connection]
        state = step_frame(CONNECTION, bridge.state, frame)
        is_new_epoch = self._fence.admit(frames.decode_json(frame))
        if self._newest is not None:
            self.drop(self._newest.connection, "a newer connection has come")
        bridge.state = state
        self._newest = bridge
        return is_new_epoch

    def welcome(self, body: Dict[str, Any]) -> None:
        """Let the admitted bridge command."""
        if self._newest is not None and self._newest.state == transitions.WAITING:
            self._newest.state = step(CONNECTION, self._newest.state, "welcome")
            self.say(frames.WELCOME, body)

    def refuse(self, reason: str) -> None:
        """Tell the admitted bridge that its launcher is never obeyed here."""
        if self._newest is not None:
            self.drop(self._newest.connection, reason, is_fenced=True)

    def say(self, kind: int, body: Dict[str, Any], session: bytes = frames.NO_SESSION) -> None:
        """Send to who commands; without one, WELCOME will tell the next."""
        self.send(frames.encode_json(kind, body, session))

    def send(self, data: bytes) -> None:
        """Send a frame that is encoded already."""
        if self.holder is not None:
            self._effects.append(Send(self.holder, data))

    def reply(self, connection: int, data: bytes) -> None:
        """Answer this very connection."""
        self._effects.append(Send(connection, data))

    def deadline(self) -> Optional[float]:
        """When `tick` is due; None: never."""
        return min((bridge.patience_ends for bridge in self._bridges.values()), default=None)

    def tick(self, now: float) -> None:
        """Close who was silent for too long."""
        for bridge in list(self._bridges.values()):
            if now >= bridge.patience_ends:
                silence = now - bridge.heard
                self.drop(bridge.connection, f"no frame for {silence:.0f} s")
