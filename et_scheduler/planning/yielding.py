"""Who does not stand yet gives up the nodes of a gang of strictly higher rank that waits for them.

Its pods find no node, so it has nothing to lose: perhaps it never stands.
"""

from __future__ import annotations

from et_scheduler.model.decisions import Step
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.evicting import evict
from et_scheduler.planning.fitting import release_seats
from et_scheduler.planning.holds import Hold
from et_scheduler.planning.seating import keep_room
from et_scheduler.planning.standings import Standing


def yield_held(draft: Draft) -> None:
    """Where a gang would fit on the nodes that it holds but for such pods, they go.

    Those of no lower rank come to stand, or are taken back: `awaited` says who waits for that.
    """
    starting = [one for one, _ in draft.unseated if one.admission.bound_at is None]
    if not starting:
        return
    holds = sorted(draft.holds.by_uid.values(), key=lambda one: draft.rank_priority(one.standing))
    for hold in reversed(holds):
        if hold.standing.held is None:
            _yield(draft, hold, starting)


def _yield(draft: Draft, hold: Hold, starting: list[Standing]) -> None:
    """The lowest and youngest first, as many as make the gang fit; nobody if they do not."""
    waiter, mine = hold.standing, draft.rank_priority(hold.standing)
    names = {draft.room.nodes[place].name for place in hold.places}
    there = [one for one in starting if one.is_admitted and _is_on(one, names)]
    there.sort(key=lambda one: (draft.rank_priority(one), -one.admission.since, one.job.uid))
    out: list[Standing] = []
    for one in there:
        draft.expect_whole(one)
        out.append(one)
        keep_room(draft, hold)
        if waiter.held is not None:
            break
    for one in out:
        draft.expect_whole(one, -1)
    if waiter.held is None:
        return
    if all(draft.rank_priority(one) < mine and _may_go(draft, waiter, one) for one in out):
        for one in out:
            evict(draft, one, waiter)
    else:
        draft.awaited.add(waiter.job.uid)
        release_seats(draft.room, *waiter.held)
        waiter.held = None


def _is_on(standing: Standing, names: set[str]) -> bool:
    return any(pod.node in names for pod in standing.list_staying())


def _may_go(draft: Draft, waiter: Standing, standing: Standing) -> bool:
    """Unless something else is decided of it, or nobody hears what it is told."""
    is_free = standing.step in (None, Step.TELL) and not standing.leaving
    return is_free and draft.hearing.may_ask(waiter)
