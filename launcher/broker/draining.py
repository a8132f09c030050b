"""When a member that must leave is asked to close, and when its shims stop waiting for it.

Asking too early is the danger: horovodrun may have taken its copy of the list just before the host
was taken off, and be starting processes there still. An agent that has closed refuses them, which
horovodrun takes for a failed worker. So the agent is asked at once only when nothing can be under
way any more; otherwise after two reads of the shorter list and what the starts need: time, and
further reads, for a read costs horovodrun what a start costs and becomes slow where starts do.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from launcher.broker.hosts import Leaving

READS = 2
"""Of the shorter list: the second one proves that the first was acted upon."""
SETTLE_SECONDS = 3.0
START_SECONDS = 0.2
"""What horovodrun needs to start one slot."""
MORE_READS = 8
"""At most so many further reads, one for each slot that may be starting."""
FIRST_START_SECONDS = 60.0
"""The same while the user's command has not started anything: between its first list and its first
process may lie imports, on a machine on which everybody imports."""
GONE_SECONDS = 8.0
"""At the latest then, the shims of a pod that is gone stop waiting."""


class Step(Enum):
    """What to do about a draining member now."""

    WAIT = "wait"
    ASK = "ask"
    """Send CLOSE_IF_IDLE."""
    CLOSE = "close"
    """Nothing can ever have started there: report it as closed without asking."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known of a draining member at this moment."""

    leaving: Leaving
    is_connected: bool
    was_offered: bool
    """The user's command can know of the host."""
    is_claimed: bool
    """A shim waits for a session there, or a process may run."""
    starting: int
    """Slots of the job, as horovodrun knows it, that have no process (yet)."""
    has_begun: bool = True
    """The user's command has started a rank somewhere."""


@dataclass(slots=True)
class Drain:
    """One draining member.

    An answer BUSY leaves its agent armed: it closes by itself when idle, unless a SPAWN comes; then
    it is asked again under the same conditions.
    """

    has_ended: bool = False
    """A rank ended there after the shorter list was read: its worker has been told."""
    is_asked: bool = False
    _spawned_at: float | None = None
    _spawned_reads: int = 0

    def note_end(self, leaving: Leaving) -> None:
        """A rank of this host ended."""
        if leaving.served_at is not None:
            self.has_ended = True

    def note_spawn(self, leaving: Leaving, now: float) -> None:
        """A rank was started there: that disarmed the agent, and more may be under way."""
        self.has_ended = False
        self.is_asked = False
        self._spawned_at = now
        self._spawned_reads = leaving.reads

    def disarm(self) -> None:
        """The stream ended and the question may not have arrived, or a SPAWN came after it."""
        self.is_asked = False

    def decide(self, sight: Sight, now: float) -> Step:
        """The step that is due; ASK and CLOSE are to be taken at once."""
        if not sight.is_connected:
            nobody = not sight.was_offered and not sight.is_claimed
            return Step.CLOSE if nobody else Step.WAIT
        if self.is_asked:
            return Step.WAIT
        due = self.due(sight)
        return Step.ASK if due is not None and now >= due else Step.WAIT

    def due(self, sight: Sight) -> float | None:
        """When to ask; None while that depends on something that has yet to happen."""
        if self.is_asked or not sight.is_connected:
            return None
        unknown = not sight.was_offered and self._spawned_at is None
        if self.has_ended or unknown:
            return 0.0
        leaving = sight.leaving
        reads = READS + min(sight.starting, MORE_READS)
        if leaving.served_at is None or leaving.reads - self._spawned_reads < reads:
            return None
        since = max(leaving.served_at, self._spawned_at or 0.0)
        if not sight.has_begun:
            return since + FIRST_START_SECONDS
        return since + SETTLE_SECONDS + START_SECONDS * sight.starting


@dataclass(slots=True)
class Departures:
    """Pods that are gone and whose shims still wait, with when the operator said so."""

    _gone: dict[str, float] = field(default_factory=dict)
    _released: set[str] = field(default_factory=set)

    def note_gone(self, uid: str, now: float) -> None:
        """The operator calls this pod gone, which is final."""
        if uid not in self._released:
            self._gone.setdefault(uid, now)

    def release(self, leaving: dict[str, Leaving], now: float) -> list[str]:
        """The uids whose shims are to be told now.

        horovodrun has read the shorter list twice, so that it takes their end for what it is, or
        it does not read at all.
        """
        due = [
            uid
            for uid, since in self._gone.items()
            if leaving[uid].reads >= READS or now >= since + GONE_SECONDS
        ]
        for uid in due:
            del self._gone[uid]
            self._released.add(uid)
        return due

    @property
    def released(self) -> frozenset[str]:
        """The uids whose shims were told."""
        return frozenset(self._released)

    def forget(self, uids: Iterable[str]) -> None:
        """Nobody speaks of these pods any more."""
        self._released.difference_update(uids)

    def due(self) -> float | None:
        """When `release` has something to do even without a read."""
        return min((since + GONE_SECONDS for since in self._gone.values()), default=None)
