"""What is told of pods that are being deleted and live: who waits for them, and until when.

Called by status.py. Words alone, a condition and an Event: whether an end is waited for is decided
in presence.py.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from et_operator.model.conditions import find_condition
from et_operator.model.texts import name_some
from et_operator.planning.drafts import Draft

KIND = "PodsEnding"
SLOW = timedelta(seconds=10)
"""An end that takes longer is worth a word."""


class _Wait(NamedTuple):
    """For whom it is, or was, waited; `is_over`: nobody waits any more, and they live still."""

    reason: str
    message: str
    is_over: bool = False


def describe_ends(draft: Draft) -> None:
    """A condition while launchers are awaited, or pods are overdue, and an Event for each."""
    wait = _judge_ends(draft)
    if wait is None:
        draft.clear_condition(KIND, "Resolved")
        return
    old = find_condition(draft.status.conditions, KIND)
    if old is None or (old.status, old.reason) != ("True", wait.reason):
        draft.tell(KIND, wait.message, is_warning=wait.is_over)
    draft.set_condition(KIND, "True", wait.reason, wait.message)


def _judge_ends(draft: Draft) -> _Wait | None:
    """The pods that are overdue, else the launchers that are awaited; None where all is quick."""
    view = draft.view
    pods = view.snapshot.pods
    overdue = [p for p in pods if p.is_deleting and view.is_overdue(p) and not view.is_gone(p)]
    if overdue:
        nodes = name_some(sorted({pod.node for pod in overdue if pod.node}))
        message = (
            f"{name_some([pod.name for pod in overdue])}: the grace is over, and the kubelet of "
            f"{nodes} has not ended what runs there: nothing waits for it any more, but it holds "
            "its resources; look at that node (a device or a volume that hangs), drain it or "
            "start it anew"
        )
        return _Wait("Overdue", message, is_over=True)
    ends = {
        pod.name: pod.grace_end
        for pod in view.awaited_launchers
        if pod.is_deleting and not draft.wait_out(pod.deletion_requested, SLOW)
    }
    if not ends:
        return None
    last = max((end for end in ends.values() if end is not None), default=None)
    until = f", until {last:%H:%M:%S} UTC at the latest" if last is not None else ""
    return _Wait("Awaited", f"the command in {name_some([*ends])} may save its state{until}")
