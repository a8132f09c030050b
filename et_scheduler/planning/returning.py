"""Sends jobs back into the line: whoever does not stand in time, goes for others, or has to.

Who goes back is judged by whoever calls (noting, evicting, lacking, clocks). Pods and room of the
job are counted out here; the books of its queue are the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

from et_contract.admissions import AdmissionState
from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Admission
from et_scheduler.model.reasons import Reason
from et_scheduler.model.rules import Rules
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.fitting import release_seats
from et_scheduler.planning.standings import Standing

SPREAD = 5
"""Retries of jobs that were taken back together are spread over a fifth of the wait."""
NO_WAIT: Mapping[str, None] = dict.fromkeys(("reserved_since", "unfit_since", "coming_since"))
"""Of an admission, where nobody waits for room, or he begins to."""


def take_back(
    draft: Draft, standing: Standing, reason: Reason, text: str, *, is_attempt: bool = False
) -> None:
    """Back into the line at the old place; all pods go. Each failed attempt doubles the wait.

    Who fails again is behind all who have come: many who never stand would else take turns at the
    front, for no wait is longer than all their attempts together.
    """
    changes = count_attempt(draft, standing) if is_attempt else {}
    if is_attempt and standing.admission.attempts:
        changes["queued_at"] = draft.now
    send_back(draft, standing, reason, text, **changes)


def count_attempt(draft: Draft, standing: Standing) -> dict[str, int]:
    """Changes of a job's admission for one more attempt in vain: each doubles the wait."""
    rules, attempts = draft.rules, standing.admission.attempts
    wait = min(rules.retry_least << min(attempts, 16), rules.retry_most)
    return {"attempts": attempts + 1, "retry_at": draft.now + spread(standing, wait)}


def spread(standing: Standing, wait: int) -> int:
    """The wait, and what this job waits longer than others."""
    parts = crc32(standing.job.uid.encode()) % 100
    return wait + wait * parts // 100 // SPREAD


def spread_most(rules: Rules) -> int:
    """The longest wait that `spread` gives to any job."""
    return rules.retry_most + rules.retry_most // SPREAD


def send_back(
    draft: Draft, standing: Standing, reason: Reason, text: str, **changes: object
) -> None:
    """An admitted job is in the line again, and all its pods go: their room is free later."""
    changes = {**forget_growth(standing.admission), **changes}
    draft.change(
        standing,
        Step.GIVE,
        state=AdmissionState.WAITING,
        since=draft.now,
        workers=0,
        leaving=(),
        leaving_since=None,
        gave_for=None,
        bound_at=None,
        short_since=None,
        grown_from=0,
        reason=reason,
        message=text,
        **NO_WAIT,
        **changes,
    )
    end_hold(draft, standing)
    _vacate(draft, standing)


def forget_growth(admission: Admission) -> dict[str, Any]:
    """Attempts of one that has stood were for more workers: its next start is another matter.

    So are the rounds in which whole jobs went for it.
    """
    return {} if admission.bound_at is None else {"attempts": 0, "retry_at": None, "rounds": 0}


def end_hold(draft: Draft, standing: Standing) -> None:
    """The job holds nodes no more, and no room either."""
    draft.holds.end(standing)
    if standing.held is not None:
        release_seats(draft.room, *standing.held)
        standing.held = None


def _vacate(draft: Draft, standing: Standing) -> None:
    draft.expect_whole(standing)
    standing.workers, standing.unbound = [], []
    standing.has_launcher = False
    standing.is_admitted = False
