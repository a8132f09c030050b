"""Which elastic workers give way: fewest pods, then who may be asked first, then who has most.

Whom a search may ask is said by the `rank` of its caller. All that it tries is taken back unless it
is committed; nobody is brought below his least size, and no whole job goes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import ABOVE_ALL, Gift, Pod
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, Seats, find_seats, hold_seats
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.rooms import Counts
from et_scheduler.planning.standings import Standing

Rank = Callable[[Standing, int], int | None]
"""Who is asked first, from what he has left: lower is earlier, None is never."""
_Weight = tuple[int, int, int]
_Cost = tuple[int, int, int, int, int, int]
_Kind = tuple[int, int, int]
"""Of a cost what does not change as long as nothing does on its node: rank, pods, place."""
_Pick = tuple[Standing, Pod]


@dataclass(slots=True)
class Search:
    """One search for room for one gang; everything that it tries can be taken back.

    Victims are taken on `preferred` places first; `avoided` ones are used last. `given` are the
    victims so far.
    """

    draft: Draft
    rank: Rank
    allowed: Mask | None = None
    preferred: frozenset[int] = frozenset()
    avoided: frozenset[int] = frozenset()
    given: dict[str, list[Pod]] = field(default_factory=lambda: defaultdict(list))
    held: list[tuple[Sequence[int], Sequence[int], Shape]] = field(default_factory=list)
    _by_place: dict[int, list[_Pick]] = field(default_factory=dict)
    _owned: frozenset[int] = frozenset()
    _weights: dict[str, _Weight] = field(default_factory=dict)
    _weighed_at: int = -1

    def collect(self, standings: Iterable[Standing] | None = None) -> None:
        """Look up who of them, or of all, could give at all, and where."""
        by_place: dict[int, list[_Pick]] = defaultdict(list)
        places, unready = self.draft.room.places, self.draft.room.unready
        for standing in self.draft.standings.values() if standings is None else standings:
            if not standing.surplus or self.rank(standing, len(standing.workers)) is None:
                continue
            for pod in reversed(standing.workers):
                place = places.get(pod.node)
                if place is None or place in unready:  # nobody who is asked there can end now
                    continue
                if self.allowed is None or self.allowed[place]:
                    by_place[place].append((standing, pod))
        self._by_place = dict(by_place)
        holds = self.draft.holds.by_uid.values()
        self._owned = frozenset(place for hold in holds for place in hold.places)

    def free_limit(self, queue: str, more: Counts, owed: Counts) -> None:
        """Jobs of the queue give, on whatever node, until it may have so much more.

        Or all that they may give. Who would be asked first for room is asked first.
        """
        draft, ledger = self.draft, self.draft.ledger
        if not ledger.exceeds_limit(queue, more, owed=owed):
            return
        own = [one for one in draft.standings.values() if draft.get_queue(one) == queue]
        own = [one for one in own if one.surplus and self.rank(one, len(one.workers)) is not None]
        for standing in sorted(own, key=self._weigh):
            for pod in reversed(standing.workers):
                if not self._can_spare(standing, pod, 0):
                    continue
                over = ledger.find_over(queue, more, owed=owed)
                if not over.any():
                    return
                taken = draft.pools.sum_up(draft.counting.get_taken(standing, [pod]))
                if (over & (taken > 0)).any():
                    self._give(standing, pod)

    def find(self, gang: Gang, *, is_whole: bool = True) -> Seats | None:
        """Seats that will be free once `given` have gone. Not all of them if not `is_whole`.

        None where the gang does not fit however many give; then nothing is changed.
        """
        mark = None if self.held or self.given else self.draft.room.mark()
        seats = self._find(gang, is_whole=is_whole)
        if seats is None:
            self.undo()
            if mark is not None:
                self.draft.room.return_to(mark)
        return seats

    def _find(self, gang: Gang, *, is_whole: bool) -> Seats | None:
        seats = find_seats(self.draft.room, gang, self.allowed, later=True)
        if seats is not None:  # exact, where what follows takes one pod after the other
            self._hold_all(gang, seats)
            return seats
        if is_whole and not self._by_place:
            return None
        launcher = None
        if gang.launcher is not None:
            found = self._seat(gang.launcher, 1)
            if not found:
                return None
            launcher = next(iter(found))
        found = self._seat(gang.worker, gang.workers)
        if sum(found.values()) < gang.workers and (is_whole or not found):
            return None
        return Seats(launcher, tuple(found), tuple(found.values()))

    def would_find(self, gang: Gang) -> bool:
        """Whether there would be such seats; nothing is changed."""
        if find_seats(self.draft.room, gang, self.allowed, later=True) is not None:
            return True
        is_found = self.find(gang) is not None
        if is_found:
            self.undo()
        return is_found

    def undo(self) -> None:
        """Take back all that was tried."""
        for places, counts, shape in self.held:
            self.draft.room.expect(places, counts, shape)
        for uid, pods in self.given.items():
            standing = self.draft.standings[uid]
            for pod in pods:
                self.draft.expect_worker(standing, pod, -1)
            self._book(standing, pods)
        self.held.clear()
        self.given.clear()

    def commit(self, gift: Gift, text: str) -> int:
        """Ask them to go; answers how many jobs that are."""
        given = self.pop_given()
        for uid, pods in given.items():
            self.draft.shrink(self.draft.standings[uid], pods, gift, text)
        return len(given)

    def pop_given(self) -> dict[str, list[Pod]]:
        """By job, the pods that were found to give: booked as before until they are asked to go.

        The search has them no longer.
        """
        given = dict(self.given)
        for uid, pods in given.items():
            self._book(self.draft.standings[uid], pods)
        self.given.clear()
        return given

    def _hold_all(self, gang: Gang, seats: Seats) -> None:
        hold_seats(self.draft.room, gang, seats)
        if seats.launcher is not None and gang.launcher is not None:
            self.held.append(((seats.launcher,), (1,), gang.launcher))
        if seats.places:
            self.held.append((seats.places, seats.pods, gang.worker))

    def _seat(self, shape: Shape, pods: int) -> dict[int, int]:
        """Up to so many seats, held: those that will be free anyhow, then those that cost least."""
        seats: dict[int, int] = {}
        fits = self.draft.room.count_fits(shape, later=True)
        if self.allowed is not None:
            fits = np.where(self.allowed, fits, 0)
        places = np.flatnonzero(fits)
        ordered = places[np.argsort(fits[places], kind="stable")].tolist()
        if self.preferred or self.avoided:
            ordered.sort(key=self._rank_place)
        for place in ordered:
            if not pods:
                break
            pods -= self._hold(seats, place, min(int(fits[place]), pods), shape)
        if pods:
            self._seat_with_victims(shape, pods, seats)
        return seats

    def _seat_with_victims(self, shape: Shape, pods: int, seats: dict[int, int]) -> None:
        mask = self.draft.room.get_mask(shape)
        places = [place for place in self._by_place if mask[place]]
        found = (cost for place in places for cost in self._price(place, shape))
        costs = _Costs(found, self._find_only, self._weigh)
        while pods and (before := costs.pop()) is not None:
            place = before[-1]
            now = next(self._price(place, shape), None)
            if now is not None and now > before:
                costs.put_back(now)  # somebody on it has given meanwhile
            elif now is not None:
                for standing, pod in self._choose(place, shape):
                    self._give(standing, pod)
                pods -= self._hold(seats, place, min(self._count(place, shape), pods), shape)
                for cost in self._price(place, shape):
                    costs.push(cost)

    def _find_only(self, place: int) -> Standing | None:
        """Who alone could give on that node; None where several could."""
        donors = {standing.job.uid: standing for standing, _ in self._by_place[place]}
        return next(iter(donors.values())) if len(donors) == 1 else None

    def _give(self, standing: Standing, pod: Pod) -> None:
        self.given[standing.job.uid].append(pod)
        self.draft.expect_worker(standing, pod)
        self._book(standing, [pod], -1)

    def _book(self, standing: Standing, pods: list[Pod], sign: int = 1) -> None:
        """What its queue has is less while it is tried, so that no queue gives too much."""
        self.draft.book_more(standing, sign * self.draft.counting.get_taken(standing, pods))

    def _hold(self, seats: dict[int, int], place: int, pods: int, shape: Shape) -> int:
        self.draft.room.hold((place,), (pods,), shape)
        self.held.append(((place,), (pods,), shape))
        seats[place] = seats.get(place, 0) + pods
        return pods

    def _count(self, place: int, shape: Shape) -> int:
        return int(self.draft.room.count_fits(shape, later=True)[place])

    def _price(self, place: int, shape: Shape) -> Iterator[_Cost]:
        """What one more pod there costs: pods, then whom; nothing where it cannot be had."""
        picks = self._choose(place, shape)
        if picks:
            weights = [self._weigh(standing) for standing, _ in picks]
            yield (self._rank_place(place), len(picks), *max(weights), place)

    def _choose(self, place: int, shape: Shape) -> list[_Pick]:
        """The victims on that node without which one more pod does not fit; none if it cannot.

        Who has one of its ports goes before who has only the room.
        """
        room = self.draft.room
        ports = room.list_taken_ports(place, shape)
        left = room.later[place].tolist()
        wanted = enumerate(room.get_amounts(shape))
        lacking = [(column, n - left[column]) for column, n in wanted if n > max(left[column], 0)]
        chosen: list[_Pick] = []
        asked: dict[str, int] = defaultdict(int)
        willing = self._list_willing(place)
        if ports:
            willing.sort(key=lambda pick: ports.isdisjoint(_get_shape(*pick).host_ports))
        for standing, pod in willing:
            if not lacking and not ports:
                break
            own = _get_shape(standing, pod)
            is_needed = bool(lacking) or not ports.isdisjoint(own.host_ports)
            if is_needed and self._can_spare(standing, pod, asked[standing.job.uid]):
                asked[standing.job.uid] += 1
                chosen.append((standing, pod))
                ports -= own.host_ports
                given = room.get_amounts(own)
                lacking = [
                    (column, n - given[column]) for column, n in lacking if n > given[column]
                ]
        return [] if lacking or ports else chosen

    def _list_willing(self, place: int) -> list[_Pick]:
        left = [pick for pick in self._by_place[place] if not self._has_given(*pick)]
        return sorted(left, key=lambda pick: self._weigh(pick[0]))

    def _has_given(self, standing: Standing, pod: Pod) -> bool:
        return pod in self.given.get(standing.job.uid, ())

    def _rank_place(self, place: int) -> int:
        return 0 if place in self.preferred else 1 + (place in self.avoided)

    def _weigh(self, standing: Standing) -> _Weight:
        """Computed once until somebody gives, which is booked."""
        if self._weighed_at != self.draft.ledger.changes:
            self._weighed_at = self.draft.ledger.changes
            self._weights.clear()
        if standing.job.uid not in self._weights:
            self._weights[standing.job.uid] = self._find_weight(standing)
        return self._weights[standing.job.uid]

    def _find_weight(self, standing: Standing) -> _Weight:
        """Who may be asked first; who gives in this pass already; who has most."""
        given = self.given.get(standing.job.uid, ())
        left = len(standing.workers) - len(given)
        rank = self.rank(standing, left)
        is_new = not given and (standing.step is not Step.GIVE or standing.is_mending)
        return (ABOVE_ALL if rank is None else rank, int(is_new), -standing.dominate(left))

    def _can_spare(self, standing: Standing, pod: Pod, asked: int) -> bool:
        """Whether the job keeps its least size, and keeps it where nobody has reserved nodes."""
        given = self.given.get(standing.job.uid, ())
        left = len(standing.workers) - len(given) - asked
        if left <= standing.floor or self.rank(standing, left) is None:
            return False
        if not self._owned or self.draft.room.places.get(pod.node) in self._owned:
            return True
        places = self.draft.room.places
        gone = sum(1 for one in given if places.get(one.node) not in self._owned) + asked
        return standing.outside - gone > standing.floor


class _Costs:
    """What one more pod costs by node, the least first, each as of when it was put there.

    Who gives is asked less gladly for the next, on all his nodes: that a cost has risen is seen
    once it is the least. Of nodes where one job alone could give all rise together, and once that
    was seen of them one stands for the others: a job that is on a thousand nodes would else be
    looked up on each of them for each worker that it gives.

    Args:
        costs: of all nodes.
        find_only: who alone could give on a node.
        weigh: what it counts that somebody is asked, now.
    """

    def __init__(
        self,
        costs: Iterable[_Cost],
        find_only: Callable[[int], Standing | None],
        weigh: Callable[[Standing], _Weight],
    ) -> None:
        self._heap = list(costs)
        heapify(self._heap)
        self._find_only, self._weigh = find_only, weigh
        self._first: dict[str, dict[int, _Kind]] = defaultdict(dict)
        self._behind: dict[str, list[_Kind]] = defaultdict(list)
        self._stand: dict[int, Standing] = {}

    def push(self, cost: _Cost) -> None:
        """Put a cost in, as it is now."""
        heappush(self._heap, cost)

    def put_back(self, cost: _Cost) -> None:
        """Put a cost in, as it is now, that `pop` gave and that was found to have risen since."""
        kind = (cost[0], cost[1], cost[-1])
        only = self._find_only(cost[-1])
        first = self._first[only.job.uid] if only is not None else {}
        if only is not None and first and min(first.values()) < kind:
            heappush(self._behind[only.job.uid], kind)
            return
        if only is not None:
            self._stand[cost[-1]], first[cost[-1]] = only, kind
        self.push(cost)

    def pop(self) -> _Cost | None:
        """The least; None where there is none."""
        if not self._heap:
            return None
        cost = heappop(self._heap)
        only = self._stand.pop(cost[-1], None)
        if only is not None:
            self._follow(only, cost[-1])
        return cost

    def _follow(self, only: Standing, place: int) -> None:
        """Where none stands for those that are left any more, the next one does."""
        first, behind = self._first[only.job.uid], self._behind[only.job.uid]
        del first[place]
        if behind and not first:
            kind = heappop(behind)
            self._stand[kind[-1]], first[kind[-1]] = only, kind
            self.push((*kind[:2], *self._weigh(only), kind[-1]))


def _get_shape(standing: Standing, pod: Pod) -> Shape:
    return pod.shape or standing.job.worker
