"""The simulated pods, and the scheduler that binds them as Kubernetes does: emptiest node first.

The scheduler here binds by Kubernetes' order and score, whatever planning has in mind: of that it
takes the arithmetic of a room, and obeys placements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from et_contract.admissions import Placement
from et_scheduler.model.cluster import Node
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.rooms import Room


@dataclass(slots=True, eq=False)
class SimPod:
    """One pod. `owner` is a job's uid, or "" for a service's pod."""

    name: str
    shape: Shape
    created: int
    owner: str = ""
    priority: int = 0
    placement: Placement = field(default_factory=Placement)
    is_launcher: bool = False
    place: int | None = None
    bound_at: int | None = None
    is_draining: bool = False
    is_gone: bool = False


class Binder:
    """Binds what is pending: highest priority first, then oldest, each to the emptiest node."""

    def __init__(self, nodes: Sequence[Node], shapes: Iterable[Shape]) -> None:
        self.room = Room(nodes, shapes)
        self.pending: list[SimPod] = []
        self._is_dirty = False

    def add(self, pod: SimPod) -> None:
        """The pod looks for a node from now on."""
        self.pending.append(pod)
        self._is_dirty = True

    def remove(self, pod: SimPod) -> None:
        """The pod is gone, bound or not."""
        pod.is_gone = True
        if pod.place is None:
            self.pending.remove(pod)
        else:
            self.room.give_back((pod.place,), (1,), pod.shape)
        self._is_dirty = True

    def bind_all(self, now: int) -> list[SimPod]:
        """Bind whatever fits; answers which pods those were."""
        if not self._is_dirty:
            return []
        self._is_dirty = False
        bound = []
        for pod in sorted(self.pending, key=lambda pod: (-pod.priority, pod.created, pod.name)):
            place = self._find(pod)
            if place is not None:
                pod.place, pod.bound_at = place, now
                self.room.take((place,), (1,), pod.shape)
                bound.append(pod)
        self.pending = [pod for pod in self.pending if pod.place is None]
        return bound

    def get_name(self, pod: SimPod) -> str:
        """Of its node, "" until it has one."""
        return "" if pod.place is None else self.room.nodes[pod.place].name

    def _find(self, pod: SimPod) -> int | None:
        """kube-scheduler's LeastAllocated: where most is left, as a share of the node."""
        fits = self.room.count_fits(pod.shape)
        candidates = np.flatnonzero(fits)
        if pod.placement.only:
            only = [self.room.places[name] for name in pod.placement.only]
            candidates = np.array([place for place in only if fits[place]], dtype=np.intp)
        if pod.placement.avoid:
            avoid = [self.room.places[name] for name in pod.placement.avoid]
            candidates = candidates[~np.isin(candidates, avoid)]
        if not candidates.size:
            return None
        left = self.room.now[candidates] / np.maximum(self.room.allocatable[candidates], 1)
        return int(candidates[int(np.argmax(left[:, 1:].sum(axis=1)))])
