"""Ports of nodes: each is there once, whatever else is free.

A part of a room (rooms.py), which alone calls it: what is taken there by resources is not known
here. An author may ask for hundreds of ports: pods that ask for the same ones are a kind, and are
counted as such. For each node a number says by its bits which kinds are there, for each kind
another with which kinds it shares a port, and no port is looked at again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain
from operator import not_, or_
from typing import Self

import numpy as np
from numpy.typing import NDArray

from et_scheduler.model.cluster import Node
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.matching import Mask

Rows = slice | NDArray[np.intp]
"""All nodes, or the places of some."""
Coming = dict[int, Counter[int]]
"""By kind, how many of its pods more are on which nodes now than later."""
_FEW = 4
"""The nodes of so many kinds are looked up one by one; of more, all nodes are looked at."""


class Ports:
    """Who has which, now and later, as a room has what is free.

    What others than jobs have is always taken. Of jobs each pod is counted: one that goes may have
    what another is to have.
    """

    def __init__(self, nodes: Sequence[Node], shapes: Iterable[Shape] = ()) -> None:
        """Of the nodes' ports those count that one of the shapes asks for."""
        self._kinds = _Kinds()
        for ports in {shape.host_ports for shape in shapes}:
            self._kinds.get_number(ports)
        wanted = self._kinds.list_ports()
        self._of_others = [node.ports for node in nodes]
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        asked_for = {ports: ports & wanted for node in nodes for ports in node.ports}
        for place, node in enumerate(nodes):
            for port in chain.from_iterable(map(asked_for.__getitem__, node.ports)):
                self._places[port].append(place)
        self._stranded = [0] * len(nodes)
        self._open: dict[int, Mask] = {}
        self._now, self._later = _Counts(len(nodes)), _Counts(len(nodes))

    def copy(self) -> Self:
        """A copy to try things in."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._now, other._later = self._now.copy(), self._later.copy()
        return other

    def add(
        self, places: Sequence[int], pods: Sequence[int], shape: Shape, *, now: bool = False
    ) -> None:
        """So many more pods of the shape have theirs there later; `now`: they have them already."""
        if shape.host_ports:
            kind = self._kinds.get_number(shape.host_ports)
            for counts in (self._now, self._later) if now else (self._later,):
                counts.add(kind, zip(places, pods, strict=True))

    def strand(self, places: Sequence[int], shape: Shape) -> None:
        """Pods of the shape that do not go have theirs there, as others than jobs have."""
        if shape.host_ports:
            bit = 1 << self._kinds.get_number(shape.host_ports)
            for place in places:
                self._stranded[place] |= bit
            self._open.clear()

    def keep_coming(self) -> Coming:
        """What is taken now is so later as well; answers what must be `expect`ed again."""
        coming = self._now.list_beyond(self._later)
        for kind, counts in coming.items():
            self._later.add(kind, counts.items())
        return coming

    def expect(self, coming: Coming) -> None:
        """The opposite of `keep_coming`."""
        for kind, counts in coming.items():
            self._later.add(kind, ((place, -count) for place, count in counts.items()))

    def match(self, shape: Shape) -> Mask:
        """Where nobody but jobs that may go has one of its ports."""
        kind = self._kinds.get_number(shape.host_ports)
        if kind not in self._open:
            mask = _find_none(self._stranded, self._kinds.list_rivals(kind))
            for port in shape.host_ports & self._places.keys():
                mask[self._places[port]] = False
            self._open[kind] = mask
        return self._open[kind]

    def find_free(self, shape: Shape, rows: Rows, *, later: bool) -> Mask:
        """On which of these nodes nobody has one of its ports, or is kept it.

        Now is never more than later.
        """
        free = self.match(shape)[rows].copy()
        rivals = self._kinds.list_rivals(self._kinds.get_number(shape.host_ports))
        for counts in (self._later,) if later else (self._later, self._now):
            if isinstance(rows, slice):
                counts.bar(free, rivals)
            else:
                free &= _find_none([counts.there[place] for place in rows.tolist()], rivals)
        return free

    def list_taken(self, place: int, shape: Shape) -> set[str]:
        """Which of its ports somebody there has later, or is kept."""
        there = self._stranded[place] | self._later.there[place]
        own = self._kinds.list_shared(shape.host_ports, there)
        return own.union(*map(shape.host_ports.intersection, self._of_others[place]))

    def list_foreign(self, shape: Shape, mask: Mask) -> set[str]:
        """Which of its ports others than jobs have on one of these nodes."""
        known = shape.host_ports & self._places.keys()
        return {port for port in known if mask[self._places[port]].any()}


class _Kinds:
    """Sets of ports by numbers; of several, the bits of one integer."""

    def __init__(self) -> None:
        self._numbers: dict[frozenset[str], int] = {}
        self._sets: list[frozenset[str]] = []
        self._having: dict[str, int] = {}
        self._rivals: dict[int, int] = {}

    def get_number(self, ports: frozenset[str]) -> int:
        """The number of a set of ports, by which pods that ask for it are counted: its kind."""
        number = self._numbers.get(ports)
        if number is None:
            number = self._numbers[ports] = len(self._sets)
            self._sets.append(ports)
            self._rivals.clear()
            bit, having = 1 << number, self._having
            for port in ports:
                had = having.get(port)
                having[port] = bit if had is None else had | bit  # most often one object for all
        return number

    def list_ports(self) -> frozenset[str]:
        """All that one of them has."""
        return frozenset(self._having)

    def list_rivals(self, number: int) -> int:
        """Which have one of its ports, it itself among them."""
        rivals = self._rivals.get(number)
        if rivals is None:
            rivals = reduce(or_, map(self._having.__getitem__, self._sets[number]), 0)
            self._rivals[number] = rivals
        return rivals

    def list_shared(self, ports: frozenset[str], kinds: int) -> set[str]:
        """Which of the ports one of these kinds has."""
        rivals = self.list_rivals(self.get_number(ports)) & kinds
        return set().union(*(ports & self._sets[number] for number in _list_bits(rivals)))


class _Counts:
    """So many pods of each kind on each node; `there` are the kinds on it."""

    def __init__(self, nodes: int) -> None:
        self.there = [0] * nodes
        self._known = 0
        self._by_kind: defaultdict[int, Counter[int]] = defaultdict(Counter)

    def copy(self) -> Self:
        """A copy to try things in."""
        other = object.__new__(type(self))
        other.there, other._known = list(self.there), self._known
        copies = {kind: Counter(counts) for kind, counts in self._by_kind.items()}
        other._by_kind = defaultdict(Counter, copies)
        return other

    def add(self, kind: int, pairs: Iterable[tuple[int, int]]) -> None:
        """So many more pods by node, or fewer."""
        counts, there, bit = self._by_kind[kind], self.there, 1 << kind
        self._known |= bit
        for place, more in pairs:
            count = counts[place] = counts[place] + more
            if count > 0:
                there[place] |= bit
            elif there[place] & bit:
                there[place] ^= bit

    def list_beyond(self, other: _Counts) -> Coming:
        """What there is more of, here than there."""
        pairs = ((kind, counts, other._by_kind[kind]) for kind, counts in self._by_kind.items())
        return {kind: counts - others for kind, counts, others in pairs if counts != others}

    def bar(self, free: Mask, kinds: int) -> None:
        """Take off `free` each node that has a pod of one of these kinds."""
        kinds &= self._known
        if kinds.bit_count() > _FEW:
            free &= _find_none(self.there, kinds)
            return
        for kind in _list_bits(kinds):
            free[[place for place, count in self._by_kind[kind].items() if count > 0]] = False


def _find_none(there: Sequence[int], kinds: int) -> Mask:
    """Where none of these kinds is."""
    return np.fromiter(map(not_, map(kinds.__and__, there)), dtype=np.bool_, count=len(there))


def _list_bits(kinds: int) -> Iterator[int]:
    while kinds:
        bit = kinds & -kinds
        yield bit.bit_length() - 1
        kinds ^= bit
