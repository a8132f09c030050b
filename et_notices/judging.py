"""What a node is to say of its own end, by what its cloud says of it round by round.

Nothing here asks, writes or knows the time: rounds come in, and out comes the word that counts.
What sounds worse counts at once; what sounds better is believed once it was said AGREED times in a
row. So a service that stumbles takes no word back that holds, and one that lies costs few writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from et_kube.notices import Notice, choose_notice, is_long_over
from et_notices.questions import Unclear

AGREED = 3
"""Rounds in a row that must say the same before a word is put off, or taken back."""
FURTHEST = timedelta(days=30)
"""Nothing new is put on a node that is said to leave: what is further away was not meant."""


@dataclass(frozen=True, slots=True)
class Word:
    """`at` is when all that runs there ends, None where nobody says so; `reason` why.

    `advised` is since when the cloud advises to leave it, None where it does not.
    """

    at: datetime | None = None
    reason: str = ""
    advised: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the node is to say nothing."""
        return self.at is None and self.advised is None


class Judge:
    """Hears one cloud. Until it has heard something that counts, nobody knows what the node says.

    Attributes:
        word: what counts by now; None at the start.
    """

    def __init__(self) -> None:
        self.word: Word | None = None
        self._other: Word | None = None
        self._agreed = 0
        self._seen: dict[str, datetime] = {}

    def hear(self, notices: Sequence[Notice], now: datetime) -> Word | None:
        """The word that counts after this round, None for none yet; Unclear for a wrong moment."""
        heard = self._find_word(notices, now)
        if heard == self.word:
            self._other, self._agreed = None, 0
            return self.word
        self._agreed = self._agreed + 1 if heard == self._other else 1
        self._other = heard
        if self._agreed >= AGREED or sounds_worse(heard, self.word or Word(), now):
            self.word, self._other, self._agreed = heard, None, 0
            self._forget(notices)
        return self.word

    def needs_time(self, notices: Sequence[Notice]) -> bool:
        """Whether the end of one is known by when it is heard first, which is now."""
        return any(one.deadline is None and one.reason not in self._seen for one in notices)

    def is_far(self, notices: Sequence[Notice], now: datetime) -> bool:
        """Whether one is too far away to be meant, or the clock is wrong that says so."""
        return any(one.deadline is not None and one.deadline > now + FURTHEST for one in notices)

    def _find_word(self, notices: Sequence[Notice], now: datetime) -> Word:
        dated = [self._date(one, now) for one in notices]
        firm = choose_notice((one for one in dated if one.is_firm), now)
        soft = choose_notice(one for one in dated if not one.is_firm)
        reason = firm.reason if firm is not None else ""
        return Word(_read_moment(firm, now), reason, _read_moment(soft, now))

    def _date(self, notice: Notice, now: datetime) -> Notice:
        """With its moment: its own, or its lead after it was heard first, which no round moves."""
        if notice.deadline is not None:
            return notice
        since = self._seen.setdefault(notice.reason, now)
        return replace(notice, deadline=since + (notice.lead or timedelta()))

    def _forget(self, notices: Sequence[Notice]) -> None:
        said = {one.reason for one in notices}
        self._seen = {reason: at for reason, at in self._seen.items() if reason in said}


def _read_moment(chosen: Notice | None, now: datetime) -> datetime | None:
    if chosen is None or chosen.deadline is None:
        return None
    if chosen.deadline > now + FURTHEST:
        told = f"{chosen.deadline:%Y-%m-%d}"
        raise Unclear(f"{chosen.source}: {told} is too far away to be meant")
    return chosen.deadline.replace(microsecond=0)


def sounds_worse(new: Word, old: Word, now: datetime) -> bool:
    """Whether by the new word the end is sooner, or where none is said, advice comes first.

    A moment that is over for long is later than one that is not.
    """
    if new.at is None or old.at is None:
        is_new = new.advised is not None and old.advised is None
        return new.at is not None or (old.at is None and is_new)
    return (is_long_over(new.at, now), new.at) < (is_long_over(old.at, now), old.at)
