"""What is special about pods."""

from __future__ import annotations

import pytest

from et_kube.errors import NotFound, Refused
from et_kube.resources import PODS, Json
from tests.contract.conftest import Site
from tests.makers import make_pod


async def test_a_new_pod_is_pending_whatever_its_manifest_says(site: Site):
    manifest = make_pod("one") | {"status": {"phase": "Running"}}
    stored = await site.create(PODS, manifest)
    assert stored["status"]["phase"] == "Pending"
    assert stored["spec"]["terminationGracePeriodSeconds"] == 30
    assert stored["spec"]["restartPolicy"] == "Always"
    assert stored["metadata"].get("generation", 1) == 1  # pods have one since 1.33


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": []}, id="no-container"),
        pytest.param({"containers": [{"image": "a"}]}, id="no-name"),
        pytest.param({"containers": [{"name": "a"}]}, id="no-image"),
        *(
            pytest.param(
                {
                    "containers": [{"name": "a", "image": "a"}],
                    "volumes": [{"name": "v", source: {field: ""}}],
                },
                id=source,
            )
            for source, field in {
                "configMap": "name",
                "hostPath": "path",
                "persistentVolumeClaim": "claimName",
                "secret": "secretName",
            }.items()
        ),
    ],
)
async def test_a_pod_without_what_it_needs_is_refused(site: Site, spec: Json):
    with pytest.raises(Refused) as caught:
        await site.create(PODS, make_pod("one") | {"spec": spec})
    assert caught.value.status == 422


async def test_a_pod_without_its_service_account_is_refused(site: Site):
    manifest = make_pod("one")
    manifest["spec"]["serviceAccountName"] = "nobody"
    with pytest.raises(Refused) as caught:
        await site.create(PODS, manifest)
    assert caught.value.status == 403
    assert "nobody" in caught.value.message


async def test_a_status_patch_changes_the_status_alone(site: Site):
    await site.create(PODS, make_pod("one"))
    ref = site.ref(PODS, "one")
    body = {"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": 5}}
    changed = await site.api.patch(ref, body, subresource="status")
    assert changed["status"]["phase"] == "Running"
    assert "activeDeadlineSeconds" not in changed["spec"]
    changed = await site.api.patch(ref, {"status": {"phase": "Failed"}})
    assert changed["status"]["phase"] == "Running"


async def test_what_a_pod_runs_is_immutable(site: Site):
    await site.create(PODS, make_pod("one"))
    with pytest.raises(Refused) as caught:
        await site.api.patch(site.ref(PODS, "one"), {"spec": {"hostname": "other"}})
    assert caught.value.status == 422


async def test_a_pod_without_a_node_is_deleted_at_once(site: Site):
    stored = await site.create(PODS, make_pod("one"))
    await site.api.delete(site.ref(PODS, "one"), uid=stored["metadata"]["uid"])
    with pytest.raises(NotFound):
        await site.api.get(site.ref(PODS, "one"))


@pytest.mark.parametrize("node", ["gone-node"])
async def test_a_placed_pod_leaves_when_its_kubelet_says_so(site: Site, node: str):
    """The node does not exist: nobody confirms, as with a lost one."""
    manifest = make_pod("one")
    manifest["spec"]["nodeName"] = node
    stored = await site.create(PODS, manifest)
    ref, uid = site.ref(PODS, "one"), stored["metadata"]["uid"]
    await site.api.delete(ref, uid=uid)
    leaving = await site.api.get(ref)
    assert leaving["metadata"]["deletionTimestamp"]
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 30
    await site.api.delete(ref, uid=uid, grace_seconds=10)
    sooner = await site.api.get(ref)
    assert sooner["metadata"]["deletionGracePeriodSeconds"] == 10
    assert sooner["metadata"]["deletionTimestamp"] < leaving["metadata"]["deletionTimestamp"]
    await site.api.delete(ref, uid=uid, grace_seconds=20)
    assert (await site.api.get(ref))["metadata"]["deletionGracePeriodSeconds"] == 10
    await site.api.delete(ref, uid=uid, grace_seconds=0)
    with pytest.raises(NotFound):
        await site.api.get(ref)


async def test_a_pod_that_has_ended_is_deleted_at_once(site: Site):
    manifest = make_pod("one")
    manifest["spec"]["nodeName"] = "gone-node"
    stored = await site.create(PODS, manifest)
    ref = site.ref(PODS, "one")
    await site.api.patch(ref, {"status": {"phase": "Succeeded"}}, subresource="status")
    await site.api.delete(ref, uid=stored["metadata"]["uid"])
    with pytest.raises(NotFound):
        await site.api.get(ref)


async def test_pods_are_found_by_their_node(site: Site):
    manifest = make_pod("placed")
    manifest["spec"]["nodeName"] = "gone-node"
    await site.create(PODS, manifest)
    await site.create(PODS, make_pod("waiting"))
    listing = await site.api.list(PODS, site.namespace, field_selector="spec.nodeName=gone-node")
    assert [item["metadata"]["name"] for item in listing.items] == ["placed"]
