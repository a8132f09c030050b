"""How long the pods have that are being deleted, as their agents are told.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Iterable

from et_contract import frames
from et_contract.documents import Member
from launcher.broker.relaying import Wire


class Graces:
    """The end of each pod, from when its deletion was first read of."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._ends: dict[str, float] = {}
        self._graces: dict[str, int] = {}
        """All that the deletion gives, of which an agent knows better how much is over."""

    def take(self, members: Iterable[Member], now: float) -> None:
        """The operator's word; an agent is told what is new or less."""
        before, self._ends, self._graces = self._ends, {}, {}
        for member in members:
            if member.grace_seconds is None:
                continue
            end = now + member.grace_seconds
            self._graces[member.uid] = member.grace_seconds
            self._ends[member.uid] = min(end, before.get(member.uid, end))
            if member.uid not in before or end < before[member.uid]:
                self.tell(member.uid, now)

    def tell(self, uid: str, now: float) -> None:
        """A stream has opened, or there is something new to say on it."""
        if uid in self._ends:
            body = {"seconds": max(0.0, self._ends[uid] - now), "grace": self._graces[uid]}
            self._wire.to_agent(uid, frames.encode_json(frames.GRACE, body))
