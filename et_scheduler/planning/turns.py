"""Whose turn it is in this pass, where more is asked for than a pass has time for.

services.py and starting.py ask it before each search that looks at every worker, and starting.py
before it looks for a kind of pods on all nodes. Whose turn it is follows from what the pass was
given, its time included: decided again, it is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from et_scheduler.model.shapes import SECOND
from et_scheduler.planning.drafts import Draft

_One = TypeVar("_One")


class Turns:
    """Of all that namespaces ask for `most` in a pass, of each its share; all, if it is no more.

    The first of a namespace have theirs in each pass; all others of it as many again, others each
    second, so that each comes to its turn. Of more namespaces than `most`, the first have theirs
    in each pass, and so on. Of what several ask for, the turn of one will do.

    After `count` seconds each has had his. Within others' turns one lasts so long that each of
    those has come meanwhile: else those who have one here might never have one there.
    """

    def __init__(
        self,
        draft: Draft,
        asking: Iterable[tuple[str, Hashable]],
        most: int,
        within: Turns | None = None,
    ) -> None:
        """Namespaces and what they ask for, who is first first."""
        self._draft = draft
        lines: dict[str, dict[Hashable, None]] = defaultdict(dict)
        for namespace, one in asking:
            lines[namespace][one] = None
        self._chosen = {one for line in lines.values() for one in line}
        self.count = 1
        if len(self._chosen) <= most:
            return
        share = max(most // len(lines), 1)
        turn = draft.now // SECOND // (within.count if within is not None else 1)
        namespaces, count = _choose(list(lines), most, turn)
        found = {name: _choose(list(line), share, turn // count) for name, line in lines.items()}
        self._chosen = {one for name in namespaces for one in found[name][0]}
        self.count = count * max(turns for _, turns in found.values())

    def has(self, one: Hashable) -> bool:
        """Whether it is its turn; if not, the pass is called again soon."""
        if one in self._chosen:
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
