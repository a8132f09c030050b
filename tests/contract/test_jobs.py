"""What is special about our own kinds: defaults, pruning, status, scale, generation."""

from __future__ import annotations

import pytest

from et_kube.errors import Conflict, NotFound, Refused
from et_kube.resources import CONFIG_MAPS, SCALE_INS, TRAINING_JOBS
from tests.contract.conftest import Site
from tests.makers import make_config_map, make_job, make_owner, make_scale_in


async def test_defaults_are_filled_in(site: Site):
    stored = await site.create(TRAINING_JOBS, make_job())
    assert stored["spec"]["cleanPodPolicy"] == "Running"
    assert stored["spec"]["restartPolicy"] == "Never"
    assert stored["metadata"]["generation"] == 1


async def test_unknown_fields_are_dropped(site: Site):
    stored = await site.create(TRAINING_JOBS, make_job(notAField=1))
    assert "notAField" not in stored["spec"]


async def test_the_pod_template_is_kept_as_it_is(site: Site):
    manifest = make_job()
    template = manifest["spec"]["etReplicaSpecs"]["worker"]["template"]
    template["metadata"] = {"labels": {"team": "vision"}}
    template["spec"]["anythingNew"] = {"deep": [1, "two"]}
    stored = await site.create(TRAINING_JOBS, manifest)
    assert stored["spec"]["etReplicaSpecs"]["worker"]["template"] == template


async def test_a_field_of_the_wrong_type_is_refused(site: Site):
    with pytest.raises(Refused) as caught:
        await site.create(TRAINING_JOBS, make_job(cleanPodPolicy="Sometimes"))
    assert caught.value.status == 422
    with pytest.raises(Refused):
        await site.create(SCALE_INS, make_scale_in("in", count="one"))


async def test_status_and_spec_have_writers_of_their_own(site: Site):
    manifest = make_job() | {"status": {"phase": "Running"}}
    stored = await site.create(TRAINING_JOBS, manifest)
    assert "phase" not in stored.get("status", {})
    ref = site.ref(TRAINING_JOBS, "train")
    body = {"status": {"phase": "Running"}, "spec": {"suspend": True}}
    reported = await site.api.patch(ref, body, subresource="status")
    assert reported["status"]["phase"] == "Running"
    assert not reported["spec"].get("suspend")
    assert reported["metadata"]["generation"] == 1
    asked = await site.api.patch(ref, {"status": {"phase": "Failed"}, "spec": {"suspend": True}})
    assert asked["status"]["phase"] == "Running"
    assert asked["spec"]["suspend"] is True
    assert asked["metadata"]["generation"] == 2


async def test_a_status_patch_does_not_touch_labels(site: Site):
    await site.create(TRAINING_JOBS, make_job())
    ref = site.ref(TRAINING_JOBS, "train")
    body = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}
    stored = await site.api.patch(ref, body, subresource="status")
    assert "labels" not in stored["metadata"]


async def test_labels_are_not_what_the_author_asked_for(site: Site):
    await site.create(TRAINING_JOBS, make_job())
    ref = site.ref(TRAINING_JOBS, "train")
    stored = await site.api.patch(ref, {"metadata": {"annotations": {"a": "b"}}})
    assert stored["metadata"]["generation"] == 1


async def test_a_status_from_an_old_version_is_a_conflict(site: Site):
    stored = await site.create(TRAINING_JOBS, make_job())
    ref = site.ref(TRAINING_JOBS, "train")
    await site.api.patch(ref, {"spec": {"suspend": True}})
    pin = {"resourceVersion": stored["metadata"]["resourceVersion"]}
    with pytest.raises(Conflict):
        await site.api.patch(
            ref, {"metadata": pin, "status": {"phase": "Running"}}, subresource="status"
        )


async def test_a_uid_does_not_pin_a_status_patch(site: Site):
    """The server drops the metadata of a status patch: only the resourceVersion protects it."""
    await site.create(TRAINING_JOBS, make_job())
    other = {"uid": "11111111-2222-4333-8444-555555555555"}
    stored = await site.api.patch(
        site.ref(TRAINING_JOBS, "train"),
        {"metadata": other, "status": {"phase": "Running"}},
        subresource="status",
    )
    assert stored["status"]["phase"] == "Running"


async def test_the_scale_subresource_speaks_of_workers(site: Site):
    await site.create(TRAINING_JOBS, make_job(workers=2))
    ref = site.ref(TRAINING_JOBS, "train")
    status = {"status": {"replicas": 2, "selector": "a=b"}}
    await site.api.patch(ref, status, subresource="status")
    scale = await site.api.patch(ref, {"spec": {"replicas": 3}}, subresource="scale")
    assert scale["kind"] == "Scale"
    assert scale["spec"]["replicas"] == 3
    assert scale["status"] == {"replicas": 2, "selector": "a=b"}
    stored = await site.api.get(ref)
    assert stored["spec"]["etReplicaSpecs"]["worker"]["replicas"] == 3
    assert stored["metadata"]["generation"] == 2


async def test_a_kind_without_a_subresource_has_none(site: Site):
    await site.create(SCALE_INS, make_scale_in("in", count=1))
    with pytest.raises(NotFound):
        await site.api.patch(
            site.ref(SCALE_INS, "in"), {"spec": {"replicas": 1}}, subresource="scale"
        )


async def test_children_follow_a_deleted_job(site: Site):
    job = await site.create(TRAINING_JOBS, make_job())
    owners = [make_owner(job)]
    await site.create(CONFIG_MAPS, make_config_map("child", ownerReferences=owners))
    await site.api.delete(site.ref(TRAINING_JOBS, "train"), uid=job["metadata"]["uid"])

    async def is_gone() -> bool:
        try:
            await site.api.get(site.ref(CONFIG_MAPS, "child"))
        except NotFound:
            return True
        return False

    await site.eventually(is_gone)


async def test_a_job_deleted_in_the_foreground_is_seen_leaving(site: Site):
    manifest = make_job()
    manifest["metadata"]["finalizers"] = ["example.com/hold"]
    job = await site.create(TRAINING_JOBS, manifest)
    ref = site.ref(TRAINING_JOBS, "train")
    await site.api.delete(ref, uid=job["metadata"]["uid"], propagation="Foreground")
    leaving = await site.api.get(ref)
    assert leaving["metadata"]["deletionTimestamp"]
    assert leaving["metadata"]["generation"] == 2
    await site.api.patch(ref, {"metadata": {"finalizers": None}})
