"""How many bytes each session may have under way: as many as its path needs, out of one pool.

A session gets at most one window per round trip, and through an API server a round trip may take
long. So a session begins with a small window, and whoever is acknowledged nearly a whole one within
a round trip gets a larger one. A slow reader never is, so its window stays small. Half of the pool
is for beginnings, the other half for who needs more; what a session no longer uses is taken back
when others want it.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from et_contract import frames
from et_contract.frames import ProtocolError
from launcher.broker.sessions import Session

POOL = 64 * 1024 * 1024
"""Bytes under way to all shims together; more only where LEAST_WINDOW for each is more."""
LEAST_WINDOW = frames.MAX_DATA
SEARCH_SECONDS = 1.0
"""After a look through all sessions that has not found enough: thousands of them want more at
once, and each look is at thousands."""
IDLE_SECONDS = 10.0
"""A session that was acknowledged nothing for so long gives back what it got beyond its share."""


class Windows:
    """The windows of `sessions`, which is the relay's own table."""

    def __init__(self, sessions: Mapping[bytes, Session]) -> None:
        self._sessions = sessions
        self._expected = 0
        self._granted = 0
        """Sum of all windows."""
        self._round_trips: dict[str, float] = {}
        self._ahead = 0
        """Bytes under way, of all sessions: so many at most, for what was acknowledged since they
        were counted is not taken off."""
        self._search_at = -math.inf
        """Before that nobody is idle who was not."""

    def expect(self, slots: int) -> None:
        """The config was read: `slots` sessions are to come in all, and share the pool."""
        self._expected = slots

    def note_round_trip(self, uid: str, seconds: float) -> None:
        """A frame to this pod was answered; the quickest answer of a stream counts."""
        self._round_trips[uid] = min(seconds, self._round_trips.get(uid, seconds))

    def forget_round_trip(self, uid: str) -> None:
        """The stream has ended; the next one may take another way."""
        self._round_trips.pop(uid, None)

    def open(self, session: Session) -> int:
        """The window for SPAWN or RESUME: after a cut the same as before."""
        window = session.window or min(self._share(), max(self._free(), 0))
        self._grant(session, max(LEAST_WINDOW, min(window, session.most_window)))
        return session.window

    def close(self, session: Session) -> None:
        """The session is over: others may have what it had."""
        self._grant(session, 0)

    def widen(self, session: Session, now: float) -> list[Session]:
        """Bytes were acknowledged: the sessions whose window has changed, this one or idle ones."""
        round_trip = self._round_trips.get(session.uid)
        seconds = now - session.round_at
        if round_trip is None or seconds < round_trip:
            return []
        taken = session.received - session.round_from
        session.round_at, session.round_from = now, session.received
        wanted = min(int(2 * taken * round_trip / max(seconds, 1e-6)), session.most_window)
        if wanted <= session.window:
            return []
        missing = wanted - session.window - self._free()
        changed = self._reclaim(missing, now) if missing > 0 else []
        window = min(wanted, session.window + max(self._free(), 0))
        if window > session.window:
            self._grant(session, window)
            changed.append(session)
        return changed

    def check(self, session: Session, size: int) -> None:
        """`size` bytes have come: raise ProtocolError for an agent that sends too much.

        More than the window is forgiven while the pool has room: the agent may not have heard yet
        that it became smaller. The sessions are thousands, and the pieces may be as small as a
        byte: all are counted when what has come since the last time may have filled the pool, and
        then there is room for one large window more, or none.
        """
        self._ahead += size
        ahead = session.under_way
        if ahead <= session.window:
            return
        is_full = self._ahead > POOL
        if is_full:
            self._ahead = sum(each.under_way for each in self._sessions.values())
            is_full = self._ahead > POOL - frames.MOST_WINDOW
        if ahead > max(session.most_window, session.window) or is_full:
            raise ProtocolError(f"DATA {ahead} bytes ahead of what was acknowledged")

    # ------------------------------------------------------------ inside

    def _share(self) -> int:
        return min(frames.WINDOW, POOL // 2 // max(self._expected, len(self._sessions), 1))

    def _free(self) -> int:
        return POOL - self._granted

    def _grant(self, session: Session, window: int) -> None:
        self._granted += window - session.window
        session.window = window

    def _reclaim(self, missing: int, now: float) -> list[Session]:
        if now < self._search_at:
            return []
        changed = []
        share = max(LEAST_WINDOW, self._share())
        for session in self._sessions.values():
            is_idle = now >= session.round_at + IDLE_SECONDS
            if missing > 0 and is_idle and session.window > share:
                missing -= session.window - share
                self._grant(session, share)
                changed.append(session)
        if missing > 0:
            self._search_at = now + SEARCH_SECONDS
        return changed
