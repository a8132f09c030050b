"""Whether another launcher follows one that has failed.

Called with a verdict, of judging.py or stalling.py, that is not doubted here. The job is given up,
or the next epoch begins; its workers stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from et_operator.model.specs import RestartPolicy
from et_operator.planning.attributing import may_be_of_script
from et_operator.planning.drafts import GOOD_TIME, Draft, count_failure
from et_operator.planning.judging import Ending, Verdict, rest_on_launcher
from et_operator.planning.stopping import fail, stop_scaling

INFRASTRUCTURE_LIMIT = 20
"""Launchers in a row that may end through no fault of the command before the job is given up."""
FORCED_APART = timedelta(days=1)
"""So long apart two of them are no row, where we took workers: their time alone may be hours."""
TAKEN_LIMIT = 4
"""So far the waits grow (1, 2, 4, 8 s) after launchers that the platform took; see replacing.py."""
FIRST_SIGNAL_CODE = 128
"""From here on an exit code means a signal, which RestartPolicy ExitCode takes as worth a retry."""


def respond_to_failure(draft: Draft, verdict: Verdict) -> None:
    """Restart the launcher, or give the job up."""
    rest_on_launcher(draft)
    row = _count_end(draft, verdict.ending)
    failures = draft.status.failures
    if not verdict.ending.is_failure:
        draft.change(failures=replace(failures, infrastructure=failures.infrastructure + 1))
        if row > INFRASTRUCTURE_LIMIT:
            message = f"{row} launchers in a row ended for what was done to them: {verdict.message}"
            fail(draft, "InfrastructureFailures", message)
        else:
            _restart(draft, verdict)
        return
    draft.change(failures=replace(failures, user=failures.user + 1))
    if not _is_worth_a_retry(draft.spec.restart_policy, verdict):
        fail(draft, verdict.reason, verdict.message)
    elif draft.status.failures.user > draft.spec.backoff_limit:
        limit = draft.spec.backoff_limit
        message = f"failed more often than backoffLimit {limit} allows: {verdict.message}"
        fail(draft, "BackoffLimitExceeded", message)
    else:
        _restart(draft, verdict)


def _restart(draft: Draft, verdict: Verdict) -> None:
    """Replace the launcher alone: the next epoch ends the sessions of this one."""
    view, scaling, move = draft.view, draft.status.scaling, draft.status.launcher_move
    if scaling is not None and scaling.script is not None and not view.is_script_done(scaling):
        # it may have run in part, and must not run twice
        stop_scaling(draft, "LauncherEnded", "the launcher ended before the script had")
    if move is not None and move.at is None and may_be_of_script(view):
        draft.change(launcher_move=replace(move, at=draft.now))  # the next one keeps off its node
    draft.change(
        epoch=draft.status.epoch + 1,
        launcher_uid="",
        restart_count=draft.status.restart_count + 1,
    )
    draft.set_condition("Restarting", "True", verdict.reason, verdict.message)
    draft.tell("Restarting", f"restarting the launcher: {verdict.message}", is_warning=True)


def _is_worth_a_retry(policy: RestartPolicy, verdict: Verdict) -> bool:
    if verdict.ending is Ending.STALLED:
        return True
    match policy:
        case RestartPolicy.NEVER:
            return False
        case RestartPolicy.EXIT_CODE:
            return verdict.code is not None and verdict.code >= FIRST_SIGNAL_CODE
        case RestartPolicy.ON_FAILURE | RestartPolicy.ALWAYS:
            return True


def _count_end(draft: Draft, ending: Ending) -> int:
    """How many in a row the platform has ended with this one; 0 where that is no matter of it.

    The next launcher waits for ends of every kind; for one that was taken just a little.
    """
    before, row = draft.status.launch_backoff, draft.status.lost_launchers
    backoff = count_failure(before, draft.now)
    if ending is Ending.TAKEN:
        most = max(before.count if before else 0, TAKEN_LIMIT)
        draft.change(launch_backoff=replace(backoff, count=min(backoff.count, most)))
        return 0
    good_time = {Ending.LOST: GOOD_TIME, Ending.FORCED: FORCED_APART}.get(ending)
    row = count_failure(row, draft.now, good_time) if good_time is not None else None
    draft.change(launch_backoff=backoff, lost_launchers=row)
    return row.count if row else 0
