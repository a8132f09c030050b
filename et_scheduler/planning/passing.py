"""One pass over a cluster: the list of steps, in the order in which they are taken.

Called by the loop (deciding.py), by who replays a record, and by the simulator. Which step is
before which is said here and nowhere else; a step never calls one that comes later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Change, Decision, Step
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue, QueueStatus
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import PODS
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.growing import grow_all
from et_scheduler.planning.levelling import level_all
from et_scheduler.planning.limiting import keep_limits
from et_scheduler.planning.noting import note_all
from et_scheduler.planning.ordering import list_lines
from et_scheduler.planning.reserving import reserve_all
from et_scheduler.planning.seating import book, restore_holds, seat_bound, seat_unbound
from et_scheduler.planning.services import keep_headroom, serve
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.starting import start_all
from et_scheduler.planning.yielding import yield_held

LINE = 20
"""So many of those who wait are named in a queue's status."""
_Lines = Mapping[str, Sequence[Standing]]


def decide(
    cluster: Cluster,
    queues: Iterable[Queue],
    jobs: Iterable[Job],
    now: int,
    rules: Rules | None = None,
) -> Decision:
    """What to change, in the order in which it must be written. `now`: milliseconds since 1970.

    Promises: the same arguments, in whatever order, give the same decision; on a cluster that
    stands still, again and again applied, it becomes empty; nothing that is given is changed.
    """
    draft = Draft(cluster, queues, jobs, now, rules or Rules())
    try:
        return _take_steps(draft)
    finally:  # its parts know it: it would stay, by the hundred MB, beside the next ones
        vars(draft).clear()


def _take_steps(draft: Draft) -> Decision:
    seat_bound(draft)
    note_all(draft)
    book(draft)
    serve(draft)
    seat_unbound(draft)
    restore_holds(draft)
    yield_held(draft)
    keep_headroom(draft)
    lines = list_lines(draft)
    _explain_refused(draft)
    tried = {name: line for name, line in lines.items() if not draft.queues[name].is_stopped}
    start_all(draft, tried)
    keep_limits(draft)
    reserve_all(draft, tried)
    grow_all(draft)
    level_all(draft)
    _record_holds(draft)
    _open_nodes(draft)
    _record_reasons(draft)
    return _conclude(draft, lines)


def _explain_refused(draft: Draft) -> None:
    """Whom his queue refuses is tried by nobody, and is told here."""
    for standing in draft.list_waiting():
        refusal = draft.find_refusal(standing)
        if refusal is not None:
            draft.explain(standing, *refusal)


def _record_holds(draft: Draft) -> None:
    for uid, standing in draft.standings.items():
        hold = draft.holds.by_uid.get(uid)
        places = hold.places if hold else ()
        names = tuple(sorted(draft.room.nodes[place].name for place in places))
        if names != standing.admission.reserved:
            draft.change(standing, Step.RESERVE if names else Step.TELL, reserved=names)
        if names and standing.admission.reserved_since is None:
            draft.change(standing, Step.RESERVE, reserved_since=draft.now)


def _open_nodes(draft: Draft) -> None:
    """Who was told to keep off nodes that nobody holds any more is told so no longer.

    Who takes the place of a worker that is lost may be there. Where one has no node yet, it is
    known by what was told which nodes its pod keeps off (growing.py).
    """
    for standing in draft.list_admitted():
        told, is_seated = standing.admission.placement, standing.is_whole and not standing.unbound
        if not told.avoid or not is_seated or standing.step not in (None, Step.TELL):
            continue
        avoid = draft.holds.select_held(standing, told.avoid)
        if avoid != told.avoid:
            draft.change(standing, Step.TELL, placement=replace(told, avoid=avoid))


def _record_reasons(draft: Draft) -> None:
    """A sentence is written with a new reason only: its numbers change with every event."""
    for uid, told in draft.explanations.items():
        standing = draft.standings[uid]
        if standing.is_waiting and standing.admission.reason is not told.reason:
            draft.change(standing, Step.TELL, reason=told.reason, message=told.message)


def _conclude(draft: Draft, lines: _Lines) -> Decision:
    changes = [
        Change(uid, standing.step, standing.admission)
        for uid, standing in draft.standings.items()
        if standing.step is not None
        and standing.admission != standing.was
        and not standing.job.is_frozen
    ]
    changes.sort(key=lambda change: change.step)
    running = Counter(draft.get_queue(one) for one in draft.list_admitted())
    statuses = tuple(
        _describe(draft, queue, lines.get(queue, ()), running[queue]) for queue in draft.queues
    )
    return Decision(tuple(changes), statuses, draft.explanations, draft.wake_at)


def _describe(draft: Draft, queue: str, line: Sequence[Standing], running: int) -> QueueStatus:
    waiting = [one for one in line if one.is_waiting]
    is_limited, ledger = PODS in draft.queues[queue].limits, draft.ledger
    return QueueStatus(
        queue,
        len(waiting),
        running,
        draft.pools.name(ledger.allocated[queue], with_places=is_limited),
        draft.pools.name(ledger.deserved[queue], with_places=is_limited),
        tuple(f"{one.job.namespace}/{one.job.name}" for one in waiting[:LINE]),
    )
