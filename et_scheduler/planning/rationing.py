"""What namespaces ask for in a pass, and how much of it each has where it is too much.

Only arithmetic. What stays from pass to pass is chosen by it alone (drafts.py); turns.py adds whose
turn it is among what is not first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

_One = TypeVar("_One", bound=Hashable)


def sort_lines(asking: Iterable[tuple[str, _One]]) -> dict[str, list[_One]]:
    """What each namespace asks for, once, in the order in which it does."""
    lines: dict[str, dict[_One, None]] = defaultdict(dict)
    for namespace, one in asking:
        lines[namespace][one] = None
    return {namespace: list(line) for namespace, line in lines.items()}


def find_share(lines: Mapping[str, Sequence[object]], most: int) -> int:
    """How many each may have, so that all together have `most` at most; 1 at least.

    Who asks for less leaves the rest to the others, and so one's share is no less than an equal one
    whatever others ask for.
    """

    def sum_up(share: int) -> int:
        return sum(min(len(line), share) for line in lines.values())

    return max(bisect_right(range(1, most + 1), most, key=sum_up), 1)


def choose_first(asking: Iterable[tuple[str, _One]], most: int) -> set[_One]:
    """The first of each namespace, as many as it has a share of; all, if it is no more than `most`.

    Of more namespaces than that the first have one each. What several ask for is had by all.
    """
    lines = sort_lines(asking)
    every = {one for line in lines.values() for one in line}
    if len(every) <= most:
        return every
    share = find_share(lines, most)
    return {one for line in islice(lines.values(), most) for one in line[:share]}


def share_out(asking: Iterable[tuple[str, Hashable]], most: int) -> dict[str, int]:
    """How many each namespace may have, as `find_share` says; of more than `most` the first."""
    lines = sort_lines(asking)
    return dict.fromkeys(islice(lines, most), find_share(lines, most))
