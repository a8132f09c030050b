"""Workers that have found no node while they keep off one that stays: they are made anew.

What a pod is required to keep off cannot be changed, and what was said of a node passes.
"""

from __future__ import annotations

from datetime import timedelta

from et_operator.model.pods import Pod
from et_operator.planning.drafts import Draft
from et_operator.planning.leaving import leave
from et_operator.planning.replacing import Cause, Vacancy, judge_loss

DISPLACED = "Displaced"
"""Reason of one without a node that keeps off a node on which a new one is put."""
LOOK = timedelta(seconds=30)
"""How often it is looked whether a worker that waits for a node might have others by now."""


def dismiss_displaced(draft: Draft) -> list[Vacancy]:
    """Let the workers leave that would find more nodes if they were new; returns their places."""
    going = _select_displaced(draft)
    vacancies = [judge_loss(draft, pod.name, pod, DISPLACED, Cause.TAKEN) for pod in going]
    for pod in going:
        leave(draft, pod.name, pod.uid, DISPLACED)
        message = f"worker {pod.name} has no node and keeps off one that stays: it is made anew"
        draft.tell("WorkerLeaving", message)
    return vacancies


def _select_displaced(draft: Draft) -> list[Pod]:
    """Workers that wait though a new one might go where they may not; looks again at the others.

    All that were made at one time keep off the same nodes. Compared is with all that end: a new
    one is told of no more than there is room for, and those beyond them do not stay.
    """
    unplaced = [pod for pod in draft.select_roster() if pod.node is None and pod.avoids]
    waiting = [pod for pod in unplaced if not draft.wait_out(pod.created, LOOK)]
    if not waiting:
        return []
    staying = draft.view.snapshot.nodes.keys() - draft.view.ending_nodes
    kept_off = draft.view.kept_off.items()
    too_narrow = {text for text, nodes in kept_off if not staying.isdisjoint(nodes)}
    going = [pod for pod in waiting if pod.avoids in too_narrow]
    if len(going) < len(waiting):
        draft.wake_at(draft.now + LOOK)
    return going
