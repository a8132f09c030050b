"""Ports of nodes: each is there once, whatever else is free.

A part of a room (rooms.py), which alone calls it: what is taken there by resources is not known
here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from et_scheduler.model.cluster import Node
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.matching import Mask

Rows = slice | NDArray[np.intp]
"""All nodes, or the places of some."""
_Counts = defaultdict[str, Counter[int]]
"""For each port how many have it on which nodes: anybody may ask for any, and few have one."""


class Ports:
    """Who has which, now and later, as a room has what is free.

    What others than jobs have is always taken. Of jobs each pod is counted: one that goes may have
    what another is to have.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._count = len(nodes)
        self._open: dict[frozenset[str], Mask] = {}
        self._others: defaultdict[str, set[int]] = defaultdict(set)
        for place, node in enumerate(nodes):
            for port in node.ports:
                self._others[port].add(place)
        self._now: _Counts = defaultdict(Counter)
        self._later: _Counts = defaultdict(Counter)

    def copy(self) -> Self:
        """A copy to try things in."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._now = defaultdict(Counter, {p: Counter(one) for p, one in self._now.items()})
        other._later = defaultdict(Counter, {p: Counter(one) for p, one in self._later.items()})
        return other

    def add(
        self, places: Sequence[int], pods: Sequence[int], shape: Shape, *, now: bool = False
    ) -> None:
        """So many more pods of the shape have theirs there later; `now`: they have them already."""
        for port in shape.host_ports:
            for counts in (self._now, self._later) if now else (self._later,):
                for place, count in zip(places, pods, strict=True):
                    counts[port][place] += count

    def strand(self, places: Sequence[int], shape: Shape) -> None:
        """Pods of the shape that do not go have theirs there, as others than jobs have."""
        for port in shape.host_ports:
            self._others[port].update(places)
            self._open.clear()

    def keep_coming(self) -> dict[str, Counter[int]]:
        """What is taken now is so later as well; answers what must be `expect`ed again."""
        coming = {port: now - self._later[port] for port, now in self._now.items()}
        for port, counts in coming.items():
            self._later[port].update(counts)
        return coming

    def expect(self, coming: dict[str, Counter[int]]) -> None:
        """The opposite of `keep_coming`."""
        for port, counts in coming.items():
            self._later[port].subtract(counts)

    def match(self, shape: Shape) -> Mask:
        """Where nobody but jobs that may go has one of its ports."""
        wanted = shape.host_ports
        if wanted not in self._open:
            mask = np.ones(self._count, dtype=np.bool_)
            for port in wanted & self._others.keys():
                mask[list(self._others[port])] = False
            self._open[wanted] = mask
        return self._open[wanted]

    def find_free(self, shape: Shape, rows: Rows, *, later: bool) -> Mask:
        """On which of these nodes nobody has one of its ports, or is kept it.

        Now is never more than later. Few nodes are looked at one by one: that is asked again for
        each that is taken.
        """
        free = self.match(shape)[rows].copy()
        for counts in (self._later,) if later else (self._later, self._now):
            for port in shape.host_ports & counts.keys():
                there = counts[port]
                if isinstance(rows, slice):
                    free[[place for place, count in there.items() if count > 0]] = False
                else:
                    is_free = (there.get(place, 0) <= 0 for place in rows.tolist())
                    free &= np.fromiter(is_free, dtype=np.bool_, count=len(rows))
        return free

    def list_taken(self, place: int, shape: Shape) -> set[str]:
        """Which of its ports somebody there has later, or is kept."""
        known = shape.host_ports & self._later.keys()
        taken = {port for port in known if self._later[port][place] > 0}
        return taken.union(port for port in shape.host_ports if place in self._others.get(port, ()))
