"""Which SPAWNs are kept, and which an agent is sent: enough to keep it busy, and no more.

The sessions of one worker may be hundreds, each with a command and an environment of any length.
All at once they are more than one stream takes before it is believed dead; so the next is sent
when one before it was answered.
"""

from __future__ import annotations

from launcher.broker.sessions import Session

KEPT = 256 * 1024 * 1024
"""Bytes of all SPAWNs that are not answered: of the largest job 32 KiB for each of 8,192 slots."""
KEPT_STARTS = 16_384
"""So many they may be, however small: each slot of the largest job twice."""
TOO_MANY = (
    f"more than {KEPT // 2**20} MiB of commands and environments, or {KEPT_STARTS} of them, wait "
    "for workers: start fewer processes at once, or with a smaller environment"
)
UNDER_WAY = 4 * 1024 * 1024
"""Bytes of SPAWNs sent to one agent that it has not answered; one alone may be longer."""


class Starts:
    """The SPAWNs that agents have yet to answer: of each pod those sent, and those that wait."""

    def __init__(self) -> None:
        self._sent: dict[str, dict[bytes, int]] = {}
        self._waiting: dict[str, dict[bytes, Session]] = {}
        self._kept: dict[bytes, int] = {}
        self._bytes = 0

    def keep(self, session: Session) -> bool:
        """Keep the session's SPAWN until it is answered; False where all together are too many."""
        size = self._bytes - self._kept.get(session.id, 0) + session.size
        if size > KEPT or len(self._kept) + (session.id not in self._kept) > KEPT_STARTS:
            return False
        self._kept[session.id] = session.size
        self._bytes = size
        return True

    def may_send(self, session: Session) -> bool:
        """Whether this SPAWN may be sent now; from then on it counts. Otherwise it waits."""
        sent = self._sent.setdefault(session.uid, {})
        waiting = self._waiting.setdefault(session.uid, {})
        is_next = not waiting or next(iter(waiting)) == session.id
        is_room = not sent or sum(sent.values()) + session.size <= UNDER_WAY
        if session.id not in sent and not (is_next and is_room):
            waiting[session.id] = session
            return False
        waiting.pop(session.id, None)
        sent[session.id] = session.size
        return True

    def finish(self, session: Session) -> bool:
        """The SPAWN was answered, or is not meant any more: whether another one may now be sent."""
        self._bytes -= self._kept.pop(session.id, 0)
        self._waiting.get(session.uid, {}).pop(session.id, None)
        return self._sent.get(session.uid, {}).pop(session.id, None) is not None

    def withdraw(self, session: Session) -> None:
        """The SPAWN is not meant any more; one that was sent counts until it is answered."""
        if session.id not in self._sent.get(session.uid, {}):
            self.finish(session)

    def next(self, uid: str) -> Session | None:
        """The one that waits longest."""
        return next(iter(self._waiting.get(uid, {}).values()), None)

    def clear(self, uid: str) -> None:
        """The stream has ended: on the next one all are introduced again."""
        self._sent.pop(uid, None)
        self._waiting.pop(uid, None)
