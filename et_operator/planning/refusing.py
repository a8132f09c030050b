"""What a job is told of writes that the API server does not do, in the words of who refused.

status.py and queueing.py put the sentences where people see them. Words alone: whether such a write
is tried again is decided by drafts.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from et_kube.resources import Ref
from et_operator.model.actions import Subject
from et_operator.model.snapshots import REFUSED_LATELY, Refusal
from et_operator.planning.drafts import FAILURES_TOLD, Draft

MOST_TOLD = 3
"""Objects of a kind in one sentence each; the others are counted."""


def tell_refusals(draft: Draft, subjects: Iterable[Subject]) -> str:
    """Sentences about these subjects, as long as they may still hold; "" where none does."""
    told = [sentence for subject in subjects if (sentence := _tell(draft, subject))]
    more = len(told) - MOST_TOLD
    return "; ".join(told[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")


def _tell(draft: Draft, subject: Subject) -> str:
    refusal = draft.view.snapshot.refusals.get(subject)
    if refusal is None or not _check_lasting(draft, refusal):
        return ""
    kind = (subject.resource if isinstance(subject, Ref) else subject).kind
    what = f"{'the deletion of ' if refusal.is_deletion else ''}{kind} {refusal.name}"
    if not refusal.is_answered:
        return f"the API server has not said what it would do with {what}: {refusal.message}"
    verb = "refuses" if refusal.is_meant else "fails on"
    return f"the API server {verb} {what}: {refusal.message}"


def _check_lasting(draft: Draft, refusal: Refusal) -> bool:
    if not refusal.is_meant and refusal.count < FAILURES_TOLD:
        return False
    return draft.wait_until(refusal.at + REFUSED_LATELY)
