"""Puts what is there, and what was promised, into the room and the books of a pass.

Between the first steps of a pass. No admission is changed here: what is there is put where it is,
and what was promised where it was told to look.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, Seats, find_seats, hold_seats, take_seats
from et_scheduler.planning.holds import Hold
from et_scheduler.planning.ledgers import UNLIMITED
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.pools import Piece
from et_scheduler.planning.promises import Rank
from et_scheduler.planning.rooms import Counts
from et_scheduler.planning.standings import Standing

_Places = dict[Shape, list[int]]
_Held = tuple[Rank, list[int]]


def seat_bound(draft: Draft) -> None:
    """All pods of jobs that are on nodes; the room of those who leave is free later.

    Who should have gone long ago is in everybody's way, as pods of others are.
    """
    room = draft.room
    taken: _Places = defaultdict(list)
    leaving: _Places = defaultdict(list)
    stranded: _Places = defaultdict(list)
    for standing in draft.standings.values():
        job = standing.job
        if not job.pods:
            continue
        overdue = [pod for pod in job.pods if pod.name in standing.overdue]
        left = standing.list_leaving()
        for found, pods in ((taken, job.pods), (leaving, left), (stranded, overdue)):
            for shape, there in draft.find_places(job, pods):
                found[shape] += there
    for found, note in ((taken, room.take), (leaving, room.expect), (stranded, room.strand)):
        for shape, there in found.items():
            note(*_count(there), shape)


def _count(places: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    counts = Counter(places)
    return list(counts), list(counts.values())


def book(draft: Draft) -> None:
    """What each queue has, keeps at least, and asks for; from that, what it is due."""
    ledger = draft.ledger
    ledger.clear()
    requested, allocated, least = (_Tally(), _Tally(), _Tally())
    coming: dict[tuple[str, Shape], int] = defaultdict(int)
    for standing in draft.standings.values():
        there = draft.counting.list_pieces(standing, standing.workers)
        draft.counting.note_parts(standing, there)
        queue = draft.get_queue(standing)
        if queue not in draft.queues or standing.job.is_suspended:
            continue
        is_asking = bool(standing.missing) or not standing.is_admitted
        is_refused = is_asking and draft.find_refusal(standing) is not None
        if is_refused and not standing.is_admitted:
            continue
        if not standing.job.pods and not standing.is_admitted:
            coming[queue, standing.job.worker] += standing.most
            coming[queue, standing.job.launcher] += 1
            continue
        counts = _count_job(draft, standing, there, is_refused=is_refused)
        for tally, count in zip((requested, allocated, least), counts, strict=False):
            tally.add(queue, count)
    for (queue, shape), most in coming.items():
        if draft.counting.may_come(queue, shape):
            requested.add(queue, {draft.pools.get_piece(shape): most})
    requested.write(draft, ledger.requested)
    allocated.write(draft, ledger.allocated)
    least.write(draft, ledger.least)
    ledger.apportion()


def _count_job(
    draft: Draft, standing: Standing, there: Sequence[Piece], *, is_refused: bool
) -> Iterator[Counter[Piece]]:
    """What it asks for; of one that is admitted, what it has, and what it keeps at least."""
    count_held = draft.counting.count_held
    if standing.is_admitted and draft.has_lost_promise(standing):
        yield from [draft.counting.count_bound(standing, there)] * 3
        return
    workers = standing.size if is_refused else max(standing.most, standing.size)
    yield count_held(standing, workers, there)
    if standing.is_admitted:
        yield count_held(standing, standing.size, there)
        yield count_held(standing, standing.floor, there)


class _Tally:
    """So many pods of each shape, by queue: vectors are added once for thousands of jobs."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Piece], int] = defaultdict(int)

    def add(self, queue: str, counts: Mapping[Piece, int]) -> None:
        for piece, count in counts.items():
            self._counts[queue, piece] += count

    def write(self, draft: Draft, rows: dict[str, Counts]) -> None:
        """Anybody may ask for any amount: what 64 bits do not hold counts as UNLIMITED."""
        totals: dict[str, list[int]] = {queue: [0] * len(row) for queue, row in rows.items()}
        for (queue, piece), count in self._counts.items():
            amounts = draft.pools.vectors[piece].tolist()
            totals[queue] = [a + count * b for a, b in zip(totals[queue], amounts, strict=True)]
        for queue, amounts in totals.items():
            rows[queue][:] = [min(amount, UNLIMITED) for amount in amounts]


def seat_unbound(draft: Draft) -> None:
    """What was promised to admitted jobs and has no node yet counts as taken.

    It is put where the job was told to look, now or later; what fits nowhere, because others were
    faster, is left out: it is given back when its time is over. Until then such pods are the first
    to come where room becomes free (`unseated`). What is free on nodes that one of strictly higher
    rank holds is his: who was not told to look there and takes it gives it back to him.
    """
    held = _list_held(draft)
    for standing in draft.list_admitted():
        if draft.has_lost_promise(standing):
            continue
        gang = standing.find_lacking(standing.size)
        if gang.launcher is None and not gang.workers:
            continue
        seats = _find_any(draft, gang, draft.holds.find_told(standing), held, standing)
        if seats is None:
            draft.unseated.append((standing, gang))
            lacking = draft.counting.get_lacking(standing)
            draft.ledger.miss(draft.get_queue(standing), lacking)
        else:
            take_seats(draft.room, gang, seats)
            is_starting = standing.admission.bound_at is None
            rank = draft.rank_priority(standing) if is_starting else None
            draft.promises.note(standing.job.uid, gang, seats, rank)


def _find_any(
    draft: Draft, gang: Gang, told: Mask | None, held: Sequence[_Held], standing: Standing
) -> Seats | None:
    mine, allowed = draft.rank_priority(standing), None
    above = [place for rank, places in held if rank > mine for place in places]
    if above:
        allowed = np.ones(len(draft.room.nodes), dtype=np.bool_)
        allowed[above] = False
    for mask in (told, allowed) if told is not None else (allowed,):
        for later in (False, True):
            seats = find_seats(draft.room, gang, mask, later=later)
            if seats is not None:
                return seats
    return None


def _list_held(draft: Draft) -> list[_Held]:
    """Which nodes those who wait hold, with the rank of each."""
    holding = (one for one in draft.list_waiting() if one.admission.reserved)
    places = draft.room.places
    return [
        (draft.rank_priority(one), [places[n] for n in one.admission.reserved if n in places])
        for one in holding
        if not _is_unheld(draft, one)
    ]


def restore_holds(draft: Draft) -> None:
    """The reservations that were written, on nodes that are still fit; each node has one holder.

    Whom his queue refuses holds nothing: nobody would ever try to start it there. Nor does one that
    could not be written for long, but a write that fails for a while costs it nothing.
    Where the whole gang will fit on its nodes once all have gone who were asked to go, that room is
    kept for it: it is nobody else's, not even growth's. Until then elastic workers may be there.
    """
    owned: set[int] = set()
    holding = (one for one in draft.list_waiting() if one.admission.reserved)
    waiting = [one for one in holding if not _is_unheld(draft, one)]
    for standing in sorted(waiting, key=_rank_hold):
        mask = draft.room.match(standing.job.worker)
        known = [draft.room.places.get(name) for name in standing.admission.reserved]
        places = [p for p in known if p is not None and mask[p] and p not in owned]
        if places:
            owned.update(places)
            draft.holds.hold(standing, places)
    for hold in draft.holds.by_uid.values():
        keep_room(draft, hold)
    held = {draft.room.nodes[place].name for place in owned}
    for standing in draft.list_admitted():
        inside = held and [pod for pod in standing.workers if pod.node in held]
        standing.outside = len(standing.workers) - len(inside)


def _is_unheld(draft: Draft, standing: Standing) -> bool:
    """A job is refused, or could not be written for long, or has held them in another queue."""
    queue = draft.get_queue(standing)
    is_elsewhere = not standing.is_admitted and standing.admission.queue != queue
    if is_elsewhere or draft.find_refusal(standing) is not None:
        return True
    return draft.has_lost_promise(standing)


def _rank_hold(standing: Standing) -> tuple[bool, int, str]:
    """A node that somebody was given meanwhile is his who could be written."""
    return (standing.job.is_frozen, standing.admission.queued_at, standing.job.uid)


def keep_room(draft: Draft, hold: Hold) -> None:
    """Keep the gang's seats on the nodes that it holds, if they will be free."""
    gang = get_gang(hold.standing)
    allowed = np.zeros(len(draft.room.nodes), dtype=np.bool_)
    allowed[hold.places] = True
    seats = find_seats(draft.room, gang, allowed, later=True)
    if seats is None:
        seats = _find_launcher_apart(draft, hold, gang, allowed)
    if seats is not None:
        hold_seats(draft.room, gang, seats)
        hold.standing.held = (gang, seats)


def _find_launcher_apart(draft: Draft, hold: Hold, gang: Gang, allowed: Mask) -> Seats | None:
    """The workers on the nodes that are held, their launcher on the tightest that nobody holds."""
    if gang.launcher is None:
        return None
    seats = find_seats(draft.room, replace(gang, launcher=None), allowed, later=True)
    fits = draft.room.count_fits(gang.launcher, later=True)
    others = draft.holds.list_reserved(hold.standing) | draft.holds.list_promised(hold.standing)
    others.update(hold.places)
    free = [place for place in np.flatnonzero(fits).tolist() if place not in others]
    if seats is None or not free:
        return None
    return replace(seats, launcher=min(free, key=lambda place: (fits[place], place)))


def get_gang(standing: Standing) -> Gang:
    """What must come at once: launcher and least size, or what a larger least size lacks."""
    if standing.is_admitted:
        return Gang(None, standing.job.worker, standing.missing)
    return Gang(standing.job.launcher, standing.job.worker, standing.least)
