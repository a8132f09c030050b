"""Evens out running jobs: who is far above the level shrinks for those who are far below it.

The last step, and only in a pass that changes nothing else. Here workers are asked to go and none
are given: who is below the level grows in a later pass, into room that is free by then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping

from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Gift, Pod, Purpose
from et_scheduler.planning.drafts import Draft, count_hours
from et_scheduler.planning.filling import Fill, mask_held
from et_scheduler.planning.fitting import Gang, release_seats
from et_scheduler.planning.giving import Rank, Search
from et_scheduler.planning.growing import (
    fill_from_least,
    has_had,
    is_levelling,
    is_rested,
    is_steady,
    is_worth,
    list_levelled,
)
from et_scheduler.planning.keeping import keep_in
from et_scheduler.planning.rooms import Counts
from et_scheduler.planning.sizes import find_floor, find_next
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.waiting import Owed, is_room_coming

TRIES = 3
"""So often it is asked for what a receiver lacks: each search looks at every worker."""


def level_all(draft: Draft) -> None:
    """In a pass that changes nothing else: donors give what receivers are proven to have room for.

    The room is the receivers': nobody that runs grows before it is free, and then those who are
    below the level do before others (growing.py).
    """
    if _is_busy(draft):
        return
    standings = list_levelled(draft)
    if len(standings) <= 1:
        return
    levels = fill_from_least(draft, standings)
    donors = {
        uid: levels[uid]
        for uid, one in standings.items()
        if _is_far(draft, one.size - levels[uid], one, levels[uid])
    }
    receivers = [
        one
        for uid, one in standings.items()
        if _is_far(draft, levels[uid] - one.size, one, levels[uid]) and _may_receive(draft, one)
    ]
    receivers.sort(key=lambda one: (one.dominate(one.size), one.job.created, one.job.uid))
    if donors and receivers:
        _Batch(draft, donors).run(receivers, levels)


class _Batch:
    """All receivers of one pass; each is served whole enough, or not at all."""

    def __init__(self, draft: Draft, donors: Mapping[str, int]) -> None:
        self.draft = draft
        self.donors = donors
        self.given: dict[str, list[Pod]] = defaultdict(list)
        self.turning = set[str]()
        """Who gives what he was given to one that was there then."""
        given = [draft.standings[uid] for uid in donors]
        self.levelled = sorted(
            one.admission.levelled_at or 0
            for one in given
            if one.admission.levelled_at is not None and not has_had(draft, one)
        )
        self.outlook = _Outlook(draft)
        self.outside = mask_held(draft)

    def run(self, receivers: list[Standing], levels: Mapping[str, int]) -> None:
        failed = set[Hashable]()
        for receiver in receivers:
            level = levels[receiver.job.uid]
            kind = self._sort(receiver, level)
            if kind in failed:  # hundreds may be alike, and a search looks at every worker
                continue
            if self._serve(receiver, level):
                failed.clear()
            else:
                failed.add(kind)
        for uid, pods in self.given.items():
            donor = self.draft.standings[uid]
            donor.workers = sorted((*donor.workers, *pods), key=lambda pod: (pod.created, pod.name))
            text = "has more than its level: others are further below theirs"
            self.draft.shrink(donor, pods, Gift(Purpose.LEVEL), text)
            turns = donor.admission.level_turns + 1 if uid in self.turning else 0
            self.draft.change(donor, Step.GIVE, level_turns=turns)

    def _sort(self, receiver: Standing, level: int) -> Hashable:
        """What decides who gives for it, and what it could take."""
        job, is_bound = receiver.job, receiver.outside < receiver.floor
        sizes = (receiver.size, receiver.most, job.sizes, level)
        later = bisect_left(self.levelled, receiver.admission.bound_at or 0)
        return (self.draft.get_queue(receiver), job.worker, is_bound, sizes, later)

    def _serve(self, receiver: Standing, level: int) -> bool:
        """Whether others give for it: as much as it could take of what it lacks."""
        goal = level
        for _ in range(TRIES):
            found = self._search(receiver, level, goal)
            if found is None:
                return False
            search, reached = found
            size = reached  # if fewer have room, nobody gives for a limit of more
            if reached == goal:
                size = self.outlook.find_size(receiver, goal, search.given)
            if size == goal:
                self._ask(search, receiver)
                return True
            search.undo()
            if size <= receiver.size:
                return False
            goal = size
        return False

    def _search(self, receiver: Standing, level: int, goal: int) -> tuple[Search, int] | None:
        """Who gives for as many as the goal, or fewer, and how many it has then."""
        allowed = None if receiver.outside >= receiver.floor else self.outside
        search = Search(self.draft, self._rank_donors(receiver, level), allowed)
        search.collect()
        queue, more = self.draft.get_queue(receiver), self.outlook.find_more(receiver, goal)
        search.free_limit(queue, more, self.outlook.owed.find(queue))
        lacking = Gang(None, receiver.job.worker, goal - receiver.size)
        seats = search.find(lacking, is_whole=False)
        if seats is None:
            return None
        reached = find_floor(receiver.job, receiver.size + sum(seats.pods))
        if search.given and self._is_enough(receiver, reached, level, goal):
            return search, reached
        search.undo()
        return None

    def _is_enough(self, receiver: Standing, reached: int, level: int, goal: int) -> bool:
        if goal == level:
            return _is_far(self.draft, reached - receiver.size, receiver, level)
        return reached > receiver.size and is_worth(self.draft, receiver, reached)

    def _ask(self, search: Search, receiver: Standing) -> None:
        for uid, pods in search.pop_given().items():
            names = {pod.name for pod in pods}
            donor = self.draft.standings[uid]
            if _was_given_beside(donor, receiver):
                self.turning.add(uid)
            donor.workers = [pod for pod in donor.workers if pod.name not in names]
            self.given[uid] += pods

    def _rank_donors(self, receiver: Standing, level: int) -> Rank:
        """Down to their level, and not below where the receiver will be."""
        goal, mine = receiver.dominate(level), self.draft.get_queue(receiver)

        def rank(donor: Standing, left: int) -> int | None:
            if left <= self.donors.get(donor.job.uid, left):
                return None
            if _was_given_beside(donor, receiver) and not has_had(self.draft, donor):
                return None
            theirs = self.draft.get_queue(donor)
            if theirs != mine:
                return 0 if self.draft.queues[theirs].is_reclaimable else None
            return None if donor.dominate(left - 1) < goal else 0

        return rank


class _Outlook:
    """The room once all have gone who were asked to: room for services is kept there anew.

    It may be kept elsewhere then, and a step of several workers keeps off it (filling.py); or the
    receiver's queue is at its limit. What was given for one that cannot come would be taken again,
    and given again, for good.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft, self._room = draft, draft.room.copy()
        for gang, seats in draft.kept:
            release_seats(self._room, gang, seats)
        self._more: dict[str, Counts] = {}
        self.owed = Owed(draft)
        self._is_needed = bool(draft.kept) or any(one.limits for one in draft.queues.values())

    def find_more(self, receiver: Standing, size: int) -> Counts:
        """What its queue would have besides what is booked if it had so many workers."""
        new = self._draft.counting.get_amounts(receiver, size - receiver.size, launcher=False)
        return new + self._more.get(self._draft.get_queue(receiver), 0)

    def find_size(self, receiver: Standing, wanted: int, given: Mapping[str, Iterable[Pod]]) -> int:
        """What it will have of what is given for it; where it is all, that is noted."""
        if not self._is_needed:
            return wanted
        draft, headroom, room = self._draft, self._draft.cluster.headroom, self._room.copy()
        for uid, pods in given.items():
            for shape, places in draft.find_places(draft.standings[uid].job, pods):
                for place in places:
                    room.give_back((place,), (1,), shape)
        kept = keep_in(draft, room, headroom) if headroom is not None and draft.kept else ()
        sizes, more = {receiver.job.uid: receiver.size}, dict(self._more)
        fill = Fill(draft, room, sizes, more=more, owed=self.owed)
        size = fill.approach(receiver, wanted)
        if size == wanted:
            for gang, seats in kept:
                release_seats(room, gang, seats)
            self._room, self._more = room, fill.more
            self._note_given(given)
        return size

    def _note_given(self, given: Mapping[str, Iterable[Pod]]) -> None:
        """Count as gone what donors are to give: in the books it is theirs until they are asked."""
        for uid, pods in given.items():
            donor = self._draft.standings[uid]
            queue = self._draft.get_queue(donor)
            less = self._draft.counting.get_taken(donor, [*pods])
            self._more[queue] = self._more[queue] - less if queue in self._more else -less


def _is_busy(draft: Draft) -> bool:
    """Whether this pass changes something else, or anybody waits for room that comes.

    A donor of the level gives nothing to a gang or a service until all that it gave is gone.
    """
    if draft.served or is_room_coming(draft) or _has_just_started(draft):
        return True
    changed = (one.step for one in draft.standings.values() if not one.job.is_frozen)
    return is_levelling(draft) or any(step not in (None, Step.TELL) for step in changed)


def _has_just_started(draft: Draft) -> bool:
    """Whether some job began so short a time ago that others may well follow it."""
    quiet = draft.rules.level_quiet
    since = max((one.admission.since for one in draft.list_admitted()), default=draft.now)
    return bool(quiet) and not draft.has_passed(since, quiet)


def _may_receive(draft: Draft, standing: Standing) -> bool:
    """Whether the job could take room now; given to one that could not, it would be given again."""
    is_ready = standing.job.preempts and is_steady(standing) and is_rested(draft, standing)
    return is_ready and not _is_refused(draft, standing)


def _is_refused(draft: Draft, standing: Standing) -> bool:
    """Whether the job's growth did not come twice or more in a row: for hours nobody gives for it.

    A quota may refuse it, of which nobody knows here, and others would lose what they train with
    four times an hour. What is free it tries as before.
    """
    hours, retry_at = count_hours(standing.admission.attempts), standing.admission.retry_at
    if not hours or retry_at is None:
        return False
    return not draft.has_passed(retry_at, hours * draft.rules.evicted_again)


def _was_given_beside(donor: Standing, receiver: Standing) -> bool:
    """Whether others gave for the level while both were there, and the donor has grown by that."""
    at = donor.admission.levelled_at
    since = receiver.admission.bound_at
    return at is not None and since is not None and since <= at


def _is_far(draft: Draft, difference: int, standing: Standing, level: int) -> bool:
    """More than one step, and more than a fifth of the level."""
    step = find_next(standing.job, level) - level
    return difference > max(step, 1) and difference * 100 > draft.rules.level_worth * level
