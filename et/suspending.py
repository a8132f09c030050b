"""`spec.suspend`, of this very job."""

from __future__ import annotations

from datetime import timedelta

from et.clusters import Cluster
from et.errors import EtError
from et.waiting import LOOK
from et_kube.resources import Json
from et_kube.retrying import ask_again
from et_operator.codec.decoding import ANNOTATION_SUSPENDED, decode_job
from et_operator.model.jobs import TrainingJob

LASTING = timedelta(minutes=1)
"""So long a server that does not answer is asked again to let a job go on."""


async def suspend(cluster: Cluster, stored: Json) -> Json:
    """End its pods; the job as stored."""
    return await _patch(cluster, stored, is_wanted=True)


async def resume(cluster: Cluster, stored: Json) -> Json:
    """Let it go on; asked again where no answer comes, for that does no harm; as stored."""

    async def ask() -> Json:
        return await _patch(cluster, stored, is_wanted=False)

    return await ask_again(cluster.clock, LOOK, LASTING)(ask)


def check_annotation(job: TrainingJob) -> None:
    """EtError where `spec.suspend` alone lets it go on no more: others may hold it for theirs."""
    if job.annotations.get(ANNOTATION_SUSPENDED) == "true":
        name, place = job.key.name, job.key.namespace
        raise EtError(
            f"{name} is suspended by an annotation, perhaps for a queue of others: `kubectl "
            f"annotate trainingjob {name} -n {place} {ANNOTATION_SUSPENDED}-` lets it go on"
        )


async def _patch(cluster: Cluster, stored: Json, *, is_wanted: bool) -> Json:
    uid = stored["metadata"]["uid"]
    body = {"metadata": {"uid": uid}, "spec": {"suspend": is_wanted}}
    return await cluster.api.patch(decode_job(stored).key.ref, body)
