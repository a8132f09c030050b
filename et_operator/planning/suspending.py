"""Suspend and resume: all pods go, the launcher first; what was decided about them stays."""

from __future__ import annotations

from et_operator.model.actions import Action
from et_operator.model.conditions import is_true
from et_operator.model.jobs import JobStatus
from et_operator.planning.drafts import Draft
from et_operator.planning.finishing import delete_pod
from et_operator.planning.stopping import SUSPENDED, select_unborn, stop_scaling
from et_operator.planning.views import View


def is_suspended(status: JobStatus) -> bool:
    """Whether the suspension is recorded (its pods may still be on their way out)."""
    return is_true(status.conditions, "Suspended")


def check_suspension(draft: Draft) -> None:
    """Record that the job is suspended, or that it goes on."""
    if draft.spec.suspend and not is_suspended(draft.status):
        _suspend(draft)
    elif not draft.spec.suspend and is_suspended(draft.status):
        _resume(draft)


def delete_all(view: View) -> list[Action]:
    """The launchers, and when none is alive the workers."""
    if view.has_live_launcher:
        live = (p for p in view.launchers if p.termination is None and not view.is_gone(p))
        return [delete_pod(pod) for pod in live if not pod.is_deleting]
    return [delete_pod(pod) for pod in view.workers if not pod.is_deleting]


def _suspend(draft: Draft) -> None:
    stop_scaling(draft, SUSPENDED, "the job was suspended")
    for record in select_unborn(draft):
        draft.forget(record.name)
    draft.change(start_time=None, launch_backoff=None, worker_backoff=None, early_losses=None)
    draft.set_condition("Suspended", "True", "JobSuspended", "suspended by spec.suspend")
    draft.tell("Suspended", "all pods are ended until the job is resumed")


def _resume(draft: Draft) -> None:
    """The next launcher is of the next epoch: it ends whatever the last one left behind."""
    draft.set_condition("Suspended", "False", "JobResumed", "resumed by spec.suspend")
    if draft.status.epoch == 0:
        return
    draft.change(epoch=draft.status.epoch + 1, launcher_uid="", start_time=draft.now)
    if not draft.view.snapshot.pods:
        draft.change(runtime=draft.view.snapshot.shipped.runtime)
    draft.tell("Resumed", "the job goes on with a new launcher")
