"""For how long the ends of workers are remembered, and how many of them.

Only records of GONE workers are dropped, and never one that a written config still holds. When to
forget is chosen by membership.py and publishing.py.
"""

from __future__ import annotations

from datetime import timedelta

from et_operator.model.statuses import WorkerState
from et_operator.planning.drafts import Draft
from et_operator.planning.excusing import BLAMED, is_over

MANY_ENDS = 56
"""No more of them are remembered once their pods are gone and no config names them."""
REMEMBERED = timedelta(seconds=60)
"""How long the end of a worker whose pod is gone stays known, at least; of one that the platform
took, so much longer than a launcher's end is explained by it: that may be told a minute later."""


def forget_old_ends(draft: Draft) -> None:
    """Drop what nobody needs to know any more; done only when the config is written anyway."""
    for record in draft.select_records(WorkerState.GONE):
        kept = REMEMBERED + (BLAMED if record.taken else timedelta())
        is_old = record.since is None or draft.now - record.since > kept
        if is_old and record.uid not in draft.view.pods and not draft.view.is_held(record.uid):
            draft.forget(record.name)


def forget_many_ends(draft: Draft) -> None:
    """Keep the newest of the ends that somebody may still ask about: the status has its limit.

    Pods that are over and stay, for a finalizer keeps them, may be any number.
    """
    view = draft.view
    ends = [
        record
        for record in draft.select_records(WorkerState.GONE)
        if is_over(view, record.uid) and not view.is_held(record.uid)
    ]
    ends.sort(key=lambda record: record.since or draft.now)
    for record in ends[:-MANY_ENDS]:
        draft.forget(record.name)
