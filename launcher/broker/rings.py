"""Ranks that run and form no ring: nobody else would say so, for they end by no error.

A script that waits before hvd.init(), or in one rank only, and ranks that do not reach each other:
the job is Running. Each rank that has imported Horovod says how far it is (launcher/ranks), its
agent counts them, and a PONG has the numbers. Told is what all ranks have said, and only while none
of them prints anything: a script that loads for long and says so is at work.

Ranks that say nothing are none in which something of ours ends a broken ring: at the loss of a
worker that is told.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from et_contract.documents import Member

RING_SECONDS = 600.0
"""Without a ring, a step towards one, or a word of any rank for so long, and it is told."""
LOADED_SECONDS = 60.0
"""Who runs for so long and has not imported Horovod through ours never does, most often."""
_NAMED = 3
_MINUTES = int(RING_SECONDS // 60)
_LOADING = (
    "{all} ranks run, none of them has called hvd.init(), and for {minutes} min none has printed "
    "anything: a script that loads something for long looks so, and one that hangs"
)
_LOADING_ALONE = (
    "1 rank runs, it has not called hvd.init(), and for {minutes} min it has printed nothing: a "
    "script that loads something for long looks so, and one that hangs"
)
_APART = (
    "{inside} of {all} ranks wait in hvd.init(), and for {minutes} min the others, in {names}, "
    "have neither called it nor printed anything: see where the script waits there"
)
_TOGETHER = (
    "{who} in hvd.init(), and for {minutes} min no ring has formed: see whether the "
    "command waits for more workers (--min-np), and whether they reach each other and the launcher "
    "(NetworkPolicies, HOROVOD_GLOO_IFACE)"
)

_UNBROKEN = (
    "{name} was lost, and the ranks of the others have never said that they imported Horovod, so "
    "nothing of ours ends their broken ring: they may wait for Gloo's time-out. Most often the "
    "command of the ranks does not begin with python: the launcher's log says what to write"
)


class RankCounts(NamedTuple):
    """Of one worker: how many ranks have imported Horovod, are in hvd.init(), have come out."""

    imported: int
    entered: int
    joined: int


class Rings:
    """Since when nothing has led towards a ring."""

    def __init__(self) -> None:
        self._told: dict[str, RankCounts] = {}
        self._seen: Mapping[str, RankCounts] | None = None
        self._since = 0.0
        self._mute: dict[str, float] = {}
        """Where ranks run of which the agent knows nothing, and since when."""
        self.unbroken = ""
        """What is to be told of the first loss that such ranks have met."""
        self._met: frozenset[str] = frozenset()
        """Where these ran."""

    def hear(self, uid: str, counts: RankCounts | None) -> None:
        """What an agent has counted; None where it counts nothing."""
        if counts is None:
            self._told.pop(uid, None)
        else:
            self._told[uid] = counts

    def note_output(self, now: float) -> None:
        """A rank has printed something."""
        self._since = now

    def lose(self, name: str, others: Collection[str], now: float) -> None:
        """A worker in which ranks ran was lost; `others` are the uids where some run still."""
        silent = [now >= self._mute.get(uid, now) + LOADED_SECONDS for uid in others]
        if silent and all(silent) and not self.unbroken:
            self.unbroken, self._met = _UNBROKEN.format(name=name), frozenset(others)

    def advance(self, ranks: Mapping[str, int], members: Mapping[str, Member], now: float) -> str:
        """What is to be told, "" for nothing.

        Args:
            ranks: how many run, by uid of their pod.
            members: these pods by uid.
            now: monotonic seconds.
        """
        self._told = {uid: told for uid, told in self._told.items() if uid in ranks}
        self._note_mute(ranks, now)
        seen = self._told if self._is_without_ring(ranks) else None
        if seen is None or seen != self._seen:
            self._seen, self._since = None if seen is None else dict(seen), now
        if seen is None or now < self._since + RING_SECONDS:
            return ""
        inside = sum(told.entered for told in seen.values())
        outside = sorted(members[uid].name for uid in seen if seen[uid].imported and uid in members)
        more = f" and {len(outside) - _NAMED} more" if len(outside) > _NAMED else ""
        named = ", ".join(outside[:_NAMED]) + more
        everybody = sum(ranks.values())
        loading = _LOADING if everybody > 1 else _LOADING_ALONE
        text = _TOGETHER if not outside else _APART if inside else loading
        who = f"all {everybody} ranks are" if everybody > 1 else "the only rank is"
        return text.format(all=everybody, who=who, inside=inside, names=named, minutes=_MINUTES)

    def due(self, now: float) -> float | None:
        """When they have been without a ring for long enough."""
        end = self._since + RING_SECONDS
        return end if self._seen is not None and now < end else None

    def _note_mute(self, ranks: Mapping[str, int], now: float) -> None:
        mute = (uid for uid in ranks if uid in self._told and not any(self._told[uid]))
        self._mute = {uid: self._mute.get(uid, now) for uid in mute}
        if self._met.isdisjoint(self._mute):
            self.unbroken = ""

    def _is_without_ring(self, ranks: Mapping[str, int]) -> bool:
        """Whether each rank has said that it is in none."""
        return bool(ranks) and all(
            (told := self._told.get(uid)) is not None and sum(told) == count and not told.joined
            for uid, count in ranks.items()
        )
