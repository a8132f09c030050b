"""Sessions whose shim is away: it comes back soon, or they are ended in its place.

First TERM, unless its shim has said that already; half a minute after it was delivered KILL. What
has ended is acknowledged, so that the agent may let go of it. A shim that is stopped, alone or with
its container, is no shim that has gone: its lock says so (holds.py), and it is waited for.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Callable

from et_contract import frames
from et_contract.frames import Frame
from launcher.broker.sessions import AWAY, TERMED, Session

TERM_SECONDS = 30.0
"""From the delivery of TERM to KILL for a session that nobody wants any more."""
HELD_SECONDS = 5.0
"""Between two looks at the lock of a shim that is waited for."""
LAST_SECONDS = 5.0
"""From TERM to KILL when the user's command has ended, and we shall end soon."""


class Orphans:
    """See the module.

    Args:
        send: queues bytes for the agent of a session, if there is a stream.
        forget: takes a session from all tables, this one too.
        is_held: whether the shim of a session lives.
    """

    def __init__(
        self,
        send: Callable[[Session, bytes], None],
        forget: Callable[[Session], None],
        is_held: Callable[[bytes], bool],
    ) -> None:
        self._is_held = is_held
        self._is_over = False
        self._send = send
        self._forget = forget
        self._sessions: dict[bytes, Session] = {}
        self._term_seconds = TERM_SECONDS

    def add(self, session: Session, until: float) -> None:
        """The session's shim has gone; it is waited for `until` then."""
        session.wait_for_shim(until)
        self._sessions[session.id] = session

    def discard(self, session: Session) -> None:
        """The session's shim has come back, or the session is over."""
        self._sessions.pop(session.id, None)

    def hasten(self, now: float) -> None:
        """No shim will come back: `advance` ends all of them, and soon."""
        self._term_seconds = LAST_SECONDS
        self._is_over = True
        for session in self._sessions.values():
            if session.alone_until is not None:
                wait = LAST_SECONDS if session.care == TERMED else 0.0
                session.alone_until = min(session.alone_until, now + wait)

    def advance(self, now: float) -> None:
        """Do what is due."""
        for session in list(self._sessions.values()):
            if session.alone_until is not None and now >= session.alone_until:
                if session.care == AWAY and not self._is_over and self._is_held(session.id):
                    session.alone_until = now + HELD_SECONDS
                else:
                    self._give_up(session)
            is_told = session.care == TERMED and session.has_heard_all
            if is_told and session.alone_until is None:
                session.alone_until = now + self._term_seconds

    def due(self) -> float | None:
        """When `advance` has something to do."""
        times = [s.alone_until for s in self._sessions.values() if s.alone_until is not None]
        return min(times, default=None)

    def answer(self, session: Session, frame: Frame) -> None:
        """In the place of a shim that is gone for good; one that may come back is waited for."""
        if not session.is_given_up:
            return
        self._send(session, session.acknowledge())
        if frame.type == frames.EXIT:
            self.acknowledge_end(session)

    def acknowledge_end(self, session: Session) -> None:
        """Acknowledge the session's end in the place of its shim; then nobody knows of it."""
        self._send(session, frames.encode(frames.EXIT_ACK, session.id))
        self._forget(session)

    def _give_up(self, session: Session) -> None:
        self._send(session, session.acknowledge())
        if session.is_exited:
            self.acknowledge_end(session)
        else:
            self._send(session, session.give_up())
