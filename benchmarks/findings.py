"""The nouns: a figure is a named measurement, a finding is what came of it.

Data alone: figures make findings, measuring.py keeps and draws them. What is measured and what is
quoted is told apart by `side` and `origin`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.benches import Bench

RUN_HERE = "run here, with this command"


class Place(StrEnum):
    """What a figure needs around it."""

    NOTHING = "nothing"
    CLUSTER = "cluster"
    TRAINING = "cluster with the image that trains"
    SIMULATED = "cluster with simulated nodes"
    SHIPPED = "the same, scheduler and controller manager with the limits that Kubernetes ships"


class Side(StrEnum):
    """Whose a series is: the product's, the same load without the operator, or a peer's."""

    OURS = "ours"
    BARE = "without the operator"
    PEER = "peer"


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one thing, all in `unit`; `origin` says where they come from."""

    label: str
    unit: str
    samples: tuple[float, ...]
    side: Side = Side.OURS
    origin: str = RUN_HERE


@dataclass(frozen=True, slots=True)
class Goal:
    """What was aimed at and what was reached: met when `value` is not above (below) `limit`."""

    text: str
    value: float
    limit: float
    unit: str
    is_floor: bool = False

    @property
    def is_met(self) -> bool:
        """Whether it was reached."""
        return self.value >= self.limit if self.is_floor else self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words and numbers for what is no series."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of cost against size; `name` becomes the file's name.

    Where it `is_stepwise`, each value holds until the next: a picture over time.
    """

    name: str
    title: str
    across: str
    up: str
    lines: tuple[Line, ...]
    is_logarithmic: bool = False
    is_stepwise: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of a way: what was done, who was at it, from when to when in seconds."""

    label: str
    whose: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A picture of one way through several hands, a row a piece; `name` becomes the file's name."""

    name: str
    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """All that a figure has to say."""

    series: tuple[Series, ...] = ()
    goals: tuple[Goal, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    waterfalls: tuple[Waterfall, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: `explanation` says what is measured, how, and what is left out.

    One that `is_asked_for` is so long that it is measured only where it is named.
    """

    title: str
    explanation: str
    measure: Callable[[Bench], Awaitable[Finding]]
    place: Place = Place.CLUSTER
    is_asked_for: bool = False
