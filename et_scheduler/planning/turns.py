"""Whose turn it is in this pass, where more is asked for than a pass has time for.

services.py and starting.py ask it before each search that looks at every worker, and starting.py
before it looks for a kind of pods on all nodes. Whose turn it is follows from what the pass was
given, its time included: decided again, it is the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from et_scheduler.model.shapes import SECOND
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.rationing import find_share, sort_lines

_One = TypeVar("_One")


class Turns:
    """Of all that namespaces ask for `most` in a pass, of each its share; all, if it is no more.

    The first of a namespace have theirs in each pass; all others of it as many again, others each
    second, so that each comes to its turn. Of more namespaces than `most`, the first half as many
    have theirs in each pass, and of the others as many again each second. Of what several ask for,
    the turn of one will do; what is `besides` has one whosever turn it is.

    Whatever others ask for, where a pass comes each second: one of n namespaces has a turn every
    n / (most // 2) seconds, or each second if n is no more than `most`; and of what it asks for all
    have had theirs after m / k of those, if it asks for m and k is most // n, or 1. A pass that
    takes longer than half a second is followed by one some turns later.
    """

    def __init__(
        self,
        draft: Draft,
        asking: Iterable[tuple[str, Hashable]],
        most: int,
        besides: Iterable[Hashable] = (),
    ) -> None:
        """Namespaces and what they ask for, who is first first."""
        self._draft = draft
        lines = sort_lines(asking)
        self._chosen: set[Hashable] | None = None
        if len({one for line in lines.values() for one in line}) <= most:
            return
        turn, share, turns = draft.now // SECOND, find_share(lines, most), 1
        namespaces: Sequence[str] = list(lines)
        if len(namespaces) > most:
            namespaces, turns = _choose(namespaces, max(most // 2, 1), turn)
        self._chosen = {*besides}
        for namespace in namespaces:
            self._chosen.update(_choose(lines[namespace], share, turn // turns)[0])

    def __contains__(self, one: Hashable) -> bool:
        """Whether it is the turn of `one`."""
        return self._chosen is None or one in self._chosen

    def has(self, one: Hashable) -> bool:
        """Whether it is the turn of `one`; if not, the pass is called again soon."""
        if one in self:
            return True
        self._draft.wake(self._draft.now + SECOND)
        return False


def count_searches(draft: Draft) -> int:
    """For how many searches a pass has time: each looks at every worker, once."""
    looks = sum(len(one.workers) for one in draft.standings.values())
    return max(draft.rules.looks // max(looks, 1), 1)


def _choose(line: Sequence[_One], most: int, turn: int) -> tuple[Sequence[_One], int]:
    """The jobs of a line whose turn it is; and after how many turns all have had theirs."""
    others = line[most:]
    turns = max(-(-len(others) // most), 1)
    first = turn % turns * most
    return [*line[:most], *others[first : first + most]], turns
