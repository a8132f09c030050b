"""What becomes of workers that a job may have and that do not come.

noting.py calls it for jobs that have stood. What is given back is what did not come; who trains
goes for it only where the job's sizes leave no other way.
"""

from __future__ import annotations

from typing import Any

from et_scheduler.model.decisions import Step
from et_scheduler.model.reasons import Reason
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import Gang, find_seats
from et_scheduler.planning.returning import count_attempt
from et_scheduler.planning.sizes import find_allowed, find_floor
from et_scheduler.planning.standings import Standing


def check_growth(draft: Draft, standing: Standing) -> None:
    """Workers above the least that find no node, or that nobody creates, are given back.

    Time alone says that they do not come: others may be lost and made anew meanwhile. What was lost
    it may have again in the same pass, where nobody else wants the room.
    """
    rules = draft.rules
    newest = max((pod.created for pod in standing.unbound), default=None)
    is_taken = bool(draft.served) or _has_no_room(draft, standing)
    if is_taken and draft.has_passed(newest, rules.given_back):
        wait = rules.given_back
    elif draft.has_passed(standing.admission.short_since, rules.grown_within):
        wait = rules.grown_within
    else:
        return
    if _costs_others(draft, standing):
        return
    lacking = standing.size - len(standing.workers)
    text = f"{lacking} workers had no node in {wait // 1000} s"
    fields: dict[str, Any] = {"reason": Reason.NOT_GROWN, "short_since": None, "grown_from": 0}
    uncreated = lacking - len(standing.unbound) - standing.replaced
    if uncreated > 0:
        text += f", {uncreated} of them were not created"
    is_refused = uncreated > 0 or not (is_taken or draft.is_autoscaled(standing))
    fields |= _judge_growth(draft, standing, is_refused=is_refused)
    standing.has_lost = not standing.admission.grown_from
    draft.shrink(standing, (), None, text)
    draft.change(standing, Step.GIVE, **fields)


def _costs_others(draft: Draft, standing: Standing) -> bool:
    """Whether workers that are there would go for those that were lost, and nobody waits for room.

    Between two of its sizes the lower counts: of eight, four would go for one.
    """
    there = len(standing.workers)
    if standing.admission.grown_from or find_floor(standing.job, there) >= there:
        return False
    return not draft.is_room_wanted


def _has_no_room(draft: Draft, standing: Standing) -> bool:
    """Whether the job's pods without a node have none where they look, now or later.

    What it has lost it could get again by growth alone: of that it keeps what is too little for
    one. Where an autoscaler is to see pods, they are to be seen.
    """
    rules, unbound, told = draft.rules, len(standing.unbound), draft.holds.find_told(standing)
    if not unbound or draft.is_autoscaled(standing):
        return False
    if not standing.admission.grown_from:
        if unbound * 100 < rules.worth * standing.size:
            return False
        told = None
    lacking = Gang(None, standing.coming, unbound)
    return find_seats(draft.room, lacking, told, later=True) is None


def _judge_growth(draft: Draft, standing: Standing, *, is_refused: bool) -> dict[str, Any]:
    """A growth that is refused as a whole has failed: the wait for the next is longer.

    Nobody creates the pods, or kube-scheduler binds none though there is room as far as is seen
    here. So has one of which too few came for the next of its sizes, whatever the others wait for:
    they go again. A loss is none. Without a launcher that has a node the operator may hold workers
    back.
    """
    grown_from = standing.admission.grown_from
    if not grown_from or standing.launcher is None:
        return {}
    there = len(standing.workers)
    if find_allowed(standing.job, there) > grown_from:
        return {"attempts": 0, "retry_at": None}
    return count_attempt(draft, standing) if is_refused or there > grown_from else {}


def lacks_growth(draft: Draft, standing: Standing) -> bool:
    """Whether the job lacks its least size since it may have more, and for too long by now."""
    admission = standing.admission
    had_less = admission.grown_from or (admission.reason is Reason.RAISED and standing.workers)
    is_lacking = len(standing.workers) < standing.floor
    wait = draft.rules.grown_within
    return bool(had_less) and is_lacking and draft.has_passed(admission.short_since, wait)


def lower(draft: Draft, standing: Standing) -> None:
    """A larger least size that does not come costs the job nothing: it may have what it had.

    What has come of it stays, down to an allowed size. It waits in line for the rest again, longer
    each time; what lacks of its own it lacks from now on.
    """
    there = len(standing.workers)
    text = f"{standing.floor - there} workers of a larger least size had no node in "
    text += f"{draft.rules.grown_within // 1000} s"
    own = standing.admission.grown_from  # a former version has not written it
    workers = min(max(own, find_allowed(standing.job, there)), standing.size)
    draft.change(standing, Step.GIVE, workers=workers, short_since=None, grown_from=0)
    draft.shrink(standing, (), None, text)
    fields = count_attempt(draft, standing)
    draft.change(standing, Step.GIVE, reason=Reason.NOT_GROWN, **fields)
