"""What jobs had of a cluster in one of EDL's experiments, beside what there was to have.

Only computes, from lives that were noted and by the measures of et-scheduler's simulator, so that
both are measured by one rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from benchmarks.experiments import LEAST, NODE_TYPE
from benchmarks.findings import Chart, Goal, Line, Table
from benchmarks.lives import Kind, Life, Lives, trace
from et_scheduler.model.shapes import CPU, Shape
from et_scheduler.planning.rooms import Room
from et_scheduler.simulating.cases import (
    COMPANION,
    LAUNCHER,
    SERVICE,
    TRAINER,
    Rest,
    build_nodes,
)
from et_scheduler.simulating.measures import compute_most, mean

SHAPES: Mapping[Kind, Shape] = {
    Kind.LAUNCHER: LAUNCHER,
    Kind.TRAINER: TRAINER,
    Kind.COMPANION: COMPANION,
    Kind.SERVICE: SERVICE,
}
SOON = 20.0
"""Seconds after a change in which the cluster is to be full again."""
AGREEMENT = 5.0
"""Percent that simulation and cluster may differ by."""
REST_NOTE = (
    "Sizes at rest: who gives room for pods of others depends on the nodes where kube-scheduler "
    "wants them, which no run repeats, and between running jobs nothing is levelled within a fifth "
    "of their level, for that would cost resizes. So jobs come to rest at sizes that are that far "
    "apart, in the simulator at other ones than here."
)


@dataclass(frozen=True)
class Shares:
    """What came of one run: its pods, when its jobs were created, and when it was over."""

    lives: Lives
    jobs: Mapping[str, float]
    until: float

    @cached_property
    def room(self) -> Room:
        """The empty nodes."""
        nodes = (replace(node, name=f"{NODE_TYPE}-{node.name}") for node in build_nodes())
        return Room(nodes, SHAPES.values())

    @cached_property
    def total(self) -> int:
        """Thousandths of a CPU."""
        return sum(node.allocatable[CPU] for node in self.room.nodes)

    def measure_use(self, at: float) -> float:
        """Share of all CPU that pods on nodes requested then."""
        there = self.lives.list_there(at)
        return sum(dict(SHAPES[life.kind].requests)[CPU] for life in there) / self.total

    def measure_bound(self, at: float) -> float:
        """The share of all CPU if trainers filled what all other pods left where these were."""
        rigid = (
            (self.room.places[life.node], SHAPES[life.kind])
            for life in self.lives.list_there(at)
            if life.kind is not Kind.TRAINER
        )
        return compute_most(self.room, rigid, TRAINER)

    def look(self, at: float) -> Rest:
        """The cluster as it was then."""
        sizes = sorted(self.lives.count_trainers(job, at) for job in self.jobs)
        return Rest(tuple(sizes), self.measure_use(at), self.measure_bound(at))

    def list_firsts(self) -> list[float]:
        """Seconds from each job's creation to its first trainer's node."""
        return [self._measure(job, 1, Kind.TRAINER) for job in self.jobs]

    def list_gangs(self) -> list[float]:
        """Seconds from each job's creation to the nodes of its launcher and its least trainers."""
        return [
            max(self._measure(job, LEAST, Kind.TRAINER), self._measure(job, 1, Kind.LAUNCHER))
            for job in self.jobs
        ]

    def count_started(self) -> int:
        """Jobs that had launcher and least trainers."""
        return sum(
            self.lives.find_first(job, LEAST, Kind.TRAINER) is not None
            and self.lives.find_first(job, 1, Kind.LAUNCHER) is not None
            for job in self.jobs
        )

    def list_waits(self, kind: Kind) -> list[float]:
        """Seconds that each of these pods was without a node."""
        return [life.measure_wait(self.until) for life in self.lives.select(kind)]

    def list_ended(self, *, is_preempted: bool) -> list[Life]:
        """Trainers that had a node and were told to go: by kube-scheduler, or by us."""
        return [
            life
            for life in self.lives.select(Kind.TRAINER)
            if life.bound is not None
            and (life.leaving or life.gone or self.until) < self.until
            and life.is_preempted is is_preempted
        ]

    def draw_trainers(self, name: str, title: str) -> Chart:
        """Trainers of each job over time."""
        lines = (Line(job, tuple(trace(self._count(job), self.until))) for job in sorted(self.jobs))
        return Chart(name, title, "seconds", "trainers on nodes", tuple(lines), is_stepwise=True)

    def trace_use(self, label: str) -> Line:
        """Percent of all CPU that was requested on nodes, over time."""
        return Line(label, tuple(trace(lambda at: _percent(self.measure_use(at)), self.until)))

    def trace_bound(self, label: str) -> Line:
        """Percent of all CPU that could have been, over time."""
        return Line(label, tuple(trace(lambda at: _percent(self.measure_bound(at)), self.until)))

    def _count(self, job: str) -> Callable[[float], float]:
        return lambda at: float(self.lives.count_trainers(job, at))

    def _measure(self, job: str, count: int, kind: Kind) -> float:
        found = self.lives.find_first(job, count, kind)
        return (self.until if found is None else found) - self.jobs[job]


def draw_use(name: str, title: str, ours: Shares, off: Shares) -> Chart:
    """CPU over time: what there is room for, and what was requested with and without a queue."""
    lines = (
        ours.trace_use("with et-scheduler"),
        ours.trace_bound("the most that there is room for"),
        off.trace_use("without a queue"),
    )
    return Chart(name, title, "seconds", "% of all CPU", lines, is_stepwise=True)


def measure_delay(gangs: Sequence[float]) -> int:
    """Milliseconds from what was asked for to pods on nodes here, as the simulator is to have it.

    Without any it decides of a cluster that is always as it should be, and shares more evenly.
    """
    return round(1000 * median(gangs))


def compare(rests: Sequence[Rest], simulated: Sequence[Rest]) -> tuple[Goal, Goal]:
    """How far the simulation is off where it is most: in sizes, job by job, and in CPU."""
    sizes = max(_compare_sizes(one, other) for one, other in zip(rests, simulated, strict=True))
    pairs = zip(rests, simulated, strict=True)
    use = max(abs(one.use - other.use) / one.use for one, other in pairs)
    return (
        Goal("sizes at rest, simulation to KWOK, difference", 100 * sizes, AGREEMENT, "%"),
        Goal("CPU at rest, simulation to KWOK, difference", 100 * use, AGREEMENT, "%"),
    )


def tabulate(titles: Sequence[str], rests: Sequence[Rest], simulated: Sequence[Rest]) -> Table:
    """Both at rest, side by side."""
    rows = tuple(
        (title, *_describe(one), *_describe(other))
        for title, one, other in zip(titles, rests, simulated, strict=True)
    )
    head = ("when", "trainers", "CPU, %", "of the bound, %")
    return Table(
        "At rest, on KWOK and in the simulator",
        (*head, *(f"{word}, simulated" for word in head[1:])),
        rows,
    )


def _compare_sizes(rest: Rest, simulated: Rest) -> float:
    """Mean difference of what the first, second, ... of the jobs has, to the mean size."""
    pairs = zip(rest.sizes, simulated.sizes, strict=True)
    return mean([abs(one - other) for one, other in pairs]) / max(mean(rest.sizes), 1)


def _describe(rest: Rest) -> tuple[str, str, str]:
    sizes = f"{sum(rest.sizes)} ({rest.sizes[0]} to {rest.sizes[-1]})"
    return sizes, f"{100 * rest.use:.1f}", f"{100 * rest.use / rest.bound:.1f}"


def _percent(share: float) -> float:
    return round(100 * share, 1)
