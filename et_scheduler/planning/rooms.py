"""What is free on each node, now and later, and how many pods of a shape fit there.

*Later* is what will be free when all have gone who were asked to go, and nodes are ready again,
less what is held for those who wait for it. *Now* is never more than later: room that is held is
nobody else's. Both are changed by sums alone, so that whatever was tried is taken back by its
opposite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from et_scheduler.model.cluster import Node
from et_scheduler.model.shapes import PODS, Amounts, Shape
from et_scheduler.planning.matching import Mask, Traits
from et_scheduler.planning.ports import Ports, Rows

Counts = NDArray[np.int64]
"""One number for each node, by its place."""
Placed = Sequence[tuple[Shape, Sequence[int]]]
"""Pods by what they take, each by the place of its node."""
_Key = tuple[Shape, Shape | None, bool]
_MOST = 2**60
"""What anybody says is on a node counts for no more: sums of it still fit 64 bits."""


class Room:
    """The nodes in the order of their names, and the resources that anybody here requests.

    Anybody may request any name. One that no node has, and that is not `limited`, has no column:
    who requests it fits nowhere, and that is all there is to know about it.

    Pods of others that were asked to go by `overdue_since` are on their nodes, and nobody waits
    for them; nor for those of jobs that are stranded (`is_stranded`: there are some). `vacated` is
    what there is without the jobs that may go, and without those of others that go, a row a node.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        shapes: Iterable[Shape],
        limited: Iterable[str] = (),
        overdue_since: int = 0,
    ) -> None:
        self.nodes: Sequence[Node] = sorted(nodes, key=lambda node: node.name)
        self.places = {node.name: place for place, node in enumerate(self.nodes)}
        self.hostnames = [n.name if n.hostname is None else n.hostname for n in self.nodes]
        self.named: dict[str, list[int]] = {}
        for place, name in enumerate(self.hostnames):
            self.named.setdefault(name, []).append(place)
        shapes = {*shapes}
        requested = {name for shape in shapes for name, _ in shape.requests}
        self._offered = {name for node in self.nodes for name in node.allocatable}
        known = self._offered.union(limited)
        self.resources = (PODS, *sorted(requested & known - {PODS}))
        self.columns = {name: column for column, name in enumerate(self.resources)}
        self.allocatable = self._read([node.allocatable for node in self.nodes])
        taken = self._read([node.taken for node in self.nodes])
        leaving = self._read([node.sum_leaving(overdue_since) for node in self.nodes])
        self.vacated = self.allocatable - (taken - leaving)
        self.is_stranded = False
        self.now = self.allocatable - taken
        self.later = self.now + leaving
        unready = [p for p, node in enumerate(self.nodes) if node.unready_since is not None]
        self.now[unready] = np.minimum(self.now[unready], 0)
        self.unready = frozenset(unready)
        self._traits = Traits(self.nodes)
        self._masks: dict[Shape, Mask] = {}
        self._holdable: dict[Shape, bool] = {}
        self._takeable: dict[Shape, bool] = {}
        self._vectors: dict[Shape, Counts] = {}
        self._amounts: dict[Shape, list[int]] = {}
        self._changed: list[int] = []
        self._caps: dict[_Key, _Caps] = {}
        self._vacated: dict[tuple[Shape, Shape | None], Counts] = {}
        self._ports = Ports(self.nodes, shapes)

    def copy(self) -> Self:
        """A copy of the room to try things in."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.now, other.later = self.now.copy(), self.later.copy()
        other._changed, other._caps = [], {}
        other._ports = self._ports.copy()
        return other

    def get_vector(self, shape: Shape) -> Counts:
        """What a pod of this shape takes, by column; a place for a pod among it."""
        if shape not in self._vectors:
            vector = self._read([dict(shape.requests)])[0]
            vector[0] = 1
            self._vectors[shape] = vector
        return self._vectors[shape]

    def get_amounts(self, shape: Shape) -> list[int]:
        """The amounts as plain numbers, for what is done to one node after the other."""
        amounts = self._amounts.get(shape)
        if amounts is None:
            amounts = self._amounts[shape] = self.get_vector(shape).tolist()
        return amounts

    def get_mask(self, shape: Shape) -> Mask:
        """On which nodes such a pod may be at all, whoever else is there."""
        if shape not in self._masks:
            if self.is_offered(shape):
                self._masks[shape] = self._traits.match(shape)
            else:
                self._masks[shape] = np.zeros(len(self.nodes), dtype=np.bool_)
        return self._masks[shape]

    def match(self, shape: Shape) -> Mask:
        """Where such a pod may be once all jobs that may go have gone: others keep their ports."""
        mask = self.get_mask(shape)
        return mask & self._ports.match(shape) if shape.host_ports else mask

    def is_offered(self, shape: Shape) -> bool:
        """Whether all that it requests is on some node, of whatever amount."""
        return all(name in self._offered for name, _ in shape.requests)

    def could_hold(self, shape: Shape) -> bool:
        """Whether any node is large enough for one, whatever else keeps it from there."""
        if shape not in self._holdable:
            is_large = (self._kinds[0] >= self.get_vector(shape)).all(axis=1).any()
            self._holdable[shape] = self.is_offered(shape) and bool(is_large)
        return self._holdable[shape]

    def could_take(self, shape: Shape) -> bool:
        """Whether a node that such a pod may be on would hold it, with nothing else there."""
        if shape not in self._takeable:
            is_large = self.could_hold(shape)  # thousands may ask for more than any node has
            self._takeable[shape] = is_large and bool(self.count_empty(shape).any())
        return self._takeable[shape]

    def count_fits(
        self, shape: Shape, *, later: bool = False, beside: Shape | None = None
    ) -> Counts:
        """How many such pods fit on each node; with `beside`, after one of that shape is there."""
        key = (shape, beside, later)
        caps = self._caps.get(key)
        if caps is None:
            fits = self._count(slice(None), shape, beside, later=later)
            caps = self._caps[key] = _Caps(fits, len(self._changed))
        elif caps.seen < len(self._changed):
            self._renew(key, caps)
        return caps.fits

    def has_more(self, place: int, shape: Shape) -> bool:
        """Whether, where such pods are already, one more fits now: none with a port does."""
        free = zip(
            self.get_amounts(shape),
            self.now[place].tolist(),
            self.later[place].tolist(),
            strict=True,
        )
        return not shape.host_ports and all(n <= min(now, then) for n, now, then in free if n)

    def find_kept(self, shape: Shape, rows: Rows = slice(None)) -> Mask:
        """Where more such pods would be bound now than have room: the rest is kept for others."""
        bound = self._cap(rows, self.divide(self.now[rows], shape), shape)
        if shape.host_ports:
            bound = np.where(self._ports.find_free(shape, rows, later=False), bound, 0)
        kept: Mask = bound > self.count_fits(shape)[rows]
        return kept

    def mark(self) -> int:
        """The room as it is now, for `return_to`."""
        return len(self._changed)

    def return_to(self, mark: int) -> None:
        """All that was changed since then has been changed back."""
        for key, caps in self._caps.items():
            if caps.seen > mark:
                self._renew(key, caps)
                caps.seen = mark
        del self._changed[mark:]

    def count_all(self, shape: Shape, *, later: bool = False) -> int:
        """How many such pods fit on all nodes together."""
        fits = self.count_fits(shape, later=later)
        caps = self._caps[shape, None, later]
        if caps.total is None:
            caps.total = int(fits.sum())
        return caps.total

    def count_empty(self, shape: Shape, beside: Shape | None = None) -> Counts:
        """How many would fit on each node if it had nothing, or only that pod, on it."""
        kinds, numbers = self._kinds
        left = kinds if beside is None else kinds - self.get_vector(beside)
        fits = self._cap(slice(None), self.divide(left, shape)[numbers], shape)
        return self._leave_out_beside(fits, shape, beside)

    def count_by_size(self, shape: Shape) -> Counts:
        """So many as `count_empty` says, if they might be on any node."""
        kinds, numbers = self._kinds
        fits: Counts = self.divide(kinds, shape)[numbers]
        return fits

    def count_without(self, shape: Shape, taken: Counts) -> Counts:
        """How many would fit if each node had nothing but that, a row a node, on it."""
        return self._cap(slice(None), self.divide(self.allocatable - taken, shape), shape)

    @cached_property
    def _kinds(self) -> tuple[Counts, NDArray[np.intp]]:
        """What nodes have, equal ones once; and as which of these each node is."""
        known: dict[tuple[int, ...], int] = {}
        rows = map(tuple, self.allocatable.tolist())
        numbers = np.array([known.setdefault(row, len(known)) for row in rows], dtype=np.intp)
        return np.array([*known], dtype=np.int64).reshape(-1, len(self.resources)), numbers

    def count_without_jobs(self, shape: Shape, beside: Shape | None = None) -> Counts:
        """How many would fit without the jobs that may go: what others have is taken, ports too."""
        found = self._vacated.get((shape, beside))
        if found is None:
            found = self._vacated[shape, beside] = self.count_in(self.vacated, shape, beside)
        return found

    def count_beside_own(self, shape: Shape, own: Placed) -> Counts:
        """As `count_without_jobs`, where these pods stay of the job that asks."""
        return self.count_beside(self.count_without_jobs(shape), self.vacated, shape, own)

    def count_in(self, free: Counts, shape: Shape, beside: Shape | None = None) -> Counts:
        """How many would fit if so much were free, a row a node, and the ports of all jobs."""
        left = free if beside is None else free - self.get_vector(beside)
        fits = np.where(
            self.match(shape), self._cap(slice(None), self.divide(left, shape), shape), 0
        )
        return self._leave_out_beside(fits, shape, beside)

    def count_beside(self, fits: Counts, free: Counts, shape: Shape, there: Placed) -> Counts:
        """How many of those that fit do so where these pods stay, of so much free, a row a node."""
        places = sorted({place for _, some in there for place in some})
        rows = {place: row for row, place in enumerate(places)}
        left, found = free[places], fits.copy()
        for other, some in there:
            counts = np.bincount([rows[place] for place in some], minlength=len(places))
            left -= np.outer(counts, self.get_vector(other))
        found[places] = np.minimum(fits[places], self.divide(left, shape))
        for other, some in there:
            if not shape.host_ports.isdisjoint(other.host_ports):
                found[list(some)] = 0
        return found

    def divide(self, amounts: Counts, shape: Shape) -> Counts:
        """How many such pods these amounts hold, a row a node.

        Resources that the shape does not request do not count, were they overdrawn.
        """
        found = amounts[:, 0]  # a place each
        for column, amount in enumerate(self.get_amounts(shape)[1:], 1):
            if amount:
                found = np.minimum(found, amounts[:, column] // amount)
        return np.maximum(found, 0)

    def take(self, places: Sequence[int], pods: Sequence[int], shape: Shape) -> None:
        """So many pods of the shape are on these nodes, each named once, from now on."""
        self._ports.add(places, pods, shape, now=True)
        amounts = np.outer(pods, self.get_vector(shape))
        self.now[list(places)] -= amounts
        self._add(places, -amounts)

    def strand(self, places: Sequence[int], pods: Sequence[int], shape: Shape) -> None:
        """So many pods of the shape that are taken there do not go: as if others had them."""
        self.is_stranded = True
        self._ports.strand(places, shape)
        self.vacated[list(places)] -= np.outer(pods, self.get_vector(shape))
        self._vacated.clear()

    def hold(self, places: Sequence[int], pods: Sequence[int], shape: Shape) -> None:
        """What will be free there is kept for so many pods of the shape."""
        self._ports.add(places, pods, shape)
        self._add(places, -np.outer(pods, self.get_vector(shape)))

    def expect(self, places: Sequence[int], pods: Sequence[int], shape: Shape) -> None:
        """So many pods of the shape will go from these nodes; also the opposite of `hold`."""
        self._ports.add(places, [-n for n in pods], shape)
        self._add(places, np.outer(pods, self.get_vector(shape)))

    def keep(self, amounts: Counts) -> None:
        """So much, a row a node, is nobody's later; the opposite takes that back."""
        places = np.flatnonzero(amounts.any(axis=1)).tolist()
        self._add(places, -amounts[places])

    def give_back(self, places: Sequence[int], pods: Sequence[int], shape: Shape) -> None:
        """The opposite of `take`."""
        self._ports.add(places, [-n for n in pods], shape, now=True)
        amounts = np.outer(pods, self.get_vector(shape))
        self.now[list(places)] += amounts
        self._add(places, amounts)

    @contextmanager
    def without_coming(self) -> Iterator[None]:
        """Meanwhile what others leave does not count; what is given in it does."""
        coming = np.maximum(self.later - self.now, 0)
        ports = self._ports.keep_coming()
        there = {place for counts in ports.values() for place in counts}
        places = sorted(there.union(np.flatnonzero(coming.any(axis=1)).tolist()))
        self._add(places, -coming[places])
        yield
        self._ports.expect(ports)
        self._add(places, coming[places])

    def list_taken_ports(self, place: int, shape: Shape) -> set[str]:
        """Which of its ports somebody has, or is kept, on that node later."""
        return self._ports.list_taken(place, shape) if shape.host_ports else set()

    def list_ports_of_others(self, shape: Shape) -> set[str]:
        """Which of its ports others than jobs have on nodes where it may be."""
        return self._ports.list_foreign(shape, self.get_mask(shape)) if shape.host_ports else set()

    def _leave_out_beside(self, fits: Counts, shape: Shape, beside: Shape | None) -> Counts:
        """`fits`, or none on any node where the pod that comes beside has one of their ports."""
        if beside is not None and not shape.host_ports.isdisjoint(beside.host_ports):
            return np.zeros_like(fits)
        return fits

    def _add(self, places: Sequence[int], amounts: Counts) -> None:
        self.later[list(places)] += amounts
        self._changed.extend(places)

    def _renew(self, key: _Key, caps: _Caps) -> None:
        places = np.array(sorted(set(self._changed[caps.seen :])), dtype=np.intp)
        shape, beside, later = key
        caps.fits[places] = self._count(places, shape, beside, later=later)
        caps.total, caps.seen = None, len(self._changed)

    def _count(self, rows: Rows, shape: Shape, beside: Shape | None, *, later: bool) -> Counts:
        amounts = self.later[rows]
        if not later:
            amounts = np.minimum(amounts, self.now[rows])
        if beside is not None:
            amounts = amounts - self.get_vector(beside)
        fits = self._cap(rows, self.divide(amounts, shape), shape)
        if not shape.host_ports:
            return fits
        fits = np.where(self._ports.find_free(shape, rows, later=later), fits, 0)
        return self._leave_out_beside(fits, shape, beside)

    def _cap(self, rows: Rows, fits: Counts, shape: Shape) -> Counts:
        """A port of a node is there once, whatever else is free."""
        most = np.minimum(fits, 1) if shape.host_ports else fits
        return np.where(self.get_mask(shape)[rows], most, 0)

    def _read(self, rows: Sequence[Amounts]) -> Counts:
        flat = [row.get(name, 0) for row in rows for name in self.resources]
        if max(flat, default=0) > _MOST:
            flat = [min(amount, _MOST) for amount in flat]
        return np.array(flat, dtype=np.int64).reshape(len(rows), len(self.resources))


class _Caps:
    """What fits, as of so many changes; `total` once somebody has asked."""

    __slots__ = ("fits", "seen", "total")

    def __init__(self, fits: Counts, seen: int) -> None:
        self.fits = fits
        self.seen = seen
        self.total: int | None = None


def to_amounts(room: Room, vector: Counts) -> Mapping[str, int]:
    """A vector by the names of its resources, without places for pods and what is 0."""
    pairs = zip(room.resources, vector.tolist(), strict=True)
    return {name: amount for name, amount in pairs if amount and name != PODS}
