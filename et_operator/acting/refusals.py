"""What the server's answers to one plan say of the writes that the next one would ask for."""

from __future__ import annotations

from datetime import datetime

from et_kube.errors import ApiError, Conflict, Expired, NotFound, Refused, Throttled
from et_kube.resources import SECRETS, TRAINING_JOBS, Ref
from et_operator.acting.executing import Execution, Failure
from et_operator.model.actions import Create, CreateKeys, Delete, DryRun, Subject
from et_operator.model.snapshots import Refusal

WORDS_KEPT = 10
"""So many failures in a row are told in the words of the first."""


def find_done(execution: Execution, *, has_status: bool) -> set[Subject]:
    """What the server has just done, so that it refuses it no longer.

    `has_status`: a job that was written may be the status alone.
    """
    subjects: set[Subject] = {SECRETS} if execution.keys else set()
    subjects |= {deleted.subject for deleted in execution.deleted}
    subjects |= {tried.action.subject for tried in execution.tried}
    for written in execution.written:
        metadata = written.object["metadata"]
        ref = Ref(written.resource, metadata.get("namespace", ""), metadata["name"])
        subjects |= {written.resource, ref}
    return subjects - ({TRAINING_JOBS} if has_status else set())


def find_failed(execution: Execution) -> dict[Subject, Failure]:
    """What it has just refused, or failed to do: the first failure of each subject."""
    found: dict[Subject, Failure] = {}
    others = filter(may_last, execution.failures)
    for failure in (*execution.refusals, *execution.unknowns, *others):
        if not failure.is_of_status and isinstance(failure.error, ApiError):
            found.setdefault(failure.action.subject, failure)
    return found


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


def note_refusal(
    before: Refusal | None, failure: Failure, generation: int, now: datetime
) -> Refusal:
    """One more of the same object, or the first since the author changed the job.

    That others of its kind were refused says nothing of this one: a quota may have its room.
    A webhook that fails may say so in other words each time: they are renewed now and then only,
    for each change of words is a write.
    """
    name = failure.action.ref.name
    if before is not None and (before.generation, before.name) != (generation, name):
        before = None
    is_meant = isinstance(failure.error, Refused)
    message = failure.words
    if before is not None and not is_meant and before.count % WORDS_KEPT:
        message = before.message
    return Refusal(
        message,
        before.count + 1 if before is not None else 1,
        now,
        generation,
        name,
        is_meant=is_meant,
        is_deletion=isinstance(failure.action, Delete),
    )
