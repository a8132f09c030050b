"""Whose search is made in this pass, where more ask for one than a pass has time for.

services.py and starting.py ask it before each search that looks at every worker. Whose turn it is
follows from what the pass was given, its time included: decided again, it is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from et_scheduler.model.shapes import SECOND
from et_scheduler.planning.drafts import Draft


class Turns:
    """So many searches for each namespace as it has a share of what a pass may look at.

    A search looks at every worker, once. The first of a namespace have theirs in
    each pass; all others of it as many again, others each second, so that each comes to its turn.
    Of more namespaces than there are searches, the first have theirs in each pass, and so on.
    """

    def __init__(self, draft: Draft, asking: Iterable[tuple[str, str]]) -> None:
        """Namespaces and uids, who is first first."""
        self._draft = draft
        lines: dict[str, list[str]] = defaultdict(list)
        for namespace, uid in asking:
            lines[namespace].append(uid)
        looks = sum(len(one.workers) for one in draft.standings.values())
        searches = max(draft.rules.looks // max(looks, 1), 1)
        share = max(searches // max(len(lines), 1), 1)
        turn = draft.now // SECOND
        later, turns = _list_later(list(lines), searches, turn)
        self._waiting: set[str] = set()
        for namespace, line in lines.items():
            waits, _ = (line, 1) if namespace in later else _list_later(line, share, turn // turns)
            self._waiting.update(waits)

    def has(self, uid: str) -> bool:
        """Whether it is its turn; if not, the pass is called again soon."""
        if uid not in self._waiting:
            return True
        self._draft.wake(self._draft.now + SECOND)
        return False


def _list_later(line: Sequence[str], most: int, turn: int) -> tuple[Collection[str], int]:
    """Whose turn it is not now, and in how many turns each has had his."""
    others = line[most:]
    turns = max(-(-len(others) // most), 1)
    first = turn % turns * most
    return {*others} - {*others[first : first + most]}, turns
