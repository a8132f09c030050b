"""The number in the job's spec: whose it is, and what must be written there.

The one write of it to the spec is made here, with the uid of the scaling it is for. Nothing writes
over a number that somebody else has put there since.
"""

from __future__ import annotations

from et_kube.resources import TRAINING_JOBS
from et_operator.model.actions import Action, SetReplicas
from et_operator.model.names import ANNOTATION_APPLIED_SCALING
from et_operator.model.statuses import ScalingKind, ScalingRecord
from et_operator.planning.turns import find_bound
from et_operator.planning.views import View

REFUSALS = 5
"""So often in a row, within about three seconds, a number of replicas is refused by a server that
means it: a webhook that restarts, or a right that has just been granted, refuses less often."""


def write_replicas(view: View) -> list[Action]:
    """The one write of `worker.replicas`, with for whom it is, if it is due."""
    scaling, job = view.status.scaling, view.job
    number = find_due_number(view)
    if scaling is None or number is None:
        return []
    asker = "" if scaling.kind is ScalingKind.REPLICAS else scaling.uid
    return [SetReplicas(job.key.ref, job.uid, job.resource_version, number, asker)]


def find_due_number(view: View) -> int | None:
    """What `worker.replicas` must become; None: it is as it must be.

    Only the number that this scaling itself found or wrote is replaced: the newest number wins.
    """
    scaling, spec = view.status.scaling, view.snapshot.job.spec
    if scaling is None or spec is None or scaling.kind is ScalingKind.QUEUE:
        return None
    current, is_written = find_number(view, scaling), is_applied(view, scaling)
    if current != (scaling.target if is_written else scaling.base):
        return None
    if scaling.outcome is None:
        return None if is_written else scaling.target
    final = scaling.final
    if final is None or final == current or find_bound(spec.worker, final) is not None:
        return None
    return None if find_refusal_since(view, scaling) else final  # what the spec says is met then


def is_applied(view: View, scaling: ScalingRecord) -> bool:
    """Whether the number in the spec is this scaling's own doing."""
    if scaling.kind.is_number:
        return True
    return view.job.annotations.get(ANNOTATION_APPLIED_SCALING) == scaling.uid


def is_superseded(view: View, scaling: ScalingRecord) -> bool:
    """Whether somebody has put another number there since."""
    expected = scaling.target if is_applied(view, scaling) else scaling.base
    return find_number(view, scaling) != expected


def find_number(view: View, scaling: ScalingRecord) -> int:
    """The number that this scaling follows, has found, or has written.

    Of what an author wrote a queue may let the job have less: it is in the spec all the same.
    """
    spec = view.job.spec if scaling.kind.is_number else view.snapshot.job.spec
    return spec.worker.replicas if spec else scaling.base


def find_refusal_since(view: View, scaling: ScalingRecord) -> str:
    """The server's words, if it refuses this scaling's number again and again."""
    refusal = view.snapshot.refusals.get(TRAINING_JOBS)
    if refusal is None or not refusal.is_meant:
        return ""
    if refusal.at < scaling.started or refusal.count < REFUSALS:
        return ""
    return refusal.message
