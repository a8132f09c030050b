"""The list of hosts that horovodrun reads: who is on it, and what reading it proves.

The list is *sticky*: a WELCOME puts a host on it once, and only draining, TERMINATING, CLOSED or
gone takes it off. A cut stream, a restart of the broker or of the API server change nothing, for a
host that is missing for one read loses its workers. Additions of one moment are gathered, so that
training is interrupted once and not per host; removals take effect at once. Who was held until
another one leaves is listed by the very config that takes that one off: no reader sees a list
between the two.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from et_contract.documents import AHEAD, HostConfig, Member, MemberState
from et_contract.hosts import Host, format_hosts
from et_contract.pods import read_worker_index
from launcher.broker.departures import Departures

GATHER_SECONDS = 0.3
"""How long the first of several members waits for the others before the training has begun."""
JOIN_SECONDS = 3.0
"""GATHER_SECONDS once the training runs, for workers too that the job wants and that are no members
yet. Two changes of the list within one reset of Horovod are one too many: it forgets the second
(horovod/common/elastic.py, on_reset), and the host then waits for a nudge."""

_STEP = {state: number for number, state in enumerate(MemberState)}
_OVER = frozenset({MemberState.DRAINING, MemberState.GONE})


class Verdict(Enum):
    """What became of a config that was read."""

    TAKEN = "taken"
    STALE = "stale"
    """Of an older generation, epoch, or of another job under our name, or numbered by somebody
    else, far ahead: ignored."""
    FENCED = "fenced"
    """Of a later epoch: another launcher owns the job, and we must do nothing more."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list."""

    uid: str
    name: str
    slots: int


@dataclass(frozen=True, slots=True)
class HostMemory:
    """What must survive a restart of the broker, or a host would be listed or unlisted twice."""

    generation: int = 0
    listed: tuple[Entry, ...] = ()
    """The list as it stands, without a nudge."""
    ever_listed: frozenset[str] = frozenset()
    """Uids; one that was taken off never comes back."""
    offered: frozenset[str] = frozenset()
    """Uids on the list since the user's command started: it may have read them, be it from the
    file while no broker answered."""
    served_generation: int = 0
    nonce: str = ""
    """Made by PID 1, known to the user's command alone."""
    started: bool = False
    """PID 1 was told to start the user's command."""
    ready: frozenset[str] = frozenset()
    """Uids of members that are held and whose agents have answered."""


@dataclass(slots=True)
class HostList:
    """Membership as the config and the agents tell it, and the text made from both."""

    job_uid: str
    epoch: int
    memory: HostMemory = field(default_factory=HostMemory)
    config: HostConfig | None = None
    members: dict[str, Member] = field(default_factory=dict)
    """By uid, in the order of the config; states only ever advance."""
    departures: Departures = field(default_factory=Departures)
    """Of those that must not be listed (any more)."""
    nudge: Host | None = None
    is_fenced: bool = False
    unlisted: frozenset[str] = frozenset()
    """Uids that the last config calls active and that are never listed (again)."""
    joining: dict[str, float | None] = field(default_factory=dict)
    """Uids that came to the list while the user's command ran and have had no rank yet, with when
    it first read a list with them."""
    _used: int = 0
    """A bit for each index of a worker that the user's command can know, for as long as we live."""
    _formatted: tuple[tuple[tuple[Entry, ...], Host | None], str] | None = None
    """The list and the nudge that were last asked for, and their text."""
    _named: dict[str, Member] | None = None
    """The members by their names, once somebody has asked."""
    _welcomed: dict[str, float] = field(default_factory=dict)
    """Uids that may be listed and are not yet, with when they came."""

    def __post_init__(self) -> None:
        if self.memory.started:
            self.joining = {entry.uid: None for entry in self.memory.listed}
            self._note_names()

    # ------------------------------------------------------------ what happens

    def configure(self, config: HostConfig, now: float) -> Verdict:
        """Take what the operator wants. Members that a newer config has forgotten are gone.

        Who must leave is off the list from then on, and departs.
        """
        if config.job_uid != self.job_uid or config.epoch < self.epoch:
            return Verdict.STALE
        if config.epoch > self.epoch or self.is_fenced:
            self.is_fenced = True
            return Verdict.FENCED
        known = self.config.generation if self.config else self.memory.generation
        if config.generation < known or (known and config.generation - known > 2 * AHEAD):
            return Verdict.STALE
        self.config = config
        self._merge(config.members)
        self._remember(generation=config.generation)
        # Not even in the config any more: it went while no broker ran.
        forgotten = [entry.uid for entry in self.memory.listed if entry.uid not in self.members]
        over = [member.uid for member in self.members.values() if member.state in _OVER]
        self.remove(*forgotten, *over)
        self._release(now)
        self.departures.follow(self.members.values(), now)
        self._note_unlisted(config)
        return Verdict.TAKEN

    def welcome(self, uid: str, now: float) -> None:
        """The agent of `uid` answered: its host is proven and will be listed, once."""
        if self._is_listable(uid):
            self._welcomed.setdefault(uid, now)
        elif self._is_held(uid):
            self._remember(ready=self.memory.ready | {uid})

    def remove(self, *uids: str) -> None:
        """Take members off for good: they are draining, terminating, closed or gone."""
        found = {uid: None for uid in uids if uid not in self.departures}
        for uid in found:
            self.departures.unlist(uid)
            self._welcomed.pop(uid, None)
            self.joining.pop(uid, None)
        if found:
            listed = tuple(entry for entry in self.memory.listed if entry.uid not in found)
            self._remember(listed=listed, ready=self.memory.ready.difference(found))

    def gather(self, now: float) -> None:
        """List those who came, when all are there or the first has waited long enough."""
        due = self.due()
        if due is not None and now >= due:
            self._list()

    def register(self, nonce: str) -> None:
        """PID 1 told the nonce with which the user's command will read."""
        self._remember(nonce=nonce)

    def start(self) -> None:
        """PID 1 is told the list and may start the user's command."""
        if not self.memory.started:
            listed = frozenset(entry.uid for entry in self.memory.listed)
            self._remember(started=True, offered=self.memory.offered | listed)
            self._note_names()

    def join(self, uid: str) -> None:
        """A rank was started on this host: the user's command knows of it."""
        self.joining.pop(uid, None)

    def forget(self) -> frozenset[str]:
        """Let go of the pods that the config has forgotten and that have left: which ones.

        From then on their names mean nobody.
        """
        if self.config is None:
            return frozenset()
        named = {member.uid for member in self.config.members}
        over = frozenset(uid for uid in self.departures.left if uid not in named)
        for uid in over:
            self.members.pop(uid, None)
            self._named = None
        self.departures.forget(over, self.members)
        known = frozenset(self.members)
        if not self.memory.ever_listed <= known or not self.memory.offered <= known:
            self._remember(
                ever_listed=self.memory.ever_listed & known, offered=self.memory.offered & known
            )
        return over

    def dismiss_spent(self) -> list[str]:
        """Take off those that the config wants and that can never be listed: etcd was set back.

        The pod is known to be gone, or its name has meant another one to the user's command:
        Horovod never takes a host again that it has lost. Returns their uids.
        """
        wanted = self.config.members if self.config else ()
        active = [member for member in wanted if member.state is MemberState.ACTIVE]
        gone = {uid for uid, member in self.members.items() if member.state is MemberState.GONE}
        spent = [m.uid for m in active if m.uid in gone or self._is_used_by_another(m)]
        self.remove(*spent)
        return spent

    def refuse(self, uid: str) -> None:
        """The agent of `uid` refuses this launcher for good: its host is never listed."""
        if self._is_listable(uid):
            self.remove(uid)
            self.unlisted |= {uid}

    def count_read(self, nonce: str, now: float) -> bool:
        """The present text reached a reader; True when that was the user's command."""
        if not self.is_of_command(nonce):
            return False
        self.joining = {uid: now if at is None else at for uid, at in self.joining.items()}
        self.departures.note_read(now)
        if self.memory.served_generation != self.memory.generation:
            self._remember(served_generation=self.memory.generation)
        return True

    # ------------------------------------------------------------ what is so

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The list; a nudge is the last of it."""
        listed = tuple(Host(entry.name, entry.slots) for entry in self.memory.listed)
        return (*listed, self.nudge) if self.nudge else listed

    @property
    def text(self) -> str:
        """The list as `name:slots` lines."""
        present = self.memory.listed, self.nudge
        if self._formatted is None or self._formatted[0] != present:
            self._formatted = present, format_hosts(self.hosts)
        return self._formatted[1]

    @property
    def is_known(self) -> bool:
        """False before the first config of the job's first broker: there is nothing to serve."""
        return self.config is not None or self.memory.generation > 0

    def find_named(self) -> Mapping[str, Member]:
        """The member that each host name means; of several the newest that is not gone."""
        if self._named is None:
            gone_first = sorted(
                self.members.values(), key=lambda member: member.state is not MemberState.GONE
            )
            self._named = {member.name: member for member in gone_first}
        return self._named

    def is_of_command(self, nonce: str) -> bool:
        """Whether the user's command asks: nobody else knows the nonce."""
        return bool(nonce) and nonce == self.memory.nonce

    def was_offered(self, uid: str) -> bool:
        """Whether the user's command can know of this host."""
        return uid in self.memory.offered

    def last_idle_read(self, ranks: Container[str]) -> float | None:
        """When the newest change without effect so far was first read; `ranks`: where some run."""
        times = [*self.joining.values(), self.departures.last_read(ranks)]
        return max((at for at in times if at is not None), default=None)

    def due(self) -> float | None:
        """When `gather` has something to do: at once when nobody else is expected."""
        if not self._welcomed:
            return None
        first = min(self._welcomed.values())
        there = len(self.memory.listed) + len(self._welcomed)
        coming = sum(1 for uid in self.members if self._is_listable(uid)) - len(self._welcomed)
        if self.memory.started:
            wanted = self.config.replicas if self.config else 0
            return first + JOIN_SECONDS if coming or there < wanted else first
        return first + GATHER_SECONDS if coming else first

    # ------------------------------------------------------------ inside

    def _release(self, now: float) -> None:
        """List those that are held no more, and all who are to come: the list changes anyway."""
        ready = [uid for uid in self.memory.ready if not self._is_held(uid)]
        self._remember(ready=self.memory.ready.difference(ready))
        listable = [uid for uid in ready if self._is_listable(uid)]
        released = [uid for uid in listable if not self._is_used_by_another(self.members[uid])]
        self._welcomed.update(dict.fromkeys(released, now))
        if released:
            self._list()

    def _list(self) -> None:
        new = [m for m in self.members.values() if m.uid in self._welcomed]
        uids = frozenset(m.uid for m in new)
        self._welcomed.clear()
        if self.memory.started:
            self.joining.update(dict.fromkeys(uids))
        self._remember(
            listed=(*self.memory.listed, *(Entry(m.uid, m.name, m.slots) for m in new)),
            ever_listed=self.memory.ever_listed | uids,
            offered=self.memory.offered | uids if self.memory.started else self.memory.offered,
        )
        if self.memory.started:
            self._note_names()

    def _merge(self, members: Iterable[Member]) -> None:
        fresh = {member.uid: member for member in members}
        for uid, old in self.members.items():
            new = fresh.get(uid, replace(old, state=MemberState.GONE))
            state = max(old.state, new.state, key=_STEP.__getitem__)
            fresh[uid] = replace(new, state=state)
        self.members = fresh
        self._named = None

    def _note_unlisted(self, config: HostConfig) -> None:
        """Who was taken off stays off, also where a config of before wants him."""
        listed = {entry.uid for entry in self.memory.listed}
        active = [m.uid for m in config.members if m.state is MemberState.ACTIVE]
        over = self.memory.ever_listed - listed
        self.unlisted = frozenset(u for u in active if u in self.departures or u in over)

    def _note_names(self) -> None:
        for entry in self.memory.listed:
            self._used |= _find_bit(entry.name)

    def _is_used_by_another(self, member: Member) -> bool:
        is_used = bool(self._used & _find_bit(member.name))
        return is_used and member.uid not in self.memory.ever_listed

    def _is_held(self, uid: str) -> bool:
        member = self.members.get(uid)
        is_held = member is not None and member.state is MemberState.HELD
        return is_held and uid not in self.departures

    def _is_listable(self, uid: str) -> bool:
        member = self.members.get(uid)
        return (
            member is not None
            and member.state is MemberState.ACTIVE
            and uid not in self.departures
            and uid not in self.memory.ever_listed
        )

    def _remember(self, **changes: object) -> None:
        self.memory = replace(self.memory, **changes)  # type: ignore[arg-type]  # fields of HostMemory


def _find_bit(name: str) -> int:
    """The bit of a worker's index; 0 where its name has none."""
    index = read_worker_index(name)
    return 0 if index is None else 1 << index
