"""What the loss of hosts costs a job: how long it has fewer of them than it had.

membership.py says who was lost, status.py when all are back. A condition while it lasts, and an
Event at its end; how long the training itself stood still its log tells, and no report does.
"""

from __future__ import annotations

from collections.abc import Sequence

from et_operator.model.conditions import RECOVERING, find_condition, is_true
from et_operator.model.texts import count, name_some
from et_operator.planning.drafts import Draft


def note_losses(draft: Draft, names: Sequence[str]) -> None:
    """The workers `names` were hosts, and are lost; more that follow are of the same recovery."""
    if names and not is_true(draft.status.conditions, RECOVERING):
        verb = "was" if len(names) == 1 else "were"
        draft.set_condition(RECOVERING, "True", "HostsLost", f"{name_some(names)} {verb} lost")


def note_listed(draft: Draft, listed: int) -> None:
    """So many are hosts now; where all are that are wanted, it has recovered."""
    told = find_condition(draft.status.conditions, RECOVERING)
    if told is None or told.status != "True" or listed < (draft.status.decided_replicas or 0):
        return
    seconds = (draft.now - (told.last_transition_time or draft.now)).total_seconds()
    message = f"{count(listed, 'host')} again, {max(seconds, 0):.0f} s after {told.message}"
    draft.tell("Recovered", message)
    draft.clear_condition(RECOVERING, "Recovered", message)
