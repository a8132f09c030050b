"""Who does not stand yet gives up the nodes of a gang of strictly higher rank that waits for them.

Its pods came there because they found no other node: it has done nothing yet, and may never stand.
Who has stood is never asked to go here, and which nodes are held for whom is holds.py's.
"""

from __future__ import annotations

from collections.abc import Iterable

from et_scheduler.model.decisions import Step
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.evicting import evict
from et_scheduler.planning.fitting import release_seats
from et_scheduler.planning.gating import find_obstacle
from et_scheduler.planning.holds import Hold
from et_scheduler.planning.seating import get_gang, keep_room
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.unseated import is_for_nodes


def yield_held(draft: Draft) -> None:
    """Where a gang would fit on the nodes that it holds but for such pods, they go.

    Those of no lower rank come to stand, or are taken back: `awaited` says who waits for that.
    """
    if not draft.holds.by_uid:
        return
    starting = {one.job.uid: one for one, _ in draft.unseated if one.admission.bound_at is None}
    starting |= {one.job.uid: one for one in draft.list_admitted() if is_for_nodes(draft, one)}
    holds = sorted(draft.holds.by_uid.values(), key=lambda one: draft.rank_priority(one.standing))
    for hold in reversed(holds):
        if hold.standing.held is None and starting:
            _yield(draft, hold, starting.values())


def _yield(draft: Draft, hold: Hold, starting: Iterable[Standing]) -> None:
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
    is_above = all(draft.rank_priority(one) < mine for one in out)
    if is_above and _may_ask(draft, waiter) and all(_may_go(one) for one in out):
        for one in out:
            evict(draft, one, waiter)
    else:
        draft.awaited.add(waiter.job.uid)
        release_seats(draft.room, *waiter.held)
        waiter.held = None


def _is_on(standing: Standing, names: set[str]) -> bool:
    return any(pod.node in names for pod in standing.list_staying())


def _may_ask(draft: Draft, waiter: Standing) -> bool:
    """Whether nothing but room keeps it from its start, and somebody hears what it asks."""
    obstacle = find_obstacle(draft, waiter, get_gang(waiter))
    return obstacle is None and not waiter.job.is_frozen and draft.hearing.may_ask(waiter)


def _may_go(standing: Standing) -> bool:
    """Unless something else is decided of it."""
    return standing.step in (None, Step.TELL) and not standing.leaving
