"""The resources that queues share: those of nodes in another pool are other ones.

A pool is all nodes with one value of the label that an administrator has chosen. What is shared is
one row of columns a pool, each row as a room has them; with one pool it is as the room has it.
Places for pods are counted with the rest and limited as it is, but nobody's share of it: any pod
takes one, so that who has many small ones would have most of all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

import numpy as np

from et_scheduler.model.shapes import PODS, Shape
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts, Room, to_amounts

Piece = int
"""A pod as the books have it, its shape and the pool by which it counts, by its number."""
MOST_POOLS = 64
"""A label with more values is of no pools: the nodes of all further ones are in the last."""
_MOST = 2**56
"""What anybody asks for counts for no more in a pool: sums over all of them still fit 64 bits."""


class Pools:
    """The pools of a room, in the order of their names; `left`: what others leave of the total.

    `list_many`: kinds of pods of which there are too many to look for each on all nodes.
    """

    def __init__(self, room: Room, list_many: Callable[[], Collection[Shape]] = tuple) -> None:
        self._room, self._list_many = room, list_many
        self.resources = room.resources
        self.names = sorted({node.pool for node in room.nodes})[:MOST_POOLS] or [""]
        numbers = {name: number for number, name in enumerate(self.names)}
        last = len(self.names) - 1
        self.by_node = {node.name: numbers.get(node.pool, last) for node in room.nodes}
        self._numbers = np.array([*self.by_node.values()], dtype=np.intp)
        self._pieces: dict[tuple[Shape, int | None], Piece] = {}
        self.vectors: list[Counts] = []
        self.total = self._count_on(room.allocatable)
        self.left = self._count_on(np.maximum(room.later, 0))  # before any job is seated in it

    def find_piece(self, shape: Shape, node: str = "") -> Piece:
        """As what a pod counts: by the pool of its node; without one that is there by its home."""
        return self.get_piece(shape, self.by_node.get(node))

    def get_piece(self, shape: Shape, pool: int | None = None) -> Piece:
        """As what a pod counts in this pool, or in its home."""
        piece = self._pieces.get((shape, pool))
        if piece is None:
            piece = self._add(shape, pool)
        return piece

    def get_vector(self, shape: Shape) -> Counts:
        """What a pod of this shape takes of what is shared, before it has a node."""
        return self.vectors[self.get_piece(shape)]

    def _add(self, shape: Shape, pool: int | None) -> Piece:
        if pool is None:
            self._pieces[shape, None] = self.get_piece(shape, self._find_home(shape))
            return self._pieces[shape, None]
        vector = np.zeros_like(self.total)
        start = pool * self._width
        vector[start : start + self._width] = self._room.get_vector(shape)
        self.vectors.append(vector)
        self._pieces[shape, pool] = len(self.vectors) - 1
        return len(self.vectors) - 1

    def _find_home(self, shape: Shape) -> int:
        """By which pool such a pod counts before it has a node: where most of them could be.

        Of one of many kinds where most could be if they might be anywhere.
        """
        if len(self.names) == 1:
            return 0
        room, is_one_of_many = self._room, shape in self._many
        count = room.count_by_size if is_one_of_many else room.count_empty
        fits = np.bincount(self._numbers, count(shape), minlength=len(self.names))
        return int(fits.argmax())

    @cached_property
    def _many(self) -> Collection[Shape]:
        return self._list_many()

    def split(self, amounts: Counts) -> Counts:
        """The amounts a row a pool; what is changed there is changed in them."""
        return amounts.reshape(len(self.names), self._width)

    def sum_up(self, amounts: Counts) -> Counts:
        """By resource, whatever pool it is of: so limits count."""
        if len(self.names) == 1:
            return amounts
        found: Counts = self.split(np.minimum(amounts, _MOST)).sum(axis=0)
        return found

    def name(self, amounts: Counts, *, with_places: bool = False) -> Mapping[str, int]:
        """The amounts by the names of resources, what is 0 left out."""
        found = self.sum_up(amounts)
        places = {PODS: int(found[0])} if with_places and found[0] else {}
        return {**to_amounts(self._room, found), **places}

    @cached_property
    def is_shared(self) -> Mask:
        """By column, whether it is shared by weight: all are but places for pods."""
        found: Mask = np.ones_like(self.total, dtype=np.bool_)
        found[:: self._width] = False
        return found

    @property
    def _width(self) -> int:
        return len(self._room.resources)

    def _count_on(self, amounts: Counts) -> Counts:
        """Sums of these amounts a node, of those that have room at all."""
        has_room = np.array([node.has_room for node in self._room.nodes], dtype=np.bool_)
        total: Counts = np.zeros((len(self.names), self._width), dtype=np.int64)
        np.add.at(total, self._numbers[has_room], amounts[has_room])
        return total.reshape(-1)
