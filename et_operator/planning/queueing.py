"""What is recorded of a job in a queue: what its pods ask for, and what it was told."""

from __future__ import annotations

from datetime import timedelta

from et_contract.admissions import ADMITTED, WAITING
from et_contract.pods import Role
from et_kube.shaping import describe_shape
from et_operator.codec.fields import attempt
from et_operator.model.admissions import Shapes
from et_operator.model.conditions import find_condition
from et_operator.planning.admitting import is_held, is_queued
from et_operator.planning.drafts import Draft
from et_operator.planning.finishing import is_suspended
from et_operator.planning.manifests.launcher import build_launcher
from et_operator.planning.manifests.workers import build_worker

ANSWER_WITHIN = timedelta(seconds=30)
"""A scheduler that is there answers sooner."""
_ASKED = "et-scheduler was asked, and has not answered yet"
_UNREADABLE = "what a pod of its templates requests cannot be read, correct its resources"
_UNANSWERED = "et-scheduler does not answer: is it installed, does it run (docs/operations.md)?"


def note_admission(draft: Draft) -> None:
    """Record what et-scheduler has said, or that it is asked.

    An admission is spent when it starts the job, and when its author suspends the job.
    """
    job = draft.view.snapshot.job
    if not is_queued(job):
        draft.clear_condition(ADMITTED, "NoQueue", "the job is in no queue")
        return
    _note_shapes(draft)
    if is_held(job):
        draft.set_condition(ADMITTED, "False", WAITING, _describe_wait(draft))
        return
    is_suspended_by_author = job.spec is not None and job.spec.suspend
    if is_suspended(draft.status) and not is_suspended_by_author:
        return  # its last launcher may have something to tell: nothing is spent before a start
    number = job.admission.number if job.admission is not None else 0
    draft.change(admitted_number=max(number, draft.status.admitted_number))
    if is_suspended_by_author:
        draft.set_condition(
            ADMITTED, "False", "Suspended", "the job waits in no line while suspended"
        )
    else:
        message = f"the job may have {draft.spec.worker.replicas} workers"
        draft.set_condition(ADMITTED, "True", ADMITTED, message)


def _describe_wait(draft: Draft) -> str:
    """Et-scheduler's own words, unless they are about an admission that was spent."""
    if draft.status.shapes is None:
        return _UNREADABLE
    job, told = draft.view.snapshot.job, find_condition(draft.status.conditions, ADMITTED)
    admission = job.admission
    if admission is not None and admission.message:
        return admission.message
    is_asked = told is not None and told.reason == WAITING
    since = told.last_transition_time if told is not None and is_asked else draft.now
    return _ASKED if draft.must_wait(since, ANSWER_WITHIN) else _UNANSWERED


def _note_shapes(draft: Draft) -> None:
    """Found anew where the spec has changed: et-scheduler plans with what is to be created next."""
    view, status = draft.view, draft.status
    if status.observed_generation == view.job.generation and find_condition(
        status.conditions, ADMITTED
    ):
        return
    runtime = status.runtime or view.snapshot.shipped.runtime
    pull_secrets = view.snapshot.shipped.pull_secrets
    launcher = build_launcher(
        view.job, draft.spec, status=status, runtime=runtime, pull_secrets=pull_secrets
    )
    worker = build_worker(view.job, draft.spec.worker, 0, epoch=status.epoch, runtime=runtime)
    roles = ((Role.LAUNCHER, launcher), (Role.WORKER, worker))
    pods, problem = attempt(
        lambda: tuple({"role": role.value, **describe_shape(pod)} for role, pod in roles), "spec"
    )
    if pods is not None:
        draft.change(shapes=Shapes(pods, draft.spec.is_elastic))
        return
    draft.tell("ShapeUnknown", f"{_UNREADABLE}: {problem}", is_warning=True)
    if is_held(draft.view.snapshot.job):  # what runs has the shapes that it was admitted with
        draft.change(shapes=None)
