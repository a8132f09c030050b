"""What cannot work is refused by a real API server, in words that say what to change."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator

import pytest

from et_kube.errors import Refused
from et_kube.resources import (
    SCALE_INS,
    SCALE_OUTS,
    TRAINING_JOBS,
    TRAINING_QUEUES,
    Json,
    Ref,
    Resource,
)
from et_operator.codec.decoding import decode_job, decode_scaling
from et_operator.codec.encoding import encode_status_patch
from et_operator.model.statuses import ScalingKind
from et_scheduler.codec.queues import decode_queue
from tests.contract.bad_manifests import ALL, Bad, scale_in, scale_out
from tests.contract.bad_shapes import BAD_SHAPES
from tests.contract.conftest import Site, open_real_site
from tests.makers import make_job
from tests.shown import KINDS, read_shown
from tests.unit.codec.examples import FULL_JOB_STATUS, FULL_SCALING_STATUS

pytestmark = [pytest.mark.cluster, pytest.mark.point("refusals")]

SHOWN = read_shown()


@pytest.fixture
async def real(kubeconfig: str) -> AsyncIterator[Site]:
    async with open_real_site(kubeconfig) as site:
        yield site


def find_kind(manifest: Json) -> Resource:
    return KINDS[manifest["kind"]]


async def find_refusal(site: Site, bad: Bad) -> str:
    try:
        await site.create(find_kind(bad.manifest), bad.manifest)
    except Refused as error:
        return error.message
    return ""


async def test_every_bad_manifest_is_refused_with_its_sentence(real: Site):
    wrong = []
    for bad in [bad for bad in (*ALL, *BAD_SHAPES) if bad.refusal is not None]:
        said = await find_refusal(real, bad)
        if bad.refusal not in said:
            wrong.append(f"{bad.title}: expected {bad.refusal!r}, the server said {said!r}")
    assert wrong == []


async def test_what_only_the_operator_can_see_becomes_its_sentence(real: Site):
    for bad in [bad for bad in (*ALL, *BAD_SHAPES) if bad.refusal is None]:
        manifest = copy.deepcopy(bad.manifest)
        manifest["metadata"] = {"generateName": "bad-"}
        stored = dict(await real.create(TRAINING_JOBS, manifest))
        stored["metadata"] = bad.manifest["metadata"]  # what is bad may name what the job is called
        assert bad.complaint in decode_job(stored).invalid


@pytest.mark.parametrize("place", SHOWN)
async def test_what_people_are_shown_is_accepted_and_understood(real: Site, place: str):
    for manifest in SHOWN[place]:
        stored = await real.create(find_kind(manifest), manifest)
        if manifest["kind"] == TRAINING_QUEUES.kind:
            metadata = stored["metadata"]
            await real.api.delete(
                Ref(TRAINING_QUEUES, "", metadata["name"]), uid=metadata["uid"]
            )  # it is in no namespace that goes with this test
            assert decode_queue(stored).queue.name == metadata["name"]
            continue
        decoded = (
            decode_job(stored) if manifest["kind"] == "TrainingJob" else decode_scaling(stored)
        )
        assert decoded.invalid == ""


async def test_gpus_and_scripts_as_the_predecessors_wrote_them(real: Site):
    job = make_job(launcherAttachMode="kubexec", maxReplicas=9, minReplicas=1)
    container = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    container["resources"] = {
        "limits": {"nvidia.com/gpu": "2", "rdma/hca": "1"},
        "requests": {"nvidia.com/gpu": "2", "rdma/hca": "1"},
    }
    assert decode_job(await real.create(TRAINING_JOBS, job)).spec.slots_per_worker == 2
    scaling = scale_in(script="/scaler.sh", backoffLimit=0, timeout=60, env=[{"name": "A"}])
    decoded = decode_scaling(await real.create(SCALE_INS, scaling))
    assert (decoded.script, decoded.env) == ("/scaler.sh", (("A", ""),))


async def test_a_status_of_the_operator_is_stored_whole(real: Site):
    job = make_job()
    await real.create(TRAINING_JOBS, job)
    ref = real.ref(TRAINING_JOBS, job["metadata"]["name"])
    stored = await real.api.patch(ref, encode_status_patch(FULL_JOB_STATUS), subresource="status")
    assert decode_job(stored).status == FULL_JOB_STATUS


async def test_a_scaling_status_is_stored_whole(real: Site):
    for manifest, kind in ((scale_in(), SCALE_INS), (scale_out(), SCALE_OUTS)):
        await real.create(kind, manifest)
        ref = real.ref(kind, manifest["metadata"]["name"])
        body = encode_status_patch(FULL_SCALING_STATUS)
        stored = await real.api.patch(ref, body, subresource="status")
        assert decode_scaling(stored, ScalingKind(kind.kind)).status == FULL_SCALING_STATUS


async def test_a_scaling_is_final(real: Site):
    await real.create(SCALE_OUTS, scale_out())
    with pytest.raises(Refused, match="cannot be changed, delete it to cancel"):
        await real.api.patch(real.ref(SCALE_OUTS, "out"), {"spec": {"toAdd": {"count": 5}}})


async def test_how_workers_are_reached_is_final(real: Site):
    job = make_job()
    await real.create(TRAINING_JOBS, job)
    ref = real.ref(TRAINING_JOBS, job["metadata"]["name"])
    with pytest.raises(Refused, match="delete the job and create it anew"):
        await real.api.patch(ref, {"spec": {"launcherAttachMode": "ssh"}})
    stored = await real.api.patch(ref, {"spec": {"launcherAttachMode": None, "suspend": True}})
    assert stored["spec"]["launcherAttachMode"] == "kubexec"


@pytest.mark.parametrize("replicas", [1, 5])
async def test_a_scale_beyond_the_bounds_is_refused(real: Site, replicas: int):
    job = make_job(workers=3, minReplicas=2, maxReplicas=4)
    await real.create(TRAINING_JOBS, job)
    ref = real.ref(TRAINING_JOBS, job["metadata"]["name"])
    with pytest.raises(Refused, match="replicas"):
        await real.api.patch(ref, {"spec": {"replicas": replicas}}, subresource="scale")


async def test_a_job_of_another_operator_stays_what_it_is(real: Site):
    job = make_job()
    await real.create(TRAINING_JOBS, job)
    ref = real.ref(TRAINING_JOBS, job["metadata"]["name"])
    body = {
        "phase": "Running",
        "conditions": [{"type": "Running", "status": "True", "reason": "TrainingJobRunning"}],
        "replicaStatuses": {"Worker": {"active": 2}},
        "currentWorkers": ["train-worker-0", "train-worker-1"],
        "targetWorkers": ["train-worker-0", "train-worker-1"],
        "restartCount": 0,
        "startTime": "2026-01-01T00:00:00Z",
    }
    whole = [{"op": "add", "path": "/status", "value": body}]
    kind = "application/json-patch+json"
    stored = await real.api.patch(ref, whole, subresource="status", content_type=kind)
    decoded = decode_job(stored)
    assert decoded.is_foreign
    assert decoded.status.current_workers == ("train-worker-0", "train-worker-1")
    assert stored["status"] == body
