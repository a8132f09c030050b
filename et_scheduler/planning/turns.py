"""Whose search is made in this pass, where more ask for one than a pass has time for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from et_scheduler.model.shapes import SECOND
from et_scheduler.planning.drafts import Draft


class Turns:
    """So many searches for each namespace as it has a share of what a pass may look at.

    A search looks at every worker, once. The first of a namespace have theirs in
    each pass; all others of it as many again, others each second, so that each comes to its turn.
    """

    def __init__(self, draft: Draft, asking: Iterable[tuple[str, str]]) -> None:
        """Namespaces and uids, who is first first."""
        self._draft = draft
        lines: dict[str, list[str]] = defaultdict(list)
        for namespace, uid in asking:
            lines[namespace].append(uid)
        looks = sum(len(one.workers) for one in draft.standings.values())
        share = draft.rules.looks // max(looks * len(lines), 1)
        self._waiting: set[str] = set()
        for line in lines.values():
            self._waiting |= self._list_waiting(line, max(share, 1))

    def has(self, uid: str) -> bool:
        """Whether it is its turn; if not, the pass is called again soon."""
        if uid not in self._waiting:
            return True
        self._draft.wake(self._draft.now + SECOND)
        return False

    def _list_waiting(self, line: list[str], most: int) -> set[str]:
        others = line[most:]
        if len(others) <= most:
            return set()
        parts = -(-len(others) // most)
        first = self._draft.now // SECOND % parts * most
        return {*others} - {*others[first : first + most]}
