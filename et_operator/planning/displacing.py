"""Workers that have found no node while they keep off one that stays: they are made anew.

What a pod is required to keep off cannot be changed, and what was said of a node passes.
"""

from __future__ import annotations

from datetime import timedelta

from et_operator.model.avoiding import list_avoided
from et_operator.model.pods import Pod
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import leave
from et_operator.planning.noticing import find_avoided
from et_operator.planning.replacing import Cause, Vacancy, judge_loss

DISPLACED = "Displaced"
"""Reason of one without a node that keeps off a node on which a new one is put."""
LOOK = timedelta(seconds=30)
"""How often it is looked whether a worker that waits for a node might have others by now."""


def dismiss_displaced(draft: Draft) -> list[Vacancy]:
    """Let the workers leave that would find more nodes if they were new; returns their places."""
    going = [pod for pod in draft.select_roster() if _is_displaced(draft, pod)]
    vacancies = [judge_loss(draft, pod.name, pod, DISPLACED, Cause.TAKEN) for pod in going]
    for pod in going:
        leave(draft, pod.name, pod.uid, DISPLACED)
        message = f"worker {pod.name} has no node and keeps off one that stays: it is made anew"
        draft.tell("WorkerLeaving", message)
    return vacancies


def _is_displaced(draft: Draft, pod: Pod) -> bool:
    """Whether it waits though a new one might go where it may not; looks again if not."""
    if pod.node is not None or not pod.avoids or draft.must_wait(pod.created, LOOK):
        return False
    avoided, nodes = find_avoided(draft.view), draft.view.snapshot.nodes
    if any(name in nodes and name not in avoided for name in list_avoided(pod.avoids)):
        return True
    draft.wake_at(draft.now + LOOK)
    return False
