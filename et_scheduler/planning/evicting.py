"""Who may be asked to give way for a gang; which whole jobs go where shrinking does not do.

starting.py, services.py and yielding.py ask. Workers are asked by a Search (giving.py) that the
caller commits; whole jobs go by `evict`, once their room is known to be enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from et_scheduler.model.jobs import Eviction
from et_scheduler.model.reasons import Reason
from et_scheduler.planning.donors import Donors, Group, is_evictable
from et_scheduler.planning.drafts import ALLOWED, Draft
from et_scheduler.planning.fitting import Gang, Seats
from et_scheduler.planning.giving import Rank, Search
from et_scheduler.planning.returning import send_back
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.unseated import list_others
from et_scheduler.planning.victims import Lenders, Trial, get_booked

_OVER_SHARE, _LOWER_PRIORITY, _SAME_QUEUE = range(3)


class Claim(NamedTuple):
    """What decides whom a gang may ask: thousands of gangs have few.

    Only who is in his queue's share may make other queues give, of the resources in `columns`:
    places for pods are among them where these are what lacks (`_claim_places`).
    """

    queue: str
    priority: int
    is_in_share: bool
    columns: int


def find_claim(draft: Draft, waiter: Standing, gang: Gang) -> Claim:
    """What this gang may ask of others, by what is booked so far in the pass."""
    queue = draft.get_queue(waiter)
    wanted = draft.counting.get_gang(waiter, gang)
    is_in_share = draft.ledger.is_in_share(queue, wanted)
    return Claim(queue, waiter.job.priority, is_in_share, draft.ledger.mark_wanted(wanted))


def rank_for_claim(draft: Draft, claim: Claim) -> Rank:
    """The order in which donors are asked for a claim; None of one that may not be asked.

    Queues above their share first, then lower priority, then the same queue.
    """

    def rank(donor: Standing, _: int) -> int | None:
        queue = draft.get_queue(donor)
        if queue == claim.queue:
            if donor.job.priority < claim.priority:
                return _LOWER_PRIORITY
            return _SAME_QUEUE if donor.job.priority == claim.priority else None
        if not claim.is_in_share:
            return None
        known = draft.queues.get(queue)
        if known is None:  # it was deleted: nothing is due to it, and nobody of it can start again
            return _SAME_QUEUE
        if not known.is_reclaimable:
            return None
        return _OVER_SHARE if draft.ledger.find_above(queue) & claim.columns else None

    return rank


def find_seats_with_victims(
    draft: Draft, waiter: Standing, gang: Gang, preferred: frozenset[int]
) -> tuple[Seats, Search] | None:
    """Seats for which others go, who are to be asked by the search: shrinking before evicting.

    Whole jobs go for nobody who has just failed to stand, again and again (`Draft.find_spared`),
    nor do workers leave where that goes on.
    Whole jobs go for none that pods of a gang that has just started may take, wherever on its nodes
    they come to be. After a minute that is so for gangs of strictly higher rank alone: with one
    after the other of which no pod is ever bound all others would keep the jobs on these nodes.
    """
    if not draft.hearing.may_ask(waiter) or draft.find_spared(waiter, ALLOWED):
        return None
    claim = find_claim(draft, waiter, gang)
    found = _find_seats(draft, waiter, gang, preferred, claim)
    if found is None:
        wider = _claim_places(draft, waiter, gang, claim)
        if wider is not None:
            found = _find_seats(draft, waiter, gang, preferred, *wider)
    return found


def _claim_places(
    draft: Draft, waiter: Standing, gang: Gang, claim: Claim
) -> tuple[Claim, Lenders] | None:
    """A claim to places for pods too, and who is asked for these alone; None without need.

    Each pod takes one: else whoever has many and little else would be asked for whatever lacks. So
    they are claimed where those who may be asked without have room but for them, and by whose queue
    is due as many: two would else take them from each other in turns. One that has nothing may
    begin with more, and is given workers alone: who went whole for that would ask back.
    """
    ledger, queue = draft.ledger, claim.queue
    wanted = draft.counting.get_gang(waiter, gang)
    columns = ledger.mark_wanted(wanted, with_places=True)
    lenders = frozenset(
        name
        for name, known in draft.queues.items()
        if name != queue
        and known.is_reclaimable
        and ledger.find_above(name) & columns
        and not ledger.find_above(name) & claim.columns
    )
    if not (lenders and claim.is_in_share and ledger.is_in_share(queue, wanted, with_places=True)):
        return None
    donors, allowed = get_donors(draft), draft.holds.get_allowed(waiter, is_asking=True)
    giving, going = _list_groups(draft, waiter, rank_for_claim(draft, claim))
    if _are_whole_jobs_spared(draft, waiter):
        going = []
    if donors.may_fit(gang, allowed, giving, going):
        return None  # it is not places that lack, as far as is known
    if not donors.may_fit(gang, allowed, giving, going, with_places=False):
        return None
    is_due = ledger.is_due(queue, wanted, with_places=True)
    return claim._replace(columns=columns), Lenders(lenders, columns if is_due else 0)


def _list_groups(draft: Draft, waiter: Standing, rank: Rank) -> tuple[list[Group], list[Group]]:
    """Of whom workers may be asked, and of whom whole jobs."""
    donors = get_donors(draft)
    ranks = {group: rank(first, 0) for group, first in donors.first.items()}
    giving = [group for group, found in ranks.items() if found is not None]
    asked = [group for group, found in ranks.items() if found in (_OVER_SHARE, _LOWER_PRIORITY)]
    return giving, [group for group in asked if _can_lose(draft, waiter, group, donors)]


def _find_seats(
    draft: Draft,
    waiter: Standing,
    gang: Gang,
    preferred: frozenset[int],
    claim: Claim,
    lenders: Lenders | None = None,
) -> tuple[Seats, Search] | None:
    donors, rank = get_donors(draft), rank_for_claim(draft, claim)
    allowed = draft.holds.get_allowed(waiter, is_asking=True)
    giving, going = _list_groups(draft, waiter, rank)
    search = Search(draft, rank, allowed, preferred)
    if giving and donors.may_fit(gang, allowed, giving):
        search.collect(one for group in giving for one in donors.givers.get(group, ()))
        seats = search.find(gang)
        if seats is not None:
            return seats, search
    if not going or _are_whole_jobs_spared(draft, waiter) or waiter.job.uid in draft.awaited:
        return None
    has_waited = draft.has_waited(waiter)
    with draft.promises.with_wandering(draft.rank_priority(waiter) if has_waited else None):
        if not donors.may_fit(gang, allowed, giving, going):
            return None
        others = list_others(draft, waiter, rank, has_waited=has_waited)
        trial = Trial(search, waiter, gang, donors, giving, lenders)
        seats = trial.find(_list_candidates(draft, waiter, donors, going), going, others)
        victims = trial.end()
    for victim in victims if seats is not None else ():
        evict(draft, victim, waiter)
    return (seats, search) if seats is not None else None


def _are_whole_jobs_spared(draft: Draft, waiter: Standing) -> bool:
    return bool(draft.find_spared(waiter) or draft.find_pause(waiter))


def _can_lose(draft: Draft, waiter: Standing, group: Group, donors: Donors) -> bool:
    """Whether anybody of the group could go at all and leave his queue what it deserves."""
    queue, _ = group
    if group not in donors.evictable:
        return False
    if queue == draft.get_queue(waiter) or queue not in draft.queues:
        return True
    spare = draft.ledger.find_spare(queue)
    least = donors.smallest[group]
    return bool(((spare >= least) | (least == 0)).all())


def get_donors(draft: Draft) -> Donors:
    """Looked up once in a pass, when somebody needs it."""
    if draft.donors is None:
        draft.donors = Donors(draft)
    return draft.donors  # type: ignore[return-value]


def evict(draft: Draft, victim: Standing, waiter: Standing) -> None:
    """Back into the line at its old place; it gets no room before its evictor."""
    uid, queue = waiter.job.uid, draft.get_queue(waiter)
    amounts, least = get_booked(draft, victim)
    draft.ledger.book(draft.get_queue(victim), -amounts, -least)
    recent = [
        one for one in victim.admission.evictions if draft.now - one.at < draft.rules.evicted_again
    ]
    is_early = victim.admission.bound_at is None
    evictions = (*recent, Eviction(uid, queue, draft.now, is_early))
    text = f"makes room for {draft.name_for_others(waiter)}"
    send_back(draft, victim, Reason.EVICTED, text, evictions=evictions)


def _list_candidates(
    draft: Draft, waiter: Standing, donors: Donors, going: Iterable[Group]
) -> list[Standing]:
    """Lowest and youngest first; none that is protected."""
    found = [
        one
        for group in going
        for one in donors.evictable[group]
        if one.is_admitted and is_evictable(draft, one) and not _was_evicted(draft, waiter, one)
    ]
    return sorted(found, key=lambda one: (one.job.priority, -one.admission.since, one.job.uid))


def _was_evicted(draft: Draft, waiter: Standing, victim: Standing) -> bool:
    """Whether `victim` went for the waiter's queue already, within `evicted_again` (an hour)."""
    queue = draft.get_queue(waiter)
    return any(
        eviction.queue == queue and draft.now - eviction.at < draft.rules.evicted_again
        for eviction in victim.admission.evictions
    )
