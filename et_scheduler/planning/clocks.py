"""Moments that lie ahead of now: a former leader's clock was wrong; no wait is longer for it.

Or ours is behind, which the server's own times tell: set to that, all waits would be over at once
when it is right again, and who has just lost a worker would be taken back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from et_scheduler.model.decisions import Step
from et_scheduler.model.jobs import Eviction
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.returning import spread_most
from et_scheduler.planning.standings import Standing

_WAITED_FROM = (
    "since",
    "reserved_since",
    "unfit_since",
    "coming_since",
    "bound_at",
    "short_since",
    "leaving_since",
    "resized_at",
    "levelled_at",
    "levelled_since",
    "round_at",
)
"""A place in line is none of them: nobody waits for it, and who came first came first."""


def set_clock_right(draft: Draft, standing: Standing) -> None:
    """What was recorded with a time ahead of now is so since now, once and in the admission.

    Every wait is then as long as it is, from now, and not until the right clock has got there.
    Nothing is where a pod or a job was made ahead of now as well.
    """
    told, now = standing.admission, draft.now
    latest = {**dict.fromkeys(_WAITED_FROM, now), "retry_at": now + spread_most(draft.rules)}
    fields: dict[str, Any] = {
        name: most for name, most in latest.items() if (getattr(told, name) or 0) > most
    }
    if any(one.at > now for one in told.evictions):
        fields["evictions"] = tuple(_set_right(draft, one) for one in told.evictions)
    if fields and draft.hearing.made_at <= draft.now:
        draft.change(standing, Step.TELL, **fields)


def _set_right(draft: Draft, one: Eviction) -> Eviction:
    """As of now, or of the round of its gang that was the last, within the hour.

    Of those who went in one round some are written a pass later: they would be another one.
    """
    if one.at <= draft.now:
        return one
    gang = draft.standings.get(one.uid)
    last = (gang.admission.round_at if gang is not None else None) or 0
    is_recent = draft.now - last < draft.rules.evicted_again
    return replace(one, at=min(draft.now, last) if is_recent else draft.now)
