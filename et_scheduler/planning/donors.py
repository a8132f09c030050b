"""A bound from above for what could be given at all: most who wait are answered by it alone.

Computed once in a pass. It counts every worker of a job that may give, and is not lowered when
somebody gives: what it says does not fit, does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Pod
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, count_largest
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts
from et_scheduler.planning.standings import Standing

Group = tuple[str, int]
"""A queue and a priority: who may be asked for whom depends on nothing else."""
Floats = NDArray[np.float64]
_NEARLY = 1 - 1e-9
"""Sums of thousands of nodes are rounded: nothing is refused for that."""
_MANY = 2**40
"""More places for pods than there are pods."""
_Entries = list[tuple[int, int]]


class Donors:
    """Who could give workers, and who could go as a whole, by group; `first` stands for each.

    `smallest` is the least that goes with anybody of the group, by resource; `places` are the nodes
    of who could go, by uid.
    """

    def __init__(self, draft: Draft) -> None:
        self._room = draft.room
        self._shapes: list[Shape] = []
        self._numbers: dict[Shape, int] = {}
        self.first: dict[Group, Standing] = {}
        self.givers: dict[Group, list[Standing]] = defaultdict(list)
        self.evictable: dict[Group, list[Standing]] = defaultdict(list)
        self.smallest: dict[Group, Counts] = {}
        self.places: dict[str, set[int]] = {}
        width = len(draft.room.resources)  # else the room would stay until it is collected
        self._spare: dict[Group, Floats] = defaultdict(lambda: np.zeros(width))
        workers: dict[Group, _Entries] = defaultdict(list)
        wholes: dict[Group, _Entries] = defaultdict(list)
        for standing in draft.list_admitted():
            group = (draft.get_queue(standing), standing.job.priority)
            self.first.setdefault(group, standing)
            can_give, can_go = standing.surplus > 0, is_evictable(draft, standing)
            entries = self._list(draft, standing, standing.workers) if can_give or can_go else []
            if can_give:
                self.givers[group].append(standing)
                workers[group] += entries
                self._spare[group] += standing.surplus * self._find_largest(entries)
            if can_go:
                self.evictable[group].append(standing)
                amounts = draft.counting.get_held(standing, standing.size)
                least = self.smallest.get(group, amounts)
                self.smallest[group] = np.minimum(least, amounts)
                entries = entries + self._list(draft, standing, standing.launchers)
                self.places[standing.job.uid] = {place for place, _ in entries}
                wholes[group] += entries
        self._workers = {group: self._sum(entries) for group, entries in workers.items()}
        self._wholes = {group: self._sum(entries) for group, entries in wholes.items()}
        self._sums: dict[tuple[frozenset[Group], frozenset[Group]], Counts] = {}

    def find_raised(
        self,
        shape: Shape,
        allowed: Mask | None,
        giving: Iterable[Group],
        going: Iterable[Group],
    ) -> Mask:
        """On which allowed nodes more such pods could fit if these gave, and those went."""
        amounts = self._room.later + self._sum_up(frozenset(giving), frozenset(going))
        most = self._room.divide(amounts, shape) * self._room.get_mask(shape)
        if shape.host_ports:
            most = np.minimum(most, 1)
        raised: Mask = most > self._room.count_fits(shape, later=True)
        return raised if allowed is None else raised & allowed

    def may_fit(
        self,
        gang: Gang,
        allowed: Mask | None,
        giving: Iterable[Group],
        going: Iterable[Group] = (),
        *,
        with_places: bool = True,
    ) -> bool:
        """Whether the gang could fit if these gave all workers, and those went as a whole.

        Launcher and workers at once: each alone may have room where both have not. Not
        `with_places`: if each node had places for any number of pods.
        """
        key = (frozenset(giving), frozenset(going))
        amounts = self._room.later + self._sum_up(*key)
        if not with_places:
            amounts[:, 0] = _MANY

        def count(shape: Shape, beside: Shape | None) -> Counts:
            fits = self._room.count_in(amounts, shape, beside)
            return fits if allowed is None else fits * allowed

        if count_largest(gang, count) < gang.workers:
            return False
        nodes = self._room.get_mask(gang.worker)
        wanted: Floats = self._room.get_vector(gang.worker).astype(np.float64) * gang.workers
        parts = [(nodes, wanted)]
        if gang.launcher is not None:
            nodes = nodes | self._room.get_mask(gang.launcher)
            parts.append((nodes, wanted + self._room.get_vector(gang.launcher)))
        if not with_places:
            for _, amount in parts:
                amount[0] = 0
        return all(
            self._may_sum_up(amount, where if allowed is None else where & allowed, *key)
            for where, amount in parts
        )

    def _may_sum_up(
        self, wanted: Floats, nodes: Mask, giving: frozenset[Group], going: frozenset[Group]
    ) -> bool:
        """Whether these nodes together would have so much: nobody gives more than his surplus."""
        free = np.maximum(self._room.later[nodes], 0).sum(axis=0, dtype=np.float64)
        for group in giving & self._spare.keys():
            free = free + self._spare[group]
        for group in going & self._wholes.keys():
            free = free + self._wholes[group].sum(axis=0, dtype=np.float64)
        return bool((free >= wanted * _NEARLY).all())

    def _find_largest(self, entries: _Entries) -> Floats:
        """The most that one of these takes, by resource."""
        shapes = {number for _, number in entries}
        vectors = [self._room.get_vector(self._shapes[number]) for number in shapes]
        largest: Floats = np.max(vectors, axis=0, initial=0).astype(np.float64)
        return largest

    def _sum_up(self, giving: frozenset[Group], going: frozenset[Group]) -> Counts:
        key = (giving, going)
        if key not in self._sums:
            self._sums[key] = self._add(giving, going)
        return self._sums[key]

    def _add(self, giving: frozenset[Group], going: frozenset[Group]) -> Counts:
        found: Counts = np.zeros_like(self._room.later)
        for group in giving | going:
            for sums in (self._wholes if group in going else {}, self._workers):
                if group in sums:
                    found = found + sums[group]
        return found

    def _list(self, draft: Draft, standing: Standing, pods: Iterable[Pod]) -> _Entries:
        entries: _Entries = []
        for shape, places in draft.find_places(standing.job, pods):
            number = self._number(shape)
            entries += [(place, number) for place in places if place not in self._room.unready]
        return entries

    def _number(self, shape: Shape) -> int:
        if shape not in self._numbers:
            self._numbers[shape] = len(self._shapes)
            self._shapes.append(shape)
        return self._numbers[shape]

    def _sum(self, entries: _Entries) -> Counts:
        found: Counts = np.zeros_like(self._room.later)
        if entries:
            places, numbers = np.array(entries, dtype=np.intp).T
            vectors = np.array([self._room.get_vector(shape) for shape in self._shapes])
            np.add.at(found, places, vectors[numbers])
        return found


def is_evictable(draft: Draft, standing: Standing) -> bool:
    """Whether the job could go at all: it has run long enough, and nothing else is asked of it."""
    since = standing.admission.since
    if draft.now - since < draft.rules.protected:
        draft.wake(since + draft.rules.protected)
        return False
    return (standing.step in (None, Step.TELL) or standing.is_mending) and not standing.leaving
