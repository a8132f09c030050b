"""Suspends a job, and lets it go on: `et restart` and `et run` write `spec.suspend` here alone.

Each write is pinned to the uid of the job that was read: another job of its name stays as it is.
When a suspended job has stopped is not known here.
"""

from __future__ import annotations

from datetime import timedelta

from et.clusters import Cluster
from et.errors import EtError
from et.waiting import LOOK
from et_kube.errors import Conflict
from et_kube.resources import Json
from et_kube.retrying import TRANSIENT, ask_again
from et_operator.codec.decoding import ANNOTATION_SUSPENDED, decode_job
from et_operator.model.jobs import TrainingJob

LASTING = timedelta(minutes=1)
"""So long a server that does not answer is asked again to let a job go on."""


async def suspend(cluster: Cluster, stored: Json) -> Json:
    """Suspend the job, so that the operator ends its pods; the job as it is stored then."""
    return await _patch(cluster, stored, is_wanted=True)


async def resume(cluster: Cluster, stored: Json, *, is_pinned: bool = False) -> Json:
    """Let it go on; asked again where no answer comes, for that does no harm; as stored.

    With `is_pinned` only the job that was read: Conflict where anybody has written it since.
    """
    is_unanswered = False

    async def ask() -> Json:
        nonlocal is_unanswered
        try:
            return await _patch(cluster, stored, is_wanted=False, is_pinned=is_pinned)
        except TRANSIENT:
            is_unanswered = True
            raise
        except Conflict:  # of our own write, whose answer was lost?
            now = await cluster.api.get(decode_job(stored).key.ref) if is_unanswered else stored
            is_same = now["metadata"]["uid"] == stored["metadata"]["uid"]
            if not is_same or is_suspended(now):
                raise
            return now

    return await ask_again(cluster.clock, LOOK, LASTING)(ask)


def is_suspended(stored: Json) -> bool:
    """Whether the job is to be, by `spec.suspend`; what has become of that is in its status.

    The annotation of others is not meant.
    """
    return (stored.get("spec") or {}).get("suspend") is True


def check_annotation(job: TrainingJob) -> None:
    """EtError where `spec.suspend` alone lets it go on no more: others may hold it for theirs."""
    if job.annotations.get(ANNOTATION_SUSPENDED) == "true":
        name, place = job.key.name, job.key.namespace
        raise EtError(
            f"{name} is suspended by an annotation, perhaps for a queue of others: `kubectl "
            f"annotate trainingjob {name} -n {place} {ANNOTATION_SUSPENDED}-` lets it go on"
        )


async def _patch(
    cluster: Cluster, stored: Json, *, is_wanted: bool, is_pinned: bool = False
) -> Json:
    pins = ("uid", "resourceVersion") if is_pinned else ("uid",)
    metadata = {key: stored["metadata"][key] for key in pins}
    body = {"metadata": metadata, "spec": {"suspend": is_wanted}}
    return await cluster.api.patch(decode_job(stored).key.ref, body)
