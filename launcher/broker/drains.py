"""All draining members of a job: what each is to be asked now, in one pass over the job.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from et_contract.documents import MemberState
from launcher.broker.draining import Drain, Sight, Step
from launcher.broker.facts import Ledger
from launcher.broker.hosts import HostList
from launcher.broker.relaying import Relay
from launcher.broker.sessions import count_ranks


class Drains:
    """What has been seen of each, and what follows.

    Args:
        hosts: the list and its members.
        ledger: who has closed.
        relay: what runs.
        told: uids of whom a broker before us knew that they have been told to leave.
    """

    def __init__(self, hosts: HostList, ledger: Ledger, relay: Relay, told: frozenset[str]) -> None:
        self._hosts = hosts
        self._ledger = ledger
        self._relay = relay
        self._before = told
        self._drains: dict[str, Drain] = {}

    @property
    def told(self) -> frozenset[str]:
        """Uids whose ends proved that they know of it; of those not read of yet, as before."""
        ended = {uid for uid, drain in self._drains.items() if drain.has_ended}
        return self._before.difference(self._drains).union(ended)

    def add(self, uid: str) -> None:
        """This member must leave."""
        self._drains.setdefault(uid, Drain(uid in self._before))

    def keep_only(self, uids: Container[str]) -> None:
        """Of others nobody speaks any more."""
        self._before = frozenset(uid for uid in self._before if uid in uids)
        self._drains = {uid: drain for uid, drain in self._drains.items() if uid in uids}

    def disarm(self, uid: str) -> None:
        """The stream ended, or something that is no rank was started there."""
        if uid in self._drains:
            self._drains[uid].disarm()

    def note_end(self, uid: str) -> None:
        """A rank ended there."""
        if uid in self._drains:
            self._drains[uid].note_end(self._hosts.leaving[uid])

    def note_spawn(self, uid: str, now: float) -> None:
        """The SPAWN of a rank went there."""
        if uid in self._drains:
            self._drains[uid].note_spawn(self._hosts.leaving[uid], now)

    def decide(
        self, connected: Container[str], now: float, *, has_begun: bool
    ) -> list[tuple[str, Step]]:
        """The steps that are due, ASK and CLOSE; they are to be taken at once."""
        steps: list[tuple[str, Step]] = []
        for uid, drain, sight in self._look(connected, has_begun=has_begun):
            step = drain.decide(sight, now)
            drain.is_asked = drain.is_asked or step is Step.ASK
            if step is not Step.WAIT:
                steps.append((uid, step))
        return steps

    def due(self, connected: Container[str], *, has_begun: bool) -> float | None:
        """When `decide` has something to do."""
        seen = self._look(connected, has_begun=has_begun)
        times = [drain.due(sight) for _, drain, sight in seen]
        return min((time for time in times if time is not None), default=None)

    # ------------------------------------------------------------ inside

    def _look(
        self, connected: Container[str], *, has_begun: bool
    ) -> Iterator[tuple[str, Drain, Sight]]:
        uids = list(self._select())
        starting = self._count_starting() if uids else 0
        for uid in uids:
            was_offered = self._hosts.was_offered(uid)
            is_claimed = self._relay.is_busy(uid)
            leaving = self._hosts.leaving[uid]
            is_connected = uid in connected
            sight = Sight(leaving, is_connected, was_offered, is_claimed, starting, has_begun)
            yield uid, self._drains[uid], sight

    def _select(self) -> Iterable[str]:
        closed, members = self._ledger.report.closed, self._hosts.members
        for uid in self._drains:
            if members[uid].state is MemberState.DRAINING and uid not in closed:
                yield uid

    def _count_starting(self) -> int:
        """Slots of the job, as horovodrun knows it, that have no process (yet)."""
        closed = self._ledger.report.closed
        ranks = count_ranks(self._relay.find_running())
        return sum(
            max(0, member.slots - ranks[member.uid])
            for member in self._hosts.members.values()
            if member.state is not MemberState.GONE
            and member.uid not in closed
            and self._hosts.was_offered(member.uid)
        )
