"""Whose which field is, and what a server-side apply takes away: what `et submit --update` needs.

The jobs are suspended, so that an operator of a real cluster leaves them alone.
"""

from __future__ import annotations

from typing import Any

import pytest

from et.clusters import Cluster
from et.updating import update
from et_kube.api import APPLY_PATCH
from et_kube.clock import SystemClock
from et_kube.errors import Refused
from et_kube.resources import TRAINING_JOBS, Json
from tests.contract.conftest import Site
from tests.makers import make_job
from tests.unit.et.rigs import FakeContainers, FakeLogs, make_screen


def make(container: str = "trainer", **fields: Any) -> dict[str, Any]:
    """A job whose workers have one container of this name."""
    job = make_job(suspend=True, **fields)
    containers(job)[0]["name"] = container
    return job


def containers(job: Json) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"][
        "containers"
    ]
    return found


def name_containers(job: Json) -> list[str]:
    return [container["name"] for container in containers(job)]


async def apply(site: Site, manifest: dict[str, Any]) -> Json:
    body = {**manifest, "metadata": {**manifest["metadata"], "namespace": site.namespace}}
    return await site.write_as("et").patch(
        site.ref(TRAINING_JOBS, "train"), body, content_type=APPLY_PATCH
    )


async def submit(site: Site, manifest: dict[str, Any]) -> Json:
    return await site.write_as("et").create(TRAINING_JOBS, site.namespace, manifest)


async def submit_again(site: Site, manifest: dict[str, Any]) -> Json:
    api, logs, pods = site.write_as("et"), FakeLogs(), FakeContainers()
    cluster = Cluster(api, logs, SystemClock(), site.namespace, pods)
    objects = [(TRAINING_JOBS, manifest)]
    [stored] = await update(cluster, make_screen(), objects, namespace="", replicas=None)
    return stored


async def read_owners(site: Site) -> dict[tuple[str, str, str], Json]:
    stored = await site.write_as("et").get_managed(site.ref(TRAINING_JOBS, "train"))
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in stored["metadata"]["managedFields"]
    }


async def test_what_was_created_is_not_taken_away_by_an_apply(site: Site):
    await submit(site, make("before", ttlSecondsAfterFinished=60))

    stored = await apply(site, make("after"))

    assert stored["spec"]["ttlSecondsAfterFinished"] == 60
    assert sorted(name_containers(stored)) == ["after", "before"]


async def test_what_was_applied_is_taken_away_by_the_next_apply(site: Site):
    await apply(site, make("before", ttlSecondsAfterFinished=60))

    stored = await apply(site, make("after"))

    assert "ttlSecondsAfterFinished" not in stored["spec"]
    assert name_containers(stored) == ["after"]


async def test_what_anybody_writes_is_his(site: Site):
    somebody, ref = site.write_as("somebody"), site.ref(TRAINING_JOBS, "train")
    await submit(site, make(backoffLimit=1))
    await somebody.patch(ref, {"spec": {"backoffLimit": 2, "ttlSecondsAfterFinished": 60}})
    await somebody.patch(ref, {"spec": {"replicas": 3}}, subresource="scale")

    owners = await read_owners(site)

    replicas = {"f:etReplicaSpecs": {"f:worker": {"f:replicas": {}}}}
    written = {"f:backoffLimit": {}, "f:ttlSecondsAfterFinished": {}}
    assert owners["somebody", "Update", ""] == {"f:spec": written}
    assert owners["somebody", "Update", "scale"] == {"f:spec": replicas}
    first = owners["et", "Update", ""]["f:spec"]
    assert first["f:suspend"] == {}
    assert "f:cleanPodPolicy" in first  # a default is whose the object is
    assert "f:backoffLimit" not in first
    template = first["f:etReplicaSpecs"]["f:worker"]["f:template"]["f:spec"]
    assert set(template["f:containers"]['k:{"name":"trainer"}']) == {".", "f:image", "f:name"}
    assert "f:replicas" not in first["f:etReplicaSpecs"]["f:worker"]


async def test_an_apply_has_what_it_says_and_no_default(site: Site):
    await apply(site, make())

    first = (await read_owners(site))["et", "Apply", ""]["f:spec"]

    assert set(first) == {"f:etReplicaSpecs", "f:suspend"}
    assert set(first["f:etReplicaSpecs"]["f:worker"]) == {"f:replicas", "f:template"}


async def test_no_apply_says_whose_anything_is(site: Site):
    manifest = make()
    manifest["metadata"]["managedFields"] = [{"manager": "et", "operation": "Apply"}]
    with pytest.raises(Refused) as caught:
        await apply(site, manifest)
    assert caught.value.status == 400


async def test_a_file_takes_away_what_an_earlier_submit_brought(site: Site):
    manifest = make("before", ttlSecondsAfterFinished=60, cleanPodPolicy="None")
    manifest["metadata"]["labels"] = {"team": "vision"}
    before = await submit(site, manifest)

    stored = await submit_again(site, make("after", backoffLimit=2))

    assert "ttlSecondsAfterFinished" not in stored["spec"]
    assert stored["spec"]["cleanPodPolicy"] == "Running"
    assert stored["spec"]["backoffLimit"] == 2
    assert "labels" not in stored["metadata"]
    assert name_containers(stored) == ["after"]
    assert stored["metadata"]["uid"] == before["metadata"]["uid"]
    # whose a field is, is nothing that the author asked for
    assert stored["metadata"]["generation"] == before["metadata"]["generation"] + 1


async def test_whose_a_field_is_counts_as_a_change_of_the_object_alone(site: Site):
    before = await submit(site, make())

    stored = await submit_again(site, make())

    assert stored["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    assert stored["metadata"]["generation"] == before["metadata"]["generation"]
    assert stored["spec"] == before["spec"]
    assert (await read_owners(site))["et", "Update", ""] == {"f:spec": {"f:suspend": {}}}


async def test_a_file_takes_nothing_away_that_others_wrote(site: Site):
    somebody, ref = site.write_as("somebody"), site.ref(TRAINING_JOBS, "train")
    before = await submit(site, make("before", workers=2, ttlSecondsAfterFinished=60))
    theirs = [*containers(before), {"name": "sidecar", "image": "localhost/sidecar:dev"}]
    template = {"template": {"spec": {"containers": theirs}}}
    body = {"ttlSecondsAfterFinished": 90, "etReplicaSpecs": {"worker": template}}
    await somebody.patch(ref, {"spec": body})
    await somebody.patch(ref, {"spec": {"replicas": 4}}, subresource="scale")

    stored = await submit_again(site, make("after", workers=2))

    assert stored["spec"]["ttlSecondsAfterFinished"] == 90
    assert sorted(name_containers(stored)) == ["after", "sidecar"]
    assert stored["spec"]["etReplicaSpecs"]["worker"]["replicas"] == 4
