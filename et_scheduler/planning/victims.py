"""Which whole jobs go for a gang: those whose room is of use to it, and as few as are needed.

evicting.py tries with it and lets go who was found: here jobs are only counted out of books and
room, and in again. None goes whose queue, if it is another one, would be left with less than due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from et_scheduler.model.shapes import Shape
from et_scheduler.planning.donors import Donors, Group
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, Seats
from et_scheduler.planning.giving import Search
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.unseated import Others, Unseated, seated


class _Had(NamedTuple):
    """What goes with a job: for how much it counts, and its pods by their shapes."""

    amounts: Counts
    least: Counts
    pods: list[tuple[list[int], list[int], Shape]]


class Lenders(NamedTuple):
    """The queues of which places for pods alone are asked, and for which columns whole jobs go.

    None of them loses another job once it has no more of these than it is due.
    """

    queues: frozenset[str]
    columns: int


class Trial:
    """Tries who of the candidates go for one gang, lowest first; `out` are those that went so far.

    They are counted out of books and room meanwhile, and counted in again by `end`. Who may give
    is asked for workers besides, as long as he stays.
    """

    def __init__(
        self,
        search: Search,
        waiter: Standing,
        gang: Gang,
        donors: Donors,
        giving: Sequence[Group],
        lenders: Lenders | None = None,
    ) -> None:
        self._lenders = lenders or Lenders(frozenset(), 0)
        self._search, self._gang, self._donors = search, gang, donors
        self._draft, self._giving = search.draft, giving
        self._mine = search.draft.get_queue(waiter)
        self._shapes = _list_shapes(search.draft, gang, search.allowed)
        self._known: dict[str, _Had] = {}
        self.out: list[Standing] = []

    def find(
        self, candidates: Sequence[Standing], going: Sequence[Group], others: Others
    ) -> Seats | None:
        """Seats that are held in the search, and who goes for them is out; or None.

        The candidates are of the groups that are `going`.
        """
        useful = self._find_useful(going)
        some = [
            one for one in candidates if not useful.isdisjoint(self._donors.places[one.job.uid])
        ]
        if not self._count_out_some(some, others.before):
            if len(self.out) == len(some):
                return None
            self._set_out([])
            self._choose_by_node(some, sorted(useful))
            if not self._fits(others.before):
                return None
        self._cut(others.before)
        everybody = [*others.before, *others.seeking]
        if others.seeking and not self._fits(everybody):
            return None
        self._thin_out(self.out[:-1], others.before)
        if others.seeking and not self._fits(everybody):
            return None
        with seated(self._draft, others.before):  # as it was tried, so that nobody goes in vain
            return self._collect().find(self._gang)

    def end(self) -> list[Standing]:
        """All are there as before; answers who went."""
        gone = self.out
        self._set_out([])
        return gone

    def _fits(self, others: Sequence[Unseated]) -> bool:
        """Whether there would be seats with all gone who are out, and others have theirs too."""
        if not self._may_fit() or not self._collect().would_find(self._gang):
            return False
        if not others:
            return True
        with seated(self._draft, others):
            return self._search.would_find(self._gang)

    def _may_fit(self) -> bool:
        return self._donors.may_fit(self._gang, self._search.allowed, self._giving)

    def _collect(self) -> Search:
        """Who stays may give; who goes does not."""
        givers = self._donors.givers
        self._search.collect(one for group in self._giving for one in givers.get(group, ()))
        return self._search

    def _count_out_some(self, some: Sequence[Standing], others: Sequence[Unseated]) -> bool:
        """Twice as many each time until they are enough; all, and False, where they never are."""
        tried = 0
        for one in some:
            if self._count_out(one) and len(self.out) == max(2 * tried, 1):
                tried = len(self.out)
                if self._fits(others):
                    return True
        return len(self.out) > tried and self._fits(others)

    def _cut(self, others: Sequence[Unseated]) -> None:
        """The first of those that are out are enough: as many as are needed."""
        everybody, least, most = self.out, 1, len(self.out)
        while least < most:
            middle = (least + most) // 2
            self._set_out(everybody[:middle])
            if self._fits(others):
                most = middle
            else:
                least = middle + 1
        self._set_out(everybody[:most])

    def _thin_out(self, some: Sequence[Standing], others: Sequence[Unseated]) -> None:
        """Who need not go stays: as many of them at once as can, from the first on."""
        if not some:
            return
        for one in some:
            self._book_out(one, -1)
        if self._fits(others):
            there = {one.job.uid for one in some}
            self.out = [one for one in self.out if one.job.uid not in there]
            return
        for one in some:
            self._book_out(one, 1)
        if len(some) > 1:
            half = len(some) // 2
            self._thin_out(some[:half], others)
            self._thin_out(some[half:], others)

    def _set_out(self, wanted: Sequence[Standing]) -> None:
        now, then = ({one.job.uid: one for one in some} for some in (self.out, wanted))
        for uid, one in now.items():
            if uid not in then:
                self._book_out(one, -1)
        for uid, one in then.items():
            if uid not in now:
                self._book_out(one, 1)
        self.out = list(wanted)

    def _count_out(self, victim: Standing) -> bool:
        """Book `victim` as gone; False where its queue would have less than it deserves then."""
        queue = self._draft.get_queue(victim)
        if queue != self._mine and queue in self._draft.queues:
            amounts, ledger = self._look_up(victim).amounts, self._draft.ledger
            if ((amounts > ledger.find_spare(queue)) & (amounts > 0)).any():
                return False
            queues, columns = self._lenders
            if queue in queues and not ledger.find_above(queue) & columns:
                return False
        self._book_out(victim, 1)
        self.out.append(victim)
        return True

    def _book_out(self, victim: Standing, sign: int) -> None:
        """As if it had gone, or -1: as if it were there again. It gives no workers meanwhile."""
        victim.leaving += sign
        draft, had = self._draft, self._look_up(victim)
        draft.ledger.book(draft.get_queue(victim), -sign * had.amounts, -sign * had.least)
        for places, counts, shape in had.pods:
            draft.room.expect(places, [sign * count for count in counts], shape)

    def _look_up(self, victim: Standing) -> _Had:
        """Once: the same ones are tried again and again."""
        known = self._known.get(victim.job.uid)
        if known is None:
            draft = self._draft
            amounts, least = get_booked(draft, victim)
            unready = draft.room.unready
            pods = [
                (*_count([place for place in places if place not in unready]), shape)
                for shape, places in draft.find_places(victim.job, victim.list_staying())
            ]
            known = self._known[victim.job.uid] = _Had(amounts, least, pods)
        return known

    def _choose_by_node(self, some: Sequence[Standing], useful: Sequence[int]) -> None:
        """On one node after the other who makes more of the gang fit there, and nobody else.

        So what a queue may lose is not used up by those who would go for nothing.
        """
        by_place: dict[int, list[Standing]] = {}
        for one in some:
            for place in self._donors.places[one.job.uid].intersection(useful):
                by_place.setdefault(place, []).append(one)
        order = {one.job.uid: number for number, one in enumerate(some)}
        places = sorted(by_place, key=lambda place: (order[by_place[place][0].job.uid], place))
        for place in places:
            before, fits = self.out, self._count_fits(place)
            self.out = list(before)
            gone = {one.job.uid for one in before}
            for one in by_place[place]:
                if self._count_fits(place) > fits:
                    break
                if one.job.uid not in gone:
                    self._count_out(one)
            if self._count_fits(place) <= fits:
                self._set_out(before)

    def _count_fits(self, place: int) -> int:
        shapes = self._shapes
        return sum(int(self._draft.room.count_fits(one, later=True)[place]) for one in shapes)

    def _find_useful(self, going: Sequence[Group]) -> set[int]:
        """On which nodes more of the gang would fit if all of them went.

        For its launcher only where that has no seat that costs the workers none.
        """
        search, found = self._search, set[int]()
        for shape in self._shapes:
            raised = self._donors.find_raised(shape, search.allowed, self._giving, going)
            found.update(np.flatnonzero(raised).tolist())
        return found


def _list_shapes(draft: Draft, gang: Gang, allowed: Mask | None) -> list[Shape]:
    """For which of its pods room is looked for: a launcher often has a seat that costs nothing."""
    room, worker, launcher = draft.room, gang.worker, gang.launcher
    if launcher is None:
        return [worker]
    fits = room.count_fits(worker, later=True)
    beside = room.count_fits(worker, later=True, beside=launcher)
    is_free = (room.count_fits(launcher, later=True) > 0) & (fits == beside)
    is_free = is_free if allowed is None else is_free & allowed
    return [worker] if is_free.any() else [worker, launcher]


def _count(places: Sequence[int]) -> tuple[list[int], list[int]]:
    counts = Counter(places)
    return list(counts), list(counts.values())


def get_booked(draft: Draft, standing: Standing) -> tuple[Counts, Counts]:
    """For how much it counts in its queue, and for how much at its least size."""
    held = draft.counting.get_held
    return held(standing, standing.size), held(standing, standing.floor)
