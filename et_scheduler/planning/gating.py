"""What keeps a job from starting whatever room there is.

starting.py asks before it looks for room, and yielding.py before it keeps some. Nothing is changed
here; whether there is room is never a matter of it.
"""

from __future__ import annotations

from et_scheduler.model.jobs import Eviction
from et_scheduler.model.reasons import Reason
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.explaining import tell_no_room, tell_too_large
from et_scheduler.planning.fitting import Gang, count_largest
from et_scheduler.planning.refusing import Obstacle
from et_scheduler.planning.standings import Standing


def find_obstacle(draft: Draft, standing: Standing, gang: Gang) -> Obstacle | None:
    """The first of them, or None where only room decides: of one whom its queue does not refuse."""
    return find_in_time(draft, standing) or _find_in_size(draft, standing, gang)


def find_in_time(draft: Draft, standing: Standing) -> Obstacle | None:
    """What time alone is to end: known without a look at any node."""
    admission = standing.admission
    if standing.is_admitted and not standing.is_bound:
        return Reason.BELOW_MINIMUM, "what it may have already does not stand yet"
    if not standing.is_admitted and (left := standing.count_left()):
        return Reason.PODS_LEFT, f"{left} pods of its last life are not gone yet"
    if admission.retry_at is not None and admission.retry_at > draft.now:
        draft.wake(admission.retry_at)
        text = f"is tried again in {(admission.retry_at - draft.now + 999) // 1000} s"
        return Reason.BACKING_OFF, text
    if admission.evictions and not standing.is_admitted:
        return _find_evictor(draft, admission.evictions[-1])
    return None


def _find_evictor(draft: Draft, last: Eviction) -> Obstacle | None:
    """For whom it makes room goes first, as long as he only lacks that, and not for ever."""
    evictor = draft.standings.get(last.uid)
    # Taken back since, he has had his chance; started, he is not waiting.
    if evictor is None or not evictor.lacks_room or evictor.admission.since > last.at:
        return None
    if draft.has_passed(last.at, draft.rules.coming_most):
        return None
    text = f"waits for {draft.name_for_others(evictor)}, for which it was evicted"
    return Reason.BEHIND_EVICTOR, text


def _find_in_size(draft: Draft, standing: Standing, gang: Gang) -> Obstacle | None:
    queue = draft.queues[draft.get_queue(standing)]
    name, total = queue.name, _count_largest(draft, standing, gang)
    is_large = total < gang.workers and not queue.is_autoscaled
    if queue.limits:
        more = draft.counting.get_gang(standing, gang)
        if draft.ledger.exceeds_limit(name, more, at_least=True):
            return Reason.AT_LIMIT, f"queue {name} is at its limit with what its jobs need at least"
        if not is_large and draft.ledger.exceeds_limit(name, more):
            if not draft.could_ever_start(standing, gang):
                return tell_no_room(draft, standing, gang)
            return Reason.AT_LIMIT, f"queue {name} is at its limit until elastic workers have gone"
    if not is_large:
        return None
    own = " beside those that it has" if standing.is_admitted else ""
    return Reason.TOO_LARGE, tell_too_large(gang, total) + own


def _count_largest(draft: Draft, standing: Standing, gang: Gang) -> int:
    """How many of the gang's workers an empty cluster would hold; -1: not even its launcher.

    Beside what the job has itself, which stays.
    """
    own, room = draft.list_own(standing), draft.room
    if own:
        fits = room.count_empty(gang.worker)
        return int(room.count_beside(fits, room.allocatable, gang.worker, own).sum())
    key = (gang.launcher, gang.worker)
    if key not in draft.largest:
        draft.largest[key] = count_largest(gang, room.count_empty)
    return draft.largest[key]
