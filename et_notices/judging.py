"""What a node is to say of its own end, by what its cloud says of it round by round.

Nothing here asks, writes or knows the time: rounds come in, and out comes the word that counts.
What sounds worse counts at once; what sounds better is believed once it was said AGREED times in a
row. So a service that stumbles takes no word back that holds, and one that lies costs few writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from et_kube.notices import Notice, choose_notice
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
        if self._agreed >= AGREED or sounds_worse(heard, self.word or Word()):
            self.word, self._other, self._agreed = heard, None, 0
            self._forget(notices)
        return self.word

    def needs_time(self, notices: Sequence[Notice]) -> bool:
        """Whether the end of one that counts is known by when it is heard first, which is now."""
        chosen = filter(None, _choose(notices))
        return any(one.deadline is None and one.reason not in self._seen for one in chosen)

    def _find_word(self, notices: Sequence[Notice], now: datetime) -> Word:
        firm, soft = _choose(notices)
        at = self._find_moment(firm, now) if firm is not None else None
        advised = self._find_moment(soft, now) if soft is not None else None
        return Word(at, firm.reason if firm is not None else "", advised)

    def _find_moment(self, notice: Notice, now: datetime) -> datetime:
        """As it says, or its lead after it was heard first: no round may move it."""
        moment = notice.deadline
        if moment is None:
            since = self._seen.setdefault(notice.reason, now)
            moment = since + (notice.lead or timedelta())
        if moment > now + FURTHEST:
            raise Unclear(f"{notice.source}: {moment:%Y-%m-%d} is too far away to be meant")
        return moment.replace(microsecond=0)

    def _forget(self, notices: Sequence[Notice]) -> None:
        said = {one.reason for one in notices}
        self._seen = {reason: at for reason, at in self._seen.items() if reason in said}


def _choose(notices: Sequence[Notice]) -> tuple[Notice | None, Notice | None]:
    """The firm one that counts, and the soft one."""
    firm = choose_notice(one for one in notices if one.is_firm)
    return firm, choose_notice(one for one in notices if not one.is_firm)


def sounds_worse(new: Word, old: Word) -> bool:
    """Whether it ends sooner by this word, or where neither says that, is advised against first."""
    if new.at is None or old.at is None:
        is_new = new.advised is not None and old.advised is None
        return new.at is not None or (old.at is None and is_new)
    return new.at < old.at
