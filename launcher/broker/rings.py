"""Ranks that run and form no ring: nobody else would say so, for they end by no error.

A script that waits before hvd.init(), or in one rank only, and ranks that do not reach each other:
the job is Running. Each rank that has imported Horovod says how far it is (launcher/ranks), its
agent counts them, and a PONG has the numbers. Told is what all ranks have said, and only while none
of them prints anything: a script that loads for long and says so is at work.

No I/O, no clock: all times are monotonic seconds handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from et_contract.documents import Member

RING_SECONDS = 600.0
"""Without a ring, a step towards one, or a word of any rank for so long, and it is told."""
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

    def hear(self, uid: str, counts: RankCounts | None) -> None:
        """What an agent has counted; None where it counts nothing."""
        if counts is None:
            self._told.pop(uid, None)
        else:
            self._told[uid] = counts

    def note_output(self, now: float) -> None:
        """A rank has printed something."""
        self._since = now

    def advance(self, ranks: Mapping[str, int], members: Mapping[str, Member], now: float) -> str:
        """What is to be told, "" for nothing.

        Args:
            ranks: how many run, by uid of their pod.
            members: these pods by uid.
            now: monotonic seconds.
        """
        self._told = {uid: told for uid, told in self._told.items() if uid in ranks}
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

    def _is_without_ring(self, ranks: Mapping[str, int]) -> bool:
        """Whether each rank has said that it is in none."""
        return bool(ranks) and all(
            (told := self._told.get(uid)) is not None and sum(told) == count and not told.joined
            for uid, count in ranks.items()
        )
