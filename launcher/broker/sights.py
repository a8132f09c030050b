"""The lookout: for each draining member, all that decides when its agent is asked to close.

Reads what hosts, ledger and relay know, and remembers what is told of the training's starts;
whether a member's agent is asked to close is decided in departures.py, for which it is looked up
here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping

from et_contract.documents import MemberState
from launcher.broker.departures import Pace, Sight
from launcher.broker.facts import Ledger
from launcher.broker.hosts import HostList
from launcher.broker.relaying import Relay


class Lookout:
    """Looks for what departures are decided by.

    Args:
        hosts: the list and its members.
        ledger: who has closed, told by a broker before us too.
        relay: what runs.
        connected: uids whose agents can be asked.
    """

    def __init__(
        self, hosts: HostList, ledger: Ledger, relay: Relay, connected: Container[str]
    ) -> None:
        self._hosts = hosts
        self._ledger = ledger
        self._relay = relay
        self._connected = connected
        self._most: Counter[str] = Counter()
        """By uid, the most ranks of this training that have run there at once."""
        self._running: Mapping[str, int] = {}
        """By uid, the ranks that run, as they were last counted."""
        self.pace = Pace()
        self.watched_from = 0.0
        """Since when whatever comes is heard as it comes."""

    def note_ranks(self, ranks: Mapping[str, int]) -> None:
        """By uid, the ranks that run now; where none does any more, the next begin a training."""
        if ranks == self._running:
            return
        self._running = ranks
        if not ranks:
            self._most.clear()
            self.pace = Pace()
        for uid, count in ranks.items():
            self._most[uid] = max(self._most[uid], count)

    def forget(self, known: Mapping[str, object]) -> None:
        """Nobody speaks of any pod that is not `known`."""
        for uid in self._most.keys() - known.keys():
            del self._most[uid]

    def look(self) -> Iterator[tuple[str, Sight]]:
        """What each member that drains and has not closed looks like, by uid."""
        closed = self._ledger.report.closed
        uids = [uid for uid in self._hosts.departures.draining if uid not in closed]
        starting, slots = self._count_slots() if uids else (0, 0)
        for uid in uids:
            was_offered = self._hosts.was_offered(uid)
            is_claimed = self._relay.is_busy(uid)
            is_tried = self._most[uid] >= self._hosts.members[uid].slots
            yield (
                uid,
                Sight(
                    uid in self._connected,
                    was_offered,
                    is_claimed,
                    starting,
                    has_begun=self.pace.last_at is not None,
                    late_from=None if is_tried else self.pace.last_at,
                    lag=self.pace.lag,
                    slots=slots,
                    watched_from=self.watched_from,
                ),
            )

    def _count_slots(self) -> tuple[int, int]:
        """Slots of the job, as horovodrun knows it: those without a process (yet), and all."""
        closed = self._ledger.report.closed
        known = [
            member
            for member in self._hosts.members.values()
            if member.state is not MemberState.GONE
            and member.uid not in closed
            and self._hosts.was_offered(member.uid)
        ]
        starting = sum(max(0, member.slots - self._running.get(member.uid, 0)) for member in known)
        return starting, sum(member.slots for member in known)
