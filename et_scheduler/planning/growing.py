"""What is left goes to the job whose next step leaves it the least of the cluster.

A late step, after starts and reservations. It asks nobody to go: it raises sizes into room that is
free, and gives jobs again what they have just given back and nobody took.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Purpose
from et_scheduler.model.reasons import Reason
from et_scheduler.planning.drafts import MOST_SPARED, Draft
from et_scheduler.planning.filling import Fill
from et_scheduler.planning.fitting import Seats
from et_scheduler.planning.sizes import find_next
from et_scheduler.planning.standings import Standing
from et_scheduler.planning.waiting import find_wanted


def grow_all(draft: Draft) -> None:
    """Raise sizes of jobs that run, and of gangs that start in this pass if nobody waits.

    What nobody has taken then, those have again who have lost it. While room is being given back
    for the level of all nobody that runs grows; where that takes long, up to the level alone.
    """
    wanted = find_wanted(draft)
    levelled = _find_levelled(draft)
    growers = [one for one in draft.list_admitted() if _may_grow(draft, one, wanted, levelled)]
    menders = [one for one in draft.list_admitted() if one.is_mending]
    fill = Fill(draft, draft.room, {one.job.uid: one.size for one in (*growers, *menders)})
    if _is_level_soon(draft):
        growers = [one for one in growers if one.is_fresh]
    elif growers and (is_levelling(draft) or levelled is not None):
        levels = fill_from_least(draft, list_levelled(draft))
        fill.run((one for one in growers if one.job.uid in levels), levels)
    fill.run(one for one in growers if one.is_fresh or not is_levelling(draft))
    _keep_what_is_worth(draft, fill, growers)
    for standing in growers:
        after = fill.sizes[standing.job.uid]
        if after > standing.size:
            is_given = levelled is not None or is_levelling(draft)
            _apply(draft, standing, after, fill.places[standing.job.uid], is_given=is_given)
    for standing in menders:
        fill.note_booked()
        fill.mend(standing)
        if _looks_elsewhere(draft, standing, fill):
            fill.give_back(standing)
        else:
            _keep(draft, standing, fill)


def _keep_what_is_worth(draft: Draft, fill: Fill, growers: Iterable[Standing]) -> None:
    """Who would grow by too little gives that back: who has least of them has it, if it will do."""
    few = [one for one in growers if not is_worth(draft, one, fill.sizes[one.job.uid])]
    for standing in few:
        fill.give_back(standing)
    few.sort(key=lambda one: (one.dominate(one.size), one.job.created, one.job.uid))
    for standing in few:
        fill.reach(standing, _find_worth(draft, standing))


def _apply(
    draft: Draft, standing: Standing, workers: int, places: list[int], *, is_given: bool
) -> None:
    """`is_given`: into room that others have left for the level of all."""
    draft.resize(standing, workers)
    if standing.is_fresh:  # it starts with them, on nodes that may be reserved for others
        seats = standing.gang_seats or Seats()
        placement = draft.holds.build_placement(standing, (*seats.places, *places), seats.launcher)
        fields = {"message": f"{workers} workers", "grown_from": standing.size}
        draft.change(standing, Step.TAKE, workers=workers, placement=placement, **fields)
        return
    draft.change(
        standing,
        Step.TAKE,
        workers=workers,
        placement=draft.holds.build_placement(standing, places),
        resized_at=standing.admission.resized_at if _goes_on(draft, standing) else draft.now,
        **(_note_given(draft, standing) if is_given else {}),
        short_since=draft.now,
        grown_from=standing.size,
        reason=Reason.GROWN,
        message=f"{workers} workers: {workers - standing.was_size} more have room",
    )


def _note_given(draft: Draft, standing: Standing) -> dict[str, int | None]:
    """The fields of room that others gave, with those that are there now; since when, stays."""
    since = standing.admission.levelled_since
    is_new = since is None or has_had(draft, standing)
    return {"levelled_at": draft.now, "levelled_since": draft.now if is_new else since}


def has_had(draft: Draft, standing: Standing) -> bool:
    """Whether what others gave was had for long enough: an hour, and twice as long each time.

    What the level is depends on where pods are, and on where room for services is kept: two that
    are each above it in turn would give to each other for good.
    """
    admission, turns = standing.admission, min(standing.admission.level_turns, MOST_SPARED)
    since, wait = admission.levelled_since, draft.rules.evicted_again << turns
    return since is None or draft.has_passed(since, wait)


def _looks_elsewhere(draft: Draft, standing: Standing, fill: Fill) -> bool:
    """Whether the job's pods are there, and keep off all nodes where there is room for them.

    Nobody tells a pod anew where to look: it is given back, and comes with the next growth. Those
    that take the place of others were told only where they must not be.
    """
    pods = (pod for pod in standing.job.pods if not (pod.is_launcher or pod.is_terminating))
    if standing.was is None or all(pod.node for pod in pods):
        return False
    names = {draft.room.hostnames[place] for place in fill.places.get(standing.job.uid, ())}
    return bool(names) and names.issubset(standing.was.placement.avoid)


def _keep(draft: Draft, standing: Standing, fill: Fill) -> None:
    """A job goes on as if it had given back nothing, or less, and does so again in the next round.

    Rounds are the same for all: who waits may need what several have lost.
    """
    workers, was = fill.sizes[standing.job.uid], standing.was
    if was is None or workers == standing.size:
        return
    draft.resize(standing, workers)
    placement = draft.holds.build_placement(standing, fill.places[standing.job.uid])
    since = draft.now - draft.now % draft.rules.grown_within
    fields: dict[str, Any] = {"placement": placement, "short_since": since}
    if workers == was.workers:
        fields |= {"reason": was.reason, "message": was.message}
    draft.change(standing, Step.GIVE, workers=workers, **fields)


def _may_grow(
    draft: Draft, standing: Standing, wanted: frozenset[str], levelled: int | None
) -> bool:
    if not standing.is_elastic or standing.size >= standing.most or standing.leaving:
        return False
    if standing.is_fresh:
        # Who starts without seats, for an autoscaler to see its pods, is told no nodes.
        has_seats = standing.gang_seats is not None and bool(standing.gang_seats.places)
        return has_seats and wanted.isdisjoint(name for name, _ in standing.job.worker.requests)
    if not is_steady(standing):
        return False
    goes_on = _goes_on(draft, standing) or _has_rest_of_level(standing, levelled)
    return is_rested(draft, standing) or (goes_on and _may_take(draft, standing))


def _goes_on(draft: Draft, standing: Standing) -> bool:
    """Whether the job has begun to grow a moment ago: what comes now comes with that.

    Others go one by one. Whoever grew into the first room, and rested then, would leave the rest.
    """
    since = standing.admission.resized_at
    return since is not None and draft.now - since < draft.rules.grown_together


def _has_rest_of_level(standing: Standing, levelled: int | None) -> bool:
    """Whether the job grew while some left for the level, the last of whom has gone: once more.

    What is given for that comes in parts. While this one rests, others would have the rest of it.
    """
    since = standing.admission.resized_at
    return since is not None and levelled is not None and since >= levelled


def is_rested(draft: Draft, standing: Standing) -> bool:
    """Whether the job can take more now, and its last growth is long enough ago."""
    since, cooldown = standing.admission.resized_at, standing.job.cooldown
    return (since is None or draft.has_passed(since, cooldown)) and _may_take(draft, standing)


def _may_take(draft: Draft, standing: Standing) -> bool:
    """Whether a growth of which nothing came is long enough ago, and its launcher has a node.

    Before that the operator may hold workers above the least back.
    """
    retry_at = standing.admission.retry_at
    is_over = retry_at is None or draft.has_passed(retry_at, 0)
    return is_over and standing.launcher is not None


def is_steady(standing: Standing) -> bool:
    """All that it may have is bound, and nothing is on its way out."""
    is_whole = standing.admission.bound_at is not None and not standing.unbound
    is_whole = is_whole and len(standing.workers) == standing.size >= standing.least
    return is_whole and not standing.leaving and standing.step in (None, Step.TELL)


def is_levelling(draft: Draft) -> bool:
    """Whether room is being given back for the level of all: nobody grows above that before."""
    if draft.levelling is None:
        draft.levelling = any(_gives_for_level(one) for one in draft.standings.values())
    return draft.levelling


def _gives_for_level(standing: Standing) -> bool:
    gift = standing.admission.gave_for
    return bool(standing.leaving) and gift is not None and gift.purpose is Purpose.LEVEL


def _is_level_soon(draft: Draft) -> bool:
    """Whether some were asked for it a short time ago: who would grow now rests when it is there.

    Whoever takes minutes to leave keeps nobody from room that is free beside him.
    """
    if not is_levelling(draft):
        return False
    givers = (one for one in draft.standings.values() if _gives_for_level(one))
    wait = draft.rules.grown_within
    return any(not draft.has_passed(one.admission.leaving_since, wait) for one in givers)


def _find_levelled(draft: Draft) -> int | None:
    """Where this pass sees that the last has gone for the level of all: since when he was asked.

    Who is below the level grows before others then: by what queues are due those who have given
    might have it again, and give it again, for good. Of that they may have less although they are
    above the level. Who is overdue has not gone, and is waited for by nobody.
    """
    if is_levelling(draft):
        return None
    asked = (
        was.leaving_since or 0
        for one in draft.standings.values()
        if (was := one.was) is not None and was.gave_for != one.admission.gave_for
        if was.gave_for is not None and was.gave_for.purpose is Purpose.LEVEL
    )
    return min(asked, default=None)


def list_levelled(draft: Draft) -> dict[str, Standing]:
    """By uid, the running jobs that take part in levelling: they may give, or be given."""
    return {one.job.uid: one for one in draft.list_admitted() if _takes_part(draft, one)}


def _takes_part(draft: Draft, standing: Standing) -> bool:
    if not standing.is_elastic or draft.get_queue(standing) not in draft.queues:
        return False
    return is_steady(standing) or _is_maimed(draft, standing)


def _is_maimed(draft: Draft, standing: Standing) -> bool:
    """Whether the job has lost what does not come, and keeps the rest: it may give of that.

    Between two of its sizes it gives back nothing by itself while nobody waits (lacking.py).
    """
    admission = standing.admission
    if standing.leaving or standing.step not in (None, Step.TELL) or admission.grown_from:
        return False
    is_short = admission.bound_at is not None and standing.is_bound and not standing.is_whole
    return is_short and draft.has_passed(admission.short_since, draft.rules.grown_within)


def is_worth(draft: Draft, standing: Standing, after: int) -> bool:
    """Whether the change is no growth, or not by less than a step, and a tenth of what there is."""
    more = after - standing.size
    return not more or standing.is_fresh or more * 100 >= draft.rules.worth * standing.size


def _find_worth(draft: Draft, standing: Standing) -> int:
    """The least allowed size by which it may grow."""
    size = find_next(standing.job, standing.size)
    while not is_worth(draft, standing, size) and size < standing.most:
        size = find_next(standing.job, size)
    return size


def fill_from_least(draft: Draft, standings: Mapping[str, Standing]) -> Mapping[str, int]:
    """The level: what each would have if all above the least sizes were given out anew."""
    room = draft.room.copy()
    for standing in standings.values():
        for pod in standing.workers[standing.floor :]:
            place = room.places.get(pod.node)
            if place is not None:
                room.give_back((place,), (1,), pod.shape or standing.job.worker)
    sizes = {uid: one.floor for uid, one in standings.items()}
    fill = Fill(draft, room, sizes, is_real=False)
    for standing in standings.values():
        queue = draft.get_queue(standing)
        held = draft.counting.get_held(standing, standing.size)
        less = draft.counting.get_held(standing, standing.floor) - held
        fill.more[queue] = fill.more[queue] + less if queue in fill.more else less
    fill.run(standings.values())
    return fill.sizes
