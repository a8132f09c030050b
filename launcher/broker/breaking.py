"""Which addresses nobody has any more, as agents are told: their ranks may wait for those.

Said is only what is so beyond doubt, whatever becomes of an address later. An agent is told in
answer to its PONG, which has its clock: no worker has the address then, as the config says that we
have read, and whoever gets it afterwards is in no ring that was made before that PONG was sent.
An agent whose PONG has no clock would not understand.

No I/O, no clock: times are monotonic seconds handed in, ours but for an agent's `clock`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from et_contract import frames
from et_contract.documents import Member, MemberState
from launcher.broker.relaying import Wire
from launcher.protocol.bodies import MOST_ADDRESSES


class Breaks:
    """What each agent was told, as long as its stream is open."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._gone: Mapping[str, frozenset[str]] = {}
        """By the uid of a member that is gone: the addresses that it alone had."""
        self._since: Mapping[str, float] = {}
        """When each of these members was first said to be gone, by uid."""
        self._told: dict[str, frozenset[str]] = {}
        """By the uid of an agent: the uids of the gone members that it was told of."""

    def take(self, members: Collection[Member], now: float) -> bool:
        """The operator's word; whether all agents are to be asked for their clocks now."""
        before, self._gone = self._since, find_gone(members)
        self._since = {uid: before.get(uid, now) for uid in self._gone}
        return not self._gone.keys() <= before.keys()

    def answer(self, uid: str, clock: float | None, sent: float | None) -> None:
        """An agent's clock has come: tell it what it has not been told on this stream.

        Not of who has gone since its PING was `sent`: of a ring that was made meanwhile nothing
        would be said.
        """
        if clock is None or sent is None:
            return
        known = frozenset(gone for gone, since in self._since.items() if since <= sent)
        if known <= self._told.get(uid, frozenset()):
            return
        self._told[uid] = known
        addresses = sorted({ip for gone in known for ip in self._gone[gone]})[:MOST_ADDRESSES]
        body = {"addresses": addresses, "before": clock}
        self._wire.to_agent(uid, frames.encode_json(frames.BREAK, body))

    def forget(self, uid: str) -> None:
        """The agent's stream has ended: what was said on it may not have come."""
        self._told.pop(uid, None)


def find_gone(members: Collection[Member]) -> dict[str, frozenset[str]]:
    """By uid, the addresses of each that is gone which none has that lives.

    Nothing where one lives whose addresses are not known: it might be any of these.
    """
    living = [member for member in members if member.state is not MemberState.GONE]
    if not all(member.ips for member in living):
        return {}
    taken = {ip for member in living for ip in member.ips}
    gone = (member for member in members if member.state is MemberState.GONE)
    alone = {member.uid: frozenset(member.ips) - taken for member in gone}
    return {uid: ips for uid, ips in alone.items() if ips}
