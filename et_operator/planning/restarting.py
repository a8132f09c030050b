"""After a failure: whether to try again, and how long to wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from et_operator.model.jobs import Backoff, RestartPolicy
from et_operator.planning.drafts import Draft
from et_operator.planning.finishing import fail
from et_operator.planning.launching import Ending

LONGEST_WAIT = timedelta(seconds=60)
GOOD_TIME = timedelta(minutes=10)
"""So long without a failure, and the waits begin anew."""
INFRASTRUCTURE_LIMIT = 20
"""Launchers in a row that the platform may end before the job is given up."""
FIRST_SIGNAL_CODE = 128
"""From here on an exit code means a signal, which RestartPolicy ExitCode takes as worth a retry."""


def count_failure(backoff: Backoff | None, now: datetime) -> Backoff:
    """One more failure, or the first one after ten good minutes."""
    if backoff is None or now - backoff.at >= GOOD_TIME:
        return Backoff(1, now)
    return Backoff(backoff.count + 1, now)


def find_end_of_wait(backoff: Backoff | None) -> datetime | None:
    """When the next attempt may be made: 1, 2, 4 ... 60 s after the last failure."""
    if backoff is None:
        return None
    seconds = 2 ** min(backoff.count - 1, 10)
    return backoff.at + min(timedelta(seconds=seconds), LONGEST_WAIT)


def is_waiting(draft: Draft, backoff: Backoff | None) -> bool:
    """Whether the wait after the last failure is still going on; asks to be woken when it ends."""
    end = find_end_of_wait(backoff)
    if end is None or draft.now >= end:
        return False
    draft.wake_at(end)
    return True


def respond_to_failure(draft: Draft, ending: Ending) -> None:
    """Restart the launcher, or give the job up."""
    backoff = count_failure(draft.status.launch_backoff, draft.now)
    draft.change(launch_backoff=backoff)
    failures = draft.status.failures
    if ending.is_infrastructure:
        draft.change(failures=replace(failures, infrastructure=failures.infrastructure + 1))
        if backoff.count > INFRASTRUCTURE_LIMIT:
            fail(draft, "InfrastructureFailures", ending.message)
        else:
            restart(draft, ending)
        return
    draft.change(failures=replace(failures, user=failures.user + 1))
    if not _is_worth_a_retry(draft.spec.restart_policy, ending.code):
        fail(draft, ending.reason, ending.message)
    elif draft.status.failures.user > draft.spec.backoff_limit:
        fail(draft, "BackoffLimitExceeded", ending.message)
    else:
        restart(draft, ending)


def restart(draft: Draft, ending: Ending) -> None:
    """Replace the launcher alone: the next epoch ends the sessions of this one."""
    draft.change(
        epoch=draft.status.epoch + 1,
        launcher_uid="",
        restart_count=draft.status.restart_count + 1,
    )
    draft.set_condition("Restarting", "True", ending.reason, ending.message)
    draft.tell("Restarting", f"restarting the launcher: {ending.message}", is_warning=True)


def _is_worth_a_retry(policy: RestartPolicy, code: int | None) -> bool:
    match policy:
        case RestartPolicy.NEVER:
            return False
        case RestartPolicy.EXIT_CODE:
            return code is not None and code >= FIRST_SIGNAL_CODE
        case RestartPolicy.ON_FAILURE | RestartPolicy.ALWAYS:
            return True
