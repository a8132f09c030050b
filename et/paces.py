"""How a training goes on, step by step, until a loss and after it. No I/O, no clock.

Times in a log are of the machine that wrote it, all others seconds of one clock of ours: none is
compared with one of the other kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from statistics import median

from et.steps import parse_rank, parse_step

LEAST_PAUSE = 1.5
"""Seconds by which a step is late at least, that its lateness counts as a pause."""
MOST_LINES = 50_000
"""That tell of steps: no more are taken. A log says what its script prints, of losses too."""

Key = tuple[int | None, int, int]
"""A step: its epoch, where lines tell of epochs, how often the numbers have begun anew, itself."""


@dataclass(slots=True)
class Course:
    """How far the lines of one rank have come."""

    epoch: int | None = None
    lap: int = 0
    last: Key | None = None
    at: datetime | None = None
    is_last_of_lap: bool = False
    seen: set[Key] = field(default_factory=set)
    inherited: int = 0
    """So many of the steps that were told of first, by whomever, are no news of its rank either."""
    again: int = 0


@dataclass(slots=True)
class Training:
    """What a log tells of steps, line by line, until a loss and from then on."""

    lines: int = 0
    """How many lines told of a step."""
    moments: list[datetime] = field(default_factory=list)
    """When it told of a step, as the log has it; of ranks that tell of the same one, once."""
    courses: dict[str, Course] = field(default_factory=dict)
    size: int | None = None
    is_ahead: bool = False
    """The newest step was not told of before."""
    resized: int = 0
    """How often its size has changed since the loss."""
    spacing: int = 1
    """From one number that is told to the next, most often."""
    heard: float = 0.0
    """By our clock, when it last told of one."""
    loss: int | None = None
    """How many of `moments` were before the loss; None until there was one."""
    size_before: int | None = None
    _last: tuple[str, int | None] = ("", None)
    limit: float = 0.0
    """Seconds beyond which a step is late, from the loss on."""
    _strides: list[int] = field(default_factory=list)
    _draws_again: bool = False
    """One step was told of twice in a row before the loss: a bar, or a line of its evaluation."""
    _places: dict[Key, int] = field(default_factory=dict)
    """Steps that any rank has told of, each with its place in the order of the first times."""
    _told: int = 0
    """How many there were before the loss."""
    _is_shared: bool = False
    """Several ranks told of one step before the loss: that two do is no sign of anything."""

    def take(self, at: datetime, text: str, now: float) -> None:
        """Read a line that was printed at `at` and heard of `now`; none once it is full."""
        step = None if self.is_full else parse_step(text)
        if step is None:
            return
        self.lines += 1
        rank = parse_rank(text)
        self.heard = now
        if step.size is not None:
            self.resized += self.loss is not None and step.size != self.size
            self.size = step.size
        course = self.courses.get(rank) or self._begin_course(rank)
        course.epoch = step.epoch if step.epoch is not None else course.epoch
        before = self._last
        if step.number is not None:
            self._count(course, at, step.number, is_last=step.number == step.total)
            self._last = rank, step.number
        if step.number is None or before[1] != step.number or before[0] == rank:
            self.moments.append(at)

    def _begin_course(self, rank: str) -> Course:
        """One that is heard of for the first time; after a loss, it goes on where others were.

        The rank that told of steps may be the one that was lost: its successor is another process.
        It may have gone on for a moment after its loss was asked for.
        """
        course = Course()
        if self.loss is not None:
            course.inherited = self._told if self._is_shared else len(self._places)
        self.courses[rank] = course
        return course

    def mark(self) -> None:
        """The loss is now."""
        if self.loss is None:
            self.loss, self.size_before = len(self.moments), self.size
            self._told = len(self._places)
            self._is_shared = self._told < sum(len(c.seen) for c in self.courses.values())
            self.limit = self._find_limit()
            self.spacing = round(median(self._strides)) if self._strides else 1

    @property
    def is_full(self) -> bool:
        """Nothing more is taken."""
        return self.lines >= MOST_LINES

    @property
    def tells(self) -> bool:
        """Whether it tells of steps at all."""
        return bool(self.moments)

    @property
    def signs(self) -> tuple[int, int, int]:
        """What its steps show of a loss: how many pauses, changes of size, and steps again."""
        return len(self.list_pauses()), self.resized, self.again

    @property
    def again(self) -> int:
        """Steps that were told of before, and once more since the loss, by one rank."""
        return max((course.again for course in self.courses.values()), default=0) * self.spacing

    @property
    def usual(self) -> float | None:
        """Seconds from one step to the next, before the loss; None where too few were seen."""
        gaps = _list_gaps(self.moments[: self.loss])
        return median(gaps) if gaps else None

    def list_pauses(self, silent: float = 0.0) -> list[float]:
        """Seconds without a step since the loss, longer than usual; it is `silent` for so long.

        None are told where nobody knows what is usual.
        """
        if self.loss is None or self.usual is None:
            return []
        start = max(self.loss - 1, 0)
        gaps = [*_list_gaps(self.moments[start:]), silent]
        return [gap for gap in gaps if gap > self.limit]

    def _find_limit(self) -> float:
        usual = self.usual or 0.0
        return max(3 * usual, usual + LEAST_PAUSE)

    def _count(self, course: Course, at: datetime, number: int, *, is_last: bool) -> None:
        if course.is_last_of_lap and number <= 1:
            course.lap += 1
        course.is_last_of_lap = is_last
        key = (course.epoch, course.lap, number)
        is_soon = course.at is not None and (at - course.at).total_seconds() <= self.limit
        course.at = at
        if key == course.last and self.loss is None:
            self._draws_again = True
            return
        if key == course.last and is_soon and self._draws_again:
            return  # drawn again as before; a ring that is built at once trains it again as soon
        is_old = key in course.seen or self._places.get(key, course.inherited) < course.inherited
        if self.loss is not None:
            course.again += is_old
        elif course.last is not None and number > course.last[2]:
            self._strides.append(number - course.last[2])
        self.is_ahead = not is_old
        course.seen.add(key)
        self._places.setdefault(key, len(self._places))
        course.last = key


def _list_gaps(moments: Sequence[datetime]) -> list[float]:
    return [max((other - one).total_seconds(), 0.0) for one, other in pairwise(moments)]
