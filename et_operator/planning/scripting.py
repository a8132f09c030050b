"""Scripts of scalings: at most one attempt at a time, each at most once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from et_operator.model.jobs import ScalingRecord, ScriptAttempt
from et_operator.model.scalings import Scaling
from et_operator.planning.drafts import Draft
from et_operator.planning.views import View
from launcher.documents import ScriptOrder

DEFAULT_TIMEOUT = timedelta(seconds=60)
ANSWER_TIME = timedelta(seconds=30)
"""So long after its time-out an attempt without a result is taken as failed."""
PAUSE = timedelta(seconds=10)
"""Between attempts."""
TIMED_OUT = 124
"""The code that stands for an attempt that was ended by its time-out or never answered."""


def advance_script(
    draft: Draft, record: ScalingRecord, live: Scaling | None, *, is_due: bool
) -> None:
    """Record the next attempt when it is due, or the result of the last one."""
    if live is None or not live.script:
        return
    attempt = record.script
    if attempt is None:
        if is_due:
            _keep(draft, ScriptAttempt(1, draft.now))
    elif attempt.code is None:
        _await_result(draft, record, attempt, live)
    elif attempt.code != 0 and attempt.number <= live.backoff_limit:
        _try_again(draft, attempt)


def is_script_done(record: ScalingRecord, live: Scaling | None) -> bool:
    """Whether nothing is left to wait for before pods are deleted or the scaling ends."""
    if live is None or not live.script:
        return True
    return record.script is not None and record.script.code == 0


def has_failed_for_good(record: ScalingRecord, live: Scaling) -> bool:
    """Whether the last attempt that backoffLimit allows has failed."""
    attempt = record.script
    if attempt is None or attempt.code in {None, 0}:
        return False
    return attempt.number > live.backoff_limit


def build_orders(view: View, record: ScalingRecord | None) -> tuple[ScriptOrder, ...]:
    """The current attempt, for the config; nothing where none waits for its result."""
    if record is None or record.script is None or record.outcome is not None:
        return ()
    live = view.find_scaling(record)
    if live is None or record.script.code is not None:
        return ()
    slots = view.job.spec.slots_per_worker if view.job.spec else 1
    hosts = [f"{worker.name}:{slots}" for worker in record.victims or record.added]
    return (
        ScriptOrder(
            id=build_order_id(record, record.script),
            script=live.script,
            hosts=",".join(hosts),
            env=live.env,
            timeout_seconds=round(_find_timeout(live).total_seconds()),
        ),
    )


def build_order_id(record: ScalingRecord, attempt: ScriptAttempt) -> str:
    """Names one attempt for ever."""
    return f"{record.uid}-{attempt.number}"


def _find_timeout(live: Scaling) -> timedelta:
    return live.timeout or DEFAULT_TIMEOUT


def _await_result(
    draft: Draft, record: ScalingRecord, attempt: ScriptAttempt, live: Scaling
) -> None:
    report = draft.view.report
    result = report.scripts.get(build_order_id(record, attempt)) if report else None
    if result is not None:
        code = TIMED_OUT if result.code is None else result.code
        _keep(draft, _end(draft, attempt, code, result.output))
        return
    end = attempt.started + _find_timeout(live) + ANSWER_TIME
    if draft.now < end:
        draft.wake_at(end)
    else:
        _keep(draft, _end(draft, attempt, TIMED_OUT, "no answer from the launcher"))


def _end(draft: Draft, attempt: ScriptAttempt, code: int, output: str) -> ScriptAttempt:
    if code != 0:
        message = f"attempt {attempt.number} of the script ended with exit code {code}"
        draft.tell("ScriptFailed", message, is_warning=True)
    return replace(attempt, code=code, output=output, next_at=draft.now + PAUSE if code else None)


def _try_again(draft: Draft, attempt: ScriptAttempt) -> None:
    if attempt.next_at is not None and draft.now < attempt.next_at:
        draft.wake_at(attempt.next_at)
        return
    _keep(draft, ScriptAttempt(attempt.number + 1, draft.now))


def _keep(draft: Draft, attempt: ScriptAttempt) -> None:
    scaling = draft.status.scaling
    if scaling is not None:
        draft.change(scaling=replace(scaling, script=attempt))
