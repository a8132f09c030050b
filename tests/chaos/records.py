"""What was seen of a night: plain data, that judges and pages read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.chaos.schedules import Kind, Round
from tests.e2e.histories import Version

STEADY = 8
"""Steps of all wanted ranks, and a round is over."""


@dataclass(frozen=True, slots=True)
class Step:
    """What rank 0 said of one, under the launcher of this uid. `at` as in `Version`."""

    number: int
    size: int
    at: float
    launcher: str = ""


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that was done: when, to which pods, and what else it cost the operator's pod.

    `pods` are uids that live no more when all is well again, `objects` the scalings that it made
    as `plural/name`, `operators` how often the operator had to begin anew for it.
    """

    kind: Kind
    at: float
    pods: frozenset[str] = frozenset()
    objects: tuple[str, ...] = ()
    operators: int = 0
    said: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A round that was lived: `ended` is when all that was broken was mended, `back` when all
    was well again, None if it never was."""

    round: Round
    strikes: tuple[Strike, ...]
    ended: float
    back: float | None


@dataclass(frozen=True, slots=True)
class Record:
    """A whole night of one job.

    `commit_every` is how many steps of it lie between two commits, `bound` how many seconds it may
    take until all is well again; `operators` the lives of the operator that began in it, `left`
    what was there of the job after its deletion.
    """

    job: str
    maximum: int
    commit_every: int
    bound: float
    passages: Sequence[Passage]
    steps: Sequence[Step]
    versions: Sequence[Version]
    operators: frozenset[str] = frozenset()
    left: Sequence[str] = field(default=())

    @property
    def strikes(self) -> list[Strike]:
        """All of them."""
        return [strike for passage in self.passages for strike in passage.strikes]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a round cost the training."""

    still: float
    """Seconds, the longest time without a step."""
    repeated: int
    """Steps that were trained again."""
    back: float | None
    """Seconds from the first fault until all was well again."""


def measure_cost(record: Record, passage: Passage) -> Cost:
    """From the last step before the first fault to the end of the round."""
    began = passage.strikes[0].at
    ended = passage.back if passage.back is not None else float("inf")
    place = max((n for n, step in enumerate(record.steps) if step.at <= began), default=0)
    steps = [step for step in record.steps[place:] if step.at <= ended]
    pairs = list(pairwise(steps))
    return Cost(
        still=max((after.at - max(before.at, began) for before, after in pairs), default=0.0),
        repeated=sum(max(a.number + 1 - b.number, 0) for a, b in pairs),
        back=None if passage.back is None else passage.back - began,
    )
