"""Who may be asked to give way for a gang; which whole jobs go where shrinking does not do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from et_scheduler.model.jobs import Eviction
from et_scheduler.model.reasons import Reason
from et_scheduler.planning.donors import Donors, Group, is_evictable
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, Seats
from et_scheduler.planning.giving import Rank, Search
from et_scheduler.planning.ledgers import mark
from et_scheduler.planning.returning import send_back
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.unseated import Others, Unseated, list_others, seated

_OVER_SHARE, _LOWER_PRIORITY, _SAME_QUEUE = range(3)


def rank_for_gang(draft: Draft, waiter: Standing, gang: Gang) -> Rank:
    """Queues above their share first, then lower priority, then the same queue.

    Only who is in his queue's share may make other queues give.
    """
    mine = draft.get_queue(waiter)
    wanted = draft.counting.get_amounts(waiter, gang.workers, launcher=gang.launcher is not None)
    is_in_share, columns = draft.ledger.is_in_share(mine, wanted), mark(wanted > 0)

    def rank(donor: Standing, _: int) -> int | None:
        queue = draft.get_queue(donor)
        if queue == mine:
            if donor.job.priority < waiter.job.priority:
                return _LOWER_PRIORITY
            return _SAME_QUEUE if donor.job.priority == waiter.job.priority else None
        known = draft.queues.get(queue)
        if not is_in_share or known is None or not known.is_reclaimable:
            return None
        return _OVER_SHARE if draft.ledger.find_above(queue) & columns else None

    return rank


def find_seats_with_victims(
    draft: Draft, waiter: Standing, gang: Gang, preferred: frozenset[int]
) -> tuple[Seats, Search] | None:
    """Seats for which others go, who are to be asked by the search: shrinking before evicting.

    Whole jobs go for none that pods of a gang that has just started may take, wherever on its nodes
    they come to be. After a minute that is so for gangs of strictly higher rank alone: with one
    after the other of which no pod is ever bound all others would keep the jobs on these nodes.
    """
    if not draft.hearing.may_ask(waiter):
        return None
    donors, rank = get_donors(draft), rank_for_gang(draft, waiter, gang)
    allowed = draft.holds.get_allowed(waiter, is_asking=True)
    ranks = {group: rank(first, 0) for group, first in donors.first.items()}
    giving = [group for group, found in ranks.items() if found is not None]
    going = [group for group, found in ranks.items() if found in (_OVER_SHARE, _LOWER_PRIORITY)]
    going = [group for group in going if _can_lose(draft, waiter, group, donors)]
    search = Search(draft, rank, allowed, preferred)
    if giving and donors.may_fit(gang, allowed, giving):
        search.collect(one for group in giving for one in donors.givers.get(group, ()))
        seats = search.find(gang)
        if seats is not None:
            return seats, search
    if not going or waiter.job.uid in draft.awaited:
        return None
    has_waited = draft.has_passed(waiter.admission.unfit_since, draft.rules.reserve_after)
    with draft.promises.with_wandering(draft.rank_priority(waiter) if has_waited else None):
        if not donors.may_fit(gang, allowed, giving, going):
            return None
        others = list_others(draft, waiter, rank, has_waited=has_waited)
        seats = evict_for(search, waiter, gang, donors, others)
    return (seats, search) if seats is not None else None


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


def evict_for(
    search: Search, waiter: Standing, gang: Gang, donors: Donors, others: Others
) -> Seats | None:
    """Seats for which whole jobs go, as few as are needed; None, and nothing changed, if not.

    There is room besides for who comes before the waiter, if need be because one more goes.
    """
    draft, before = search.draft, others.before
    victims: list[Standing] = []
    mine, spare = draft.get_queue(waiter), dict[str, list[int]]()
    for victim in _list_candidates(draft, waiter, search.rank, donors):
        if not _keeps_queue(draft, mine, victim, spare):
            continue
        _count_out(draft, victim, 1)
        spare.clear()
        victims.append(victim)
        search.collect()
        if _try(search, gang, before):
            break
    else:
        _count_in(draft, victims)
        return None
    for victim in tuple(victims[:-1]):
        _count_out(draft, victim, -1)
        if _try(search, gang, before):
            victims.remove(victim)
        else:
            _count_out(draft, victim, 1)
    if others.seeking and not _try(search, gang, [*before, *others.seeking]):
        _count_in(draft, victims)
        return None
    with seated(draft, before):  # as it was tried, so that nobody goes for no seats
        seats = search.find(gang)
    _count_in(draft, victims)
    for victim in victims if seats is not None else ():
        evict(draft, victim, waiter)
    return seats


def _count_in(draft: Draft, victims: Iterable[Standing]) -> None:
    for victim in victims:
        _count_out(draft, victim, -1)


def evict(draft: Draft, victim: Standing, waiter: Standing) -> None:
    """Back into the line at its old place; it gets no room before its evictor."""
    uid, queue = waiter.job.uid, draft.get_queue(waiter)
    _book(draft, victim, 1)
    recent = [
        one for one in victim.admission.evictions if draft.now - one.at < draft.rules.evicted_again
    ]
    evictions = (*recent, Eviction(uid, queue, draft.now))
    text = f"makes room for {draft.name_for_others(waiter)}"
    send_back(draft, victim, Reason.EVICTED, text, evictions=evictions)


def _try(search: Search, gang: Gang, others: Sequence[Unseated]) -> bool:
    if search.find(gang) is None:
        return False
    search.undo()
    if not others:
        return True
    with seated(search.draft, others):
        is_found = search.find(gang) is not None
        if is_found:
            search.undo()
    return is_found


def _list_candidates(
    draft: Draft, waiter: Standing, rank: Rank, donors: Donors
) -> Iterable[Standing]:
    """Lowest and youngest first; none that is protected."""
    found = [
        one
        for group, members in donors.evictable.items()
        if rank(donors.first[group], 0) in (_OVER_SHARE, _LOWER_PRIORITY)
        for one in members
        if one.is_admitted and is_evictable(draft, one) and not _was_evicted(draft, waiter, one)
    ]
    return sorted(found, key=lambda one: (one.job.priority, -one.admission.since, one.job.uid))


def _was_evicted(draft: Draft, waiter: Standing, victim: Standing) -> bool:
    """For this queue, within the hour."""
    queue = draft.get_queue(waiter)
    return any(
        eviction.queue == queue and draft.now - eviction.at < draft.rules.evicted_again
        for eviction in victim.admission.evictions
    )


def _keeps_queue(draft: Draft, mine: str, victim: Standing, spare: dict[str, list[int]]) -> bool:
    """A job of another queue goes only if that queue keeps what it deserves without it.

    `spare` remembers what each queue has above that, until somebody is counted out.
    """
    queue = draft.get_queue(victim)
    if queue == mine or queue not in draft.queues:
        return True
    if queue not in spare:
        spare[queue] = draft.ledger.find_spare(queue).tolist()
    amounts = draft.counting.get_held(victim, victim.size).tolist()
    return all(left >= one for left, one in zip(spare[queue], amounts, strict=True) if one)


def _count_out(draft: Draft, victim: Standing, sign: int) -> None:
    """As if it had gone, or -1: as if it were there again. It gives no workers meanwhile."""
    victim.leaving += sign
    _book(draft, victim, sign)
    draft.expect_whole(victim, sign)


def _book(draft: Draft, victim: Standing, sign: int) -> None:
    """Its queue has so much less."""
    amounts, least = (
        draft.counting.get_held(victim, count) for count in (victim.size, victim.floor)
    )
    draft.ledger.book(draft.get_queue(victim), -sign * amounts, -sign * least)
