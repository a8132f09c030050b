"""What the server's answers to one plan say of the writes that the next one would ask for.

Pure: believing.py calls it after each plan and keeps what it says in state/answers. No pause is
chosen here; how long a refused write rests is the planner's (planning/drafts.py).
"""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus

from et_kube.errors import (
    ApiError,
    Conflict,
    Expired,
    NotFound,
    Refused,
    ServerFailed,
    Throttled,
    Unauthorized,
)
from et_kube.resources import SECRETS, TRAINING_JOBS
from et_operator.acting.outcomes import Execution, Failure
from et_operator.model.actions import Create, CreateKeys, Delete, DryRun, Subject
from et_operator.model.snapshots import Refusal


def find_done(execution: Execution, *, has_status: bool) -> set[Subject]:
    """What the server has just done, so that it refuses it no longer.

    `has_status`: a job that was written may be the status alone.
    """
    subjects: set[Subject] = {SECRETS} if execution.keys else set()
    subjects |= {deleted.subject for deleted in execution.deleted}
    subjects |= {tried.action.subject for tried in execution.tried}
    for written in execution.written:
        subjects |= {written.resource, written.ref}
    return subjects - ({TRAINING_JOBS} if has_status else set())


def find_refused(execution: Execution, generation: int, at: datetime) -> dict[Subject, Refusal]:
    """What it has just refused, or failed to do: the first failure of each subject.

    One a pass for each, however many objects. `generation` is that of the job whose wish it was. A
    status that is refused is for Events alone: there is nowhere else to tell it.
    """
    found: dict[Subject, Failure] = {}
    others = filter(may_last, execution.failures)
    for failure in (*execution.refusals, *execution.unknowns, *others):
        if not failure.is_of_status and _is_about_it(failure):
            found.setdefault(failure.action.subject, failure)
    return {subject: _describe(failure, generation, at) for subject, failure in found.items()}


def _is_about_it(failure: Failure) -> bool:
    """Whether the server has spoken, or has not where it was asked.

    A write without an answer may be done: that is for the next look to find out.
    """
    return isinstance(failure.error, ApiError) or isinstance(failure.action, DryRun)


def may_last(failure: Failure) -> bool:
    """Whether an answer that asks for another try may be the same each time.

    Who has changed an object before us has it changed; but a creation conflicts with nothing that
    a look at it would show (a quota that many use, a namespace that goes), and who is to wait may
    be so for good.
    """
    if isinstance(failure.error, Throttled | Expired):
        return True
    is_creation = isinstance(failure.action, Create | CreateKeys | DryRun)
    return is_creation and isinstance(failure.error, Conflict | NotFound)


def _describe(failure: Failure, generation: int, at: datetime) -> Refusal:
    return Refusal(
        failure.words,
        1,
        at,
        generation,
        failure.action.ref.name,
        is_meant=isinstance(failure.error, Refused),
        is_deletion=isinstance(failure.action, Delete),
        is_answered=_is_answer(failure),
    )


def _is_answer(failure: Failure) -> bool:
    """Whether a question was answered: a server that is busy, or a proxy, has judged nothing.

    A webhook that fails has: the pod would fail on it too.
    """
    if not isinstance(failure.action, DryRun):
        return True
    error = failure.error
    if isinstance(error, ServerFailed):
        return error.status == HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, ApiError) and not isinstance(error, Throttled | Unauthorized)
