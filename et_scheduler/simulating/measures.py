"""Numbers that reports are made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from et_scheduler.model.shapes import CPU, Shape
from et_scheduler.planning.rooms import to_amounts
from et_scheduler.simulating.world import World


def compute_jain(sizes: Sequence[int]) -> float:
    """Fairness of Jain: 1 where all have the same, 1/n where one has everything."""
    squares = sum(size * size for size in sizes)
    return sum(sizes) ** 2 / (len(sizes) * squares) if squares else 0.0


def compute_use(world: World, resource: str = CPU) -> float:
    """What all pods on nodes request, as a share of the cluster."""
    room = world.binder.room
    left = to_amounts(room, room.now.sum(axis=0)).get(resource, 0)
    return 1 - left / to_amounts(room, room.total())[resource]


def compute_bound(world: World, worker: Shape, resource: str = CPU) -> float:
    """The most that could be used with services where they lie, and workers of this shape."""
    room = world.binder.room
    column = room.columns[resource]
    taken = np.zeros_like(room.allocatable)
    for pod in world.services:
        if pod.place is not None:
            taken[pod.place] += room.get_vector(pod.shape)
    fits = room.count_empty(worker, taken)
    used = taken[:, column].sum() + (fits * room.get_vector(worker)[column]).sum()
    return float(used / room.allocatable[:, column].sum())


def mean(values: Sequence[float]) -> float:
    """0 where there are none."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """By rank, without interpolation; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
