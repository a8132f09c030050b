"""Who must leave: each departure, from when its host is off the list until its shims know of it.

When its agent is asked to close: too early is the danger. horovodrun may have taken its copy of the
list just before the host was taken off, and be starting processes there still. An agent that has
closed refuses them, which horovodrun takes for a failed worker. So the agent is asked at once only
when nothing can be under way any more; otherwise after two reads of the shorter list and what the
starts need: time, and further reads, for a read costs horovodrun what a start costs and becomes
slow where starts do. Where a slot of the worker has had no rank yet, one may be under way since
others were started: then it has more time, by what the first start has taken. Time in which the
broker was stopped is none of these: a start that came meanwhile was not heard, and where the whole
machine was stopped none could come.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from enum import Enum

from et_contract.documents import POD_GONE, Member, MemberState
from launcher.protocol.transitions import Table, stay, step

READS = 2
"""Of the shorter list: the second one proves that the first was acted upon."""
ACTING_SECONDS = 3.0
"""What horovodrun needs to act on a list that it has read, beside the slots that it starts."""
START_SECONDS = 0.2
"""What horovodrun needs to start one slot."""
MORE_READS = 8
"""At most so many further reads, one for each slot that may be starting."""
FIRST_START_SECONDS = 60.0
"""The wait while the user's command has not started anything, or nothing since its last training
ended: between a first list and the first process may lie imports, on a machine on which everybody
imports."""
LATE_SECONDS = 10.0
"""At least so long after the last start of a rank another one of the same moment may come, on a
host on which none was seen yet: on a busy machine one interpreter is ready long before the next."""
GONE_SECONDS = 8.0
"""At the latest then, the shims of a pod that is gone stop waiting."""

_CLOSED = "the worker is leaving and starts no process any more"

STAYING = "staying"
UNLISTED = "unlisted"
"""Off the list for good, and the operator has not said why."""
DRAINING = "draining"
"""The operator wants it to leave."""
ASKED = "asked"
"""CLOSE_IF_IDLE was sent. An answer BUSY leaves the agent armed: it closes by itself when idle,
unless a SPAWN comes."""
CLOSED = "closed"
"""The agent runs nothing and will never run anything again."""
GONE = "gone"
"""The operator says so, which is final; its shims still wait."""
LEFT = "left"
"""The shims of the worker were told."""

_NEWS = ("unlist", "spawn", "end", "cut")
"""What comes of anybody at any time."""

DEPARTURE: Table = {
    STAYING: {**stay(STAYING, *_NEWS), "unlist": UNLISTED},
    UNLISTED: {"drain": DRAINING, "close": CLOSED, "gone": GONE, **stay(UNLISTED, *_NEWS)},
    DRAINING: {
        "ask": ASKED, "close": CLOSED, "gone": GONE, **stay(DRAINING, *_NEWS, "drain")
    },
    ASKED: {
        # After a cut the question may not have arrived, after a SPAWN it is over.
        "cut": DRAINING, "spawn": DRAINING, "close": CLOSED, "gone": GONE,
        **stay(ASKED, "unlist", "end", "drain"),
    },
    CLOSED: {"gone": GONE, **stay(CLOSED, *_NEWS, "drain", "close")},
    # What was under way when the operator said so comes late.
    GONE: {"release": LEFT, **stay(GONE, *_NEWS, "close", "gone")},
    LEFT: stay(LEFT, *_NEWS, "close", "gone"),
}  # fmt: skip


class Step(Enum):
    """What to do about a draining member now."""

    WAIT = "wait"
    ASK = "ask"
    """Send CLOSE_IF_IDLE."""
    CLOSE = "close"
    """Nothing can ever have started there: report it as closed without asking."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen of a draining member at this moment."""

    is_connected: bool
    was_offered: bool
    """The user's command can know of the host."""
    is_claimed: bool
    """A shim waits for a session there, or a process may run."""
    starting: int
    """Slots of the job, as horovodrun knows it, that have no process (yet)."""
    has_begun: bool = True
    """The user's command has started a rank somewhere, of a training that is not over."""
    late_from: float | None = None
    """When a rank was last started anywhere, where a slot of this member has had none yet."""
    lag: float = LATE_SECONDS
    """Seconds from then in which it may still come, see Pace."""
    slots: int = 0
    """All slots of the job, as horovodrun knows it."""
    watched_from: float = 0.0
    """Since when whatever comes is heard as it comes: before, the broker was stopped."""


@dataclass(slots=True)
class Pace:
    """How long horovodrun needs for a start, as its first one shows. The next one has its own.

    It starts all ranks of one moment at once, each by interpreters of its own, which share the
    machine with one another: who is last needs no more than a few times what the first has needed.
    """

    read_at: float | None = None
    """When the user's command first read the list, since a training was over."""
    first: float | None = None
    """Seconds from then to its first start."""
    last_at: float | None = None
    """When it last started a rank."""

    def note_read(self, now: float) -> None:
        """The user's command has read the list."""
        self.read_at = now if self.read_at is None else self.read_at

    def note_start(self, now: float) -> None:
        """The SPAWN of a rank went to an agent."""
        if self.last_at is None and self.read_at is not None:
            self.first = now - self.read_at
        self.last_at = now

    @property
    def lag(self) -> float:
        """Seconds by which a start may come after the last one."""
        return min(max(LATE_SECONDS, 2 * (self.first or 0.0)), FIRST_START_SECONDS)


@dataclass(slots=True)
class Departure:
    """One member that is not listed (any more)."""

    stage: str = STAYING
    reads: int = 0
    """How often the user's command has read the list without this member."""
    served_at: float | None = None
    """When it first read that list."""
    is_told: bool = False
    """A rank ended there after the shorter list was read: its worker knows."""
    spawned_at: float | None = None
    """When a rank was last started there though it drains: more may be under way."""
    spawned_reads: int = 0
    """How many reads there were then."""
    gone_at: float | None = None
    refusal: str = ""
    """What is answered in the place of its agent, which takes no SPAWN any more."""

    def decide(self, sight: Sight, now: float) -> Step:
        """The step that is due while it drains; ASK and CLOSE are to be taken at once."""
        if not sight.is_connected:
            nobody = not sight.was_offered and not sight.is_claimed
            return Step.CLOSE if nobody else Step.WAIT
        due = self.due(sight)
        return Step.ASK if due is not None and now >= due else Step.WAIT

    def due(self, sight: Sight) -> float | None:
        """When to ask; None while that depends on something that has yet to happen."""
        if self.stage == ASKED or not sight.is_connected:
            return None
        unknown = not sight.was_offered and self.spawned_at is None
        if self.is_told or unknown:
            return 0.0
        reads = READS + min(sight.starting, MORE_READS)
        if self.served_at is None or self.reads - self.spawned_reads < reads:
            return None
        since = max(self.served_at, self.spawned_at or 0.0, sight.watched_from)
        if not sight.has_begun:
            return since + FIRST_START_SECONDS
        acted = since + ACTING_SECONDS + START_SECONDS * sight.starting
        if sight.late_from is None:
            return acted
        # once all can have been started, what is started is of the shorter list
        latest = since + FIRST_START_SECONDS + START_SECONDS * sight.slots
        return max(acted, min(max(since, sight.late_from), latest) + sight.lag)


@dataclass(slots=True)
class Departures:
    """The departures of a job, by the uids of their pods.

    `before` has those of whom a broker before us knew that they have been told to leave.
    """

    before: set[str] = field(default_factory=set)
    _by_uid: dict[str, Departure] = field(default_factory=dict)

    # ------------------------------------------------------------ what happens

    def follow(self, members: Iterable[Member], now: float) -> None:
        """What the operator says of members, of whom none is listed that must leave."""
        for member in members:
            if member.state is MemberState.DRAINING:
                departure = self._step(member.uid, "drain")
                departure.is_told = departure.is_told or member.uid in self.before
                self.before.discard(member.uid)
            elif member.state is MemberState.GONE:
                departure = self._step(member.uid, "gone")
                departure.gone_at = now if departure.gone_at is None else departure.gone_at

    def unlist(self, uid: str) -> None:
        """The member's host is off the list for good, whyever."""
        self._step(uid, "unlist")

    def note_read(self, now: float) -> None:
        """The user's command has read the list without all of them."""
        for departure in self._by_uid.values():
            departure.reads += 1
            if departure.served_at is None:
                departure.served_at = now

    def note_end(self, uid: str) -> None:
        """A rank ended there."""
        departure = self._step(uid, "end")
        if departure.stage in (DRAINING, ASKED) and departure.served_at is not None:
            departure.is_told = True

    def note_spawn(self, uid: str, now: float) -> None:
        """The SPAWN of a rank went there: that disarmed the agent, and more may be under way."""
        departure = self._step(uid, "spawn")
        if departure.stage == DRAINING:
            departure.is_told = False
            departure.spawned_at = now
            departure.spawned_reads = departure.reads

    def disarm(self, uid: str) -> None:
        """The stream ended, or something that is no rank was started there."""
        self._step(uid, "cut")

    def close(self, uid: str) -> None:
        """The member's agent has no process and will accept none."""
        self._step(uid, "close").refusal = _CLOSED

    def decide(self, sights: Iterable[tuple[str, Sight]], now: float) -> list[tuple[str, Step]]:
        """Of those that drain: the steps ASK and CLOSE that are due, to be taken at once."""
        steps = [(uid, self._by_uid[uid].decide(sight, now)) for uid, sight in sights]
        for uid, taken in steps:
            if taken is Step.ASK:
                self._step(uid, "ask")
        return [(uid, taken) for uid, taken in steps if taken is not Step.WAIT]

    def release(self, now: float) -> list[str]:
        """The gone ones whose shims are to be told now, and with what words.

        horovodrun has read the shorter list twice, so that it takes their end for what it is, or
        it does not read at all.
        """
        due = [
            uid
            for uid, departure in self._by_uid.items()
            if departure.stage == GONE and departure.gone_at is not None
            if departure.reads >= READS or now >= departure.gone_at + GONE_SECONDS
        ]
        for uid in due:
            self._step(uid, "release").refusal = POD_GONE
        return due

    def forget(self, uids: Iterable[str], known: Container[str]) -> None:
        """Nobody speaks of these pods any more, nor of any that is not `known`."""
        for uid in uids:
            self._by_uid.pop(uid, None)
        self.before = {uid for uid in self.before if uid in known}

    # ------------------------------------------------------------ what is so

    def __contains__(self, uid: str) -> bool:
        """Whether the worker must not be listed (any more)."""
        return uid in self._by_uid

    def __getitem__(self, uid: str) -> Departure:
        """The departure of this pod, to look at: `Departures` alone changes it."""
        return self._by_uid[uid]

    @property
    def draining(self) -> list[str]:
        """Uids of the pods whose agents are to be asked to close, or were."""
        return [u for u, each in self._by_uid.items() if each.stage in (DRAINING, ASKED)]

    @property
    def left(self) -> list[str]:
        """Uids of the pods that are known to have left."""
        return [uid for uid, each in self._by_uid.items() if each.stage == LEFT]

    @property
    def told(self) -> frozenset[str]:
        """Uids whose ends proved that they know of it; of those not read of yet, as before."""
        return frozenset(self.before).union(u for u, each in self._by_uid.items() if each.is_told)

    def find_refusal(self, uid: str, *, may_run: bool) -> str | None:
        """What a session there is told in the place of its agent, which is asked otherwise.

        Of one that `may_run` its agent alone knows, until the pod is known to have left.
        """
        departure = self._by_uid.get(uid)
        if departure is None or (may_run and departure.stage != LEFT):
            return None
        return departure.refusal or None

    def last_read(self, ranks: Container[str]) -> float | None:
        """When one was first read of that is not gone and where `ranks` run: the newest."""
        reads = [
            departure.served_at
            for uid, departure in self._by_uid.items()
            if uid in ranks and departure.stage not in (GONE, LEFT)
        ]
        return max((at for at in reads if at is not None), default=None)

    def due(self, sights: Iterable[tuple[str, Sight]]) -> float | None:
        """When `decide` or `release` has something to do even without a read."""
        waiting = [each.gone_at for each in self._by_uid.values() if each.stage == GONE]
        times = [self._by_uid[uid].due(sight) for uid, sight in sights]
        times += [at + GONE_SECONDS for at in waiting if at is not None]
        return min((at for at in times if at is not None), default=None)

    # ------------------------------------------------------------ inside

    def _step(self, uid: str, event: str) -> Departure:
        """The departure after what has happened; a defect of ours raises ProtocolError."""
        departure = self._by_uid.get(uid) or Departure()
        departure.stage = step(DEPARTURE, departure.stage, event)
        if departure.stage != STAYING:
            self._by_uid[uid] = departure
        return departure
