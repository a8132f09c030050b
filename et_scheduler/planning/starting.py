"""Starts gangs: in free room, where elastic workers give way, where whole jobs go.

Each who waits is tried once, in the order of ordering.py; whom others leave room for is chosen in
evicting.py. Who does not start is told why, and nobody is admitted to a part of his gang.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from et_contract.admissions import AdmissionState
from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Gift, Job, Purpose
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.evicting import find_seats_with_victims
from et_scheduler.planning.explaining import tell_no_room, tell_room_comes
from et_scheduler.planning.failures import Failures
from et_scheduler.planning.fitting import (
    Gang,
    Seats,
    find_seats,
    hold_seats,
    release_seats,
    take_seats,
)
from et_scheduler.planning.gating import find_in_time, find_obstacle
from et_scheduler.planning.matching import Mask
from et_scheduler.planning.ordering import walk
from et_scheduler.planning.returning import NO_WAIT, end_hold
from et_scheduler.planning.seating import get_gang
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.turns import Turns, count_searches


def start_all(draft: Draft, lines: Mapping[str, Sequence[Standing]]) -> None:
    """Try everybody in line once. Who does not start is told why."""
    failures, seen = Failures(draft), _list_seen(draft)
    kinds, turns = _count_turns(draft, lines)
    for standing in _list_tried(draft, lines, kinds):
        gang = get_gang(standing)
        obstacle = find_obstacle(draft, standing, gang)
        if obstacle is not None:
            end_hold(draft, standing)
            draft.explain(standing, *obstacle)
            continue
        if failures.is_hopeless(standing, gang):
            note_unfit(draft, standing, gang)
        elif try_start(draft, standing, gang, turns):
            if standing.is_fresh:
                seen.add(_name_line(draft, standing))
            continue
        elif turns.has(standing.job.uid):
            failures.note(standing, gang)
        if draft.is_autoscaled(standing) and _name_line(draft, standing) not in seen:
            admit(draft, standing, gang, Seats())
            del draft.explanations[standing.job.uid]
            seen.add(_name_line(draft, standing))


def _count_turns(draft: Draft, lines: Mapping[str, Sequence[Standing]]) -> tuple[Turns, Turns]:
    """Which kinds of gangs are looked at, and for whom others are asked: firsts of lines first.

    Who is tried later needs no turn. Whose turn it is to have others asked is looked at: who needed
    both at once would wait for as long as all turns of the one take, times those of the other.
    """
    placed = [pair for line in lines.values() for pair in enumerate(line)]
    ordered = (one for _, one in sorted(placed, key=itemgetter(0)))
    jobs = [one.job for one in ordered if find_in_time(draft, one) is None]
    kinds = [(job.namespace, _get_kind(job)) for job in jobs]
    searches, most = count_searches(draft), draft.rules.kinds
    if len({kind for _, kind in kinds}) > most:
        searches = min(searches, most)  # each may be of a kind more
    turns = Turns(draft, ((job.namespace, job.uid) for job in jobs), searches)
    asked_for = {_get_kind(job) for job in jobs if job.uid in turns}
    return Turns(draft, kinds, most, asked_for), turns


def _list_tried(
    draft: Draft, lines: Mapping[str, Sequence[Standing]], kinds: Turns
) -> Iterator[Standing]:
    """Who is looked at in this pass, in the order of ordering.py: who holds nodes always is.

    Each kind is looked for on all nodes, and an author may have thousands; of who is tried later
    none is. For all others holds what they were told last: by that others keep for them what is
    theirs within a limit.
    """
    for standing in walk(draft, {queue: list(line) for queue, line in lines.items()}):
        uid, told = standing.job.uid, standing.admission
        needs_none = uid in draft.holds.by_uid or find_in_time(draft, standing) is not None
        if needs_none or kinds.has(_get_kind(standing.job)):
            yield standing
        elif standing.is_waiting and told.reason:
            draft.explain(standing, told.reason, told.message)


def _get_kind(job: Job) -> tuple[Shape, Shape]:
    return job.launcher, job.worker


def _list_seen(draft: Draft) -> set[tuple[str, str]]:
    """The queues and namespaces of which an autoscaler sees pods that have no nodes.

    It sees pods alone, and so one job has some that fit nowhere, at a time: of each namespace, not
    of the queue. Whoever has many for which no node will ever come, or ends the pods of one before
    its time is over, would keep all others from theirs.
    """
    return {_name_line(draft, one) for one in draft.list_admitted() if one.is_starting}


def _name_line(draft: Draft, standing: Standing) -> tuple[str, str]:
    return draft.get_queue(standing), standing.job.namespace


def try_start(draft: Draft, standing: Standing, gang: Gang, turns: Turns) -> bool:
    """Whether the job starts, or will in room that is coming, which is reserved for it then.

    Others are asked for room when it is its turn.
    """
    kept, mark = None, draft.room.mark()
    if standing.held is not None:
        release_seats(draft.room, *standing.held)
        kept, standing.held = standing.held[1], None
    allowed = draft.holds.get_allowed(standing)
    coming = find_seats(draft.room, gang, allowed, later=True)
    seats = _find_free(draft, standing, gang, allowed) if coming is not None else None
    if seats is not None:
        take_seats(draft.room, gang, seats)
        admit(draft, standing, gang, seats)
        return True
    asked, coming = None, kept or coming
    if coming is None and turns.has(standing.job.uid):
        asked = ask_for_room(draft, standing, gang)
    elif coming is not None and is_late(draft, standing) and turns.has(standing.job.uid):
        with draft.room.without_coming():
            asked = ask_for_room(draft, standing, gang)
    found = asked or coming
    if found is None:
        note_unfit(draft, standing, gang)
        return False
    wait_for(draft, standing, gang, found, is_asked=asked is not None)
    if found is kept:
        draft.room.return_to(mark)
    return True


def _find_free(draft: Draft, standing: Standing, gang: Gang, allowed: Mask | None) -> Seats | None:
    """Where it may begin now: best where pods of nobody else are still to come."""
    apart = draft.promises.leave_out(standing.job.uid, gang, allowed)
    seats = find_seats(draft.room, gang, apart)
    if seats is None and apart is not allowed:
        seats = find_seats(draft.room, gang, allowed)
    return seats


def wait_for(draft: Draft, standing: Standing, gang: Gang, seats: Seats, *, is_asked: bool) -> None:
    """Keep these seats for the job: others leave them, or were asked to in this pass.

    That they were asked is written into the job before anybody goes: who cannot be written would
    have them asked again in each pass, and never begin.
    """
    if not is_asked:
        hold_seats(draft.room, gang, seats)
    standing.held = (gang, seats)
    coming = draft.counting.get_gang(standing, gang)
    draft.ledger.expect(draft.get_queue(standing), coming)
    if is_asked or standing.job.uid in draft.holds.by_uid:
        draft.holds.move(standing, seats.list_places())
    draft.explain(standing, *tell_room_comes(draft, standing, gang))
    if is_asked:
        draft.change(standing, Step.RESERVE, coming_since=draft.now, unfit_since=draft.now)
        return
    if not standing.is_told or standing.admission.coming_since is None:
        draft.change(standing, Step.TELL, coming_since=draft.now)
    if standing.admission.unfit_since is None:
        draft.change(standing, Step.TELL, unfit_since=draft.now)


def is_late(draft: Draft, standing: Standing) -> bool:
    """Whether the job has been told for too long that room comes: others are asked then."""
    since = standing.admission.coming_since
    return standing.is_told and draft.has_passed(since, draft.rules.coming_most)


def ask_for_room(draft: Draft, standing: Standing, gang: Gang) -> Seats | None:
    """Seats on nodes from which others will go, who were asked to: shrinking before evicting."""
    hold = draft.holds.by_uid.get(standing.job.uid)
    preferred = frozenset(hold.places if hold else ())
    found = find_seats_with_victims(draft, standing, gang, preferred)
    if found is None:
        return None
    seats, search = found
    gift = Gift(Purpose.GANG, standing.job.uid)
    search.commit(gift, f"gives workers for {draft.name_for_others(standing)}")
    return seats


def admit(draft: Draft, standing: Standing, gang: Gang, seats: Seats) -> None:
    """The job may have pods, on these nodes; or nowhere yet, so that an autoscaler sees them."""
    is_new = not standing.is_admitted
    end_hold(draft, standing)
    queue = draft.get_queue(standing)
    amounts = draft.counting.get_amounts(standing, gang.workers, launcher=is_new)
    draft.ledger.book(queue, amounts, amounts)
    if seats == Seats():
        draft.ledger.miss(queue, amounts)
    standing.gang_seats = seats
    workers = gang.workers + standing.size
    placement = draft.holds.build_placement(standing, seats.places, seats.launcher)
    draft.promises.note(standing.job.uid, gang, seats, draft.rank_priority(standing))
    if not is_new:
        reason, text = Reason.RAISED, f"its least size is {workers} workers now"
        fields = {"workers": workers, "placement": placement, "reason": reason, "message": text}
        fields |= {"short_since": draft.now, "grown_from": standing.size}
        draft.change(standing, Step.TAKE, **fields, **NO_WAIT)
        return
    draft.change(
        standing,
        Step.TAKE,
        number=standing.admission.number + 1,
        state=AdmissionState.ADMITTED,
        queue=queue,
        elasticity=standing.job.elasticity,
        workers=workers,
        leaving=(),
        leaving_since=None,
        placement=placement,
        reason=Reason.STARTED,
        message=f"{workers} workers",
        since=draft.now,
        bound_at=None,
        short_since=None,
        grown_from=0,
        gave_for=None,
        retry_at=None,
        resized_at=None,
        levelled_at=None,
        levelled_since=None,
        level_turns=0,
        **NO_WAIT,
    )
    standing.is_admitted = standing.is_fresh = True
    standing.outside = workers


def note_unfit(draft: Draft, standing: Standing, gang: Gang) -> None:
    """The job fits nowhere: since when decides whether nodes are reserved for it.

    That begins anew where others were asked for it, and others have had their room: it is to be no
    stream of jobs that go. Not where room was to come by itself.
    """
    admission = standing.admission
    if admission.unfit_since in {None, admission.coming_since}:
        draft.change(standing, Step.TELL, unfit_since=draft.now)
    if admission.coming_since is not None:
        draft.change(standing, Step.TELL, coming_since=None)
    draft.explain(standing, *tell_no_room(draft, standing, gang))
