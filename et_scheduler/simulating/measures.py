"""Measures of a simulation, of which its reports are made: fairness, use, means, percentiles.

Only reads: a simulation in progress, or lists of numbers of one that is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from et_scheduler.model.shapes import CPU, Shape
from et_scheduler.planning.pools import Pools
from et_scheduler.planning.rooms import Room, to_amounts
from et_scheduler.simulating.simulation import Simulation


def compute_jain(sizes: Sequence[int]) -> float:
    """Fairness of Jain: 1 where all have the same, 1/n where one has everything."""
    squares = sum(size * size for size in sizes)
    return sum(sizes) ** 2 / (len(sizes) * squares) if squares else 0.0


def compute_use(simulation: Simulation, resource: str = CPU) -> float:
    """What all pods on nodes request, as a share of the cluster."""
    room = simulation.binder.room
    left = to_amounts(room, room.now.sum(axis=0)).get(resource, 0)
    pools = Pools(room)
    return 1 - left / pools.name(pools.total)[resource]


def compute_bound(simulation: Simulation, worker: Shape) -> float:
    """The most that could be used with services and launchers where they lie, and workers."""
    bound = [(pod.place, pod.shape) for pod in simulation.services if pod.place is not None]
    for sim in simulation.jobs.values():
        bound += [(p.place, p.shape) for p in sim.pods if p.is_launcher and p.place is not None]
    return compute_most(simulation.binder.room, bound, worker)


def compute_most(
    room: Room, rigid: Iterable[tuple[int, Shape]], worker: Shape, resource: str = CPU
) -> float:
    """The share of the cluster that is used if workers fill what these pods leave of nodes."""
    column = room.columns[resource]
    taken = np.zeros_like(room.allocatable)
    for place, shape in rigid:
        taken[place] += room.get_vector(shape)
    fits = room.count_without(worker, taken)
    used = taken[:, column].sum() + (fits * room.get_vector(worker)[column]).sum()
    return float(used / room.allocatable[:, column].sum())


def mean(values: Sequence[float]) -> float:
    """0 where there are none."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """By rank, without interpolation; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
