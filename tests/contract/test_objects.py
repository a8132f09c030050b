"""Creating, reading, patching and deleting, with ConfigMaps as the plainest kind."""

from __future__ import annotations

import pytest

from et_kube.api import APPLY_PATCH
from et_kube.errors import AlreadyExists, Conflict, NotFound, Refused
from et_kube.resources import CONFIG_MAPS, TRAINING_JOBS, Json
from tests.contract.conftest import Site
from tests.makers import make_config_map, make_job, make_owner


async def test_an_object_gets_its_identity_from_the_server(site: Site):
    stored = await site.create(CONFIG_MAPS, make_config_map("box", {"a": "1"}))
    metadata = stored["metadata"]
    assert metadata["uid"]
    assert metadata["resourceVersion"].isdigit()
    assert metadata["namespace"] == site.namespace
    assert metadata["creationTimestamp"].endswith("Z")
    assert stored["data"] == {"a": "1"}
    assert (stored["apiVersion"], stored["kind"]) == ("v1", "ConfigMap")


async def test_a_name_is_made_from_generate_name(site: Site):
    manifest = make_config_map("")
    manifest["metadata"] = {"generateName": "box-"}
    first = await site.create(CONFIG_MAPS, manifest)
    second = await site.create(CONFIG_MAPS, manifest)
    names = {first["metadata"]["name"], second["metadata"]["name"]}
    assert len(names) == 2
    assert all(name.startswith("box-") and len(name) == 9 for name in names)


async def test_of_a_long_beginning_of_a_name_the_end_is_cut_off(site: Site):
    manifest = make_config_map("")
    manifest["metadata"] = {"generateName": f"{'box' * 19}-x"}
    stored = await site.create(CONFIG_MAPS, manifest)
    name = stored["metadata"]["name"]
    assert name.startswith(f"{'box' * 19}-")
    assert len(name) == 63


async def test_a_name_can_be_held_once(site: Site):
    await site.create(CONFIG_MAPS, make_config_map("box"))
    with pytest.raises(AlreadyExists) as caught:
        await site.create(CONFIG_MAPS, make_config_map("box"))
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")


async def test_an_object_that_is_not_there_is_not_found(site: Site):
    ref = site.ref(CONFIG_MAPS, "box")
    with pytest.raises(NotFound):
        await site.api.get(ref)
    with pytest.raises(NotFound):
        await site.api.patch(ref, {"data": {"a": "1"}})
    with pytest.raises(NotFound):
        await site.api.delete(ref, uid="0")


@pytest.mark.parametrize(
    "name", [pytest.param("Box", id="upper-case"), pytest.param("box_1", id="underscore")]
)
async def test_a_name_that_no_server_takes_is_refused(site: Site, name: str):
    with pytest.raises(Refused) as caught:
        await site.create(CONFIG_MAPS, make_config_map(name))
    assert caught.value.status == 422


async def test_a_label_that_no_server_takes_is_refused(site: Site):
    with pytest.raises(Refused) as caught:
        await site.create(CONFIG_MAPS, make_config_map("box", labels={"a": "not a label"}))
    assert caught.value.status == 422


async def test_two_controllers_are_refused(site: Site):
    job = await site.create(TRAINING_JOBS, make_job())
    other = await site.create(TRAINING_JOBS, make_job("other"))
    owners = [make_owner(job), make_owner(other)]
    with pytest.raises(Refused) as caught:
        await site.create(CONFIG_MAPS, make_config_map("box", ownerReferences=owners))
    assert caught.value.status == 422


async def test_a_merge_patch_sets_changes_and_removes(site: Site):
    stored = await site.create(CONFIG_MAPS, make_config_map("box", {"a": "1", "b": "2"}))
    body = {"data": {"a": None, "b": "3", "c": "4"}}
    changed = await site.api.patch(site.ref(CONFIG_MAPS, "box"), body)
    assert changed["data"] == {"b": "3", "c": "4"}
    assert version(changed) > version(stored)
    assert changed["metadata"]["uid"] == stored["metadata"]["uid"]


async def test_a_patch_that_changes_nothing_makes_no_version(site: Site):
    stored = await site.create(CONFIG_MAPS, make_config_map("box", {"a": "1"}))
    same = await site.api.patch(site.ref(CONFIG_MAPS, "box"), {"data": {"a": "1"}})
    assert version(same) == version(stored)


async def test_a_patch_from_an_old_version_is_a_conflict(site: Site):
    stored = await site.create(CONFIG_MAPS, make_config_map("box"))
    ref = site.ref(CONFIG_MAPS, "box")
    pin = {"resourceVersion": stored["metadata"]["resourceVersion"]}
    await site.api.patch(ref, {"metadata": pin, "data": {"a": "1"}})
    with pytest.raises(Conflict) as caught:
        await site.api.patch(ref, {"metadata": pin, "data": {"a": "2"}})
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    assert (await site.api.get(ref))["data"] == {"a": "1"}


async def test_a_patch_of_another_uid_is_a_conflict(site: Site):
    """The server says 422, for a uid is an immutable field to it; its meaning is a conflict."""
    await site.create(CONFIG_MAPS, make_config_map("box"))
    ref = site.ref(CONFIG_MAPS, "box")
    other = "11111111-2222-4333-8444-555555555555"
    with pytest.raises(Conflict) as caught:
        await site.api.patch(ref, {"metadata": {"uid": other}, "data": {"a": "1"}})
    assert caught.value.status == 422
    assert not (await site.api.get(ref)).get("data")


async def test_a_patch_of_a_recreated_object_is_a_conflict(site: Site):
    stored = await site.create(CONFIG_MAPS, make_config_map("box"))
    ref = site.ref(CONFIG_MAPS, "box")
    await site.api.delete(ref, uid=stored["metadata"]["uid"])
    await site.create(CONFIG_MAPS, make_config_map("box"))
    pin = {k: stored["metadata"][k] for k in ("uid", "resourceVersion")}
    with pytest.raises(Conflict):
        await site.api.patch(ref, {"metadata": pin, "data": {"a": "1"}})


async def test_an_apply_creates_and_holds_what_it_names_and_takes_back_what_it_brought(site: Site):
    def make(**data: str) -> Json:
        manifest = make_config_map("box", data)
        return manifest | {"metadata": {**manifest["metadata"], "namespace": site.namespace}}

    ref = site.ref(CONFIG_MAPS, "box")
    made = await site.api.patch(ref, make(a="1", b="2"), content_type=APPLY_PATCH)
    assert made["data"] == {"a": "1", "b": "2"}
    await site.api.patch(ref, {"data": {"c": "others"}})
    changed = await site.api.patch(ref, make(a="3"), content_type=APPLY_PATCH)
    assert changed["data"] == {"a": "3", "c": "others"}


async def test_an_apply_from_an_old_version_or_of_another_uid_is_a_conflict(site: Site):
    stored = await site.create(CONFIG_MAPS, make_config_map("box", {"a": "1"}))
    ref, metadata = site.ref(CONFIG_MAPS, "box"), stored["metadata"]
    body = make_config_map("box", {"a": "2"})
    pin = {k: metadata[k] for k in ("name", "namespace", "uid", "resourceVersion")}
    await site.api.patch(ref, {"data": {"a": "3"}})
    with pytest.raises(Conflict):
        await site.api.patch(ref, body | {"metadata": pin}, content_type=APPLY_PATCH)
    await site.api.delete(ref, uid=metadata["uid"])
    with pytest.raises(Conflict):
        await site.api.patch(ref, body | {"metadata": pin}, content_type=APPLY_PATCH)


async def test_an_immutable_config_map_keeps_its_data(site: Site):
    manifest = make_config_map("box", {"a": "1"}) | {"immutable": True}
    await site.create(CONFIG_MAPS, manifest)
    ref = site.ref(CONFIG_MAPS, "box")
    for body in ({"data": {"a": "2"}}, {"immutable": False}):
        with pytest.raises(Refused) as caught:
            await site.api.patch(ref, body)
        assert caught.value.status == 422
    labelled = await site.api.patch(ref, {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["labels"] == {"a": "b"}


async def test_no_key_of_a_config_map_is_in_data_and_in_binary_data(site: Site):
    manifest = make_config_map("box", {"a": "1"}) | {"binaryData": {"b": "eA=="}}
    await site.create(CONFIG_MAPS, manifest)
    for body in ({"data": {"b": "2"}}, {"binaryData": {"a": "eA=="}}):
        with pytest.raises(Refused) as caught:
            await site.api.patch(site.ref(CONFIG_MAPS, "box"), body)
        assert caught.value.status == 422
    moved = await site.api.patch(
        site.ref(CONFIG_MAPS, "box"), {"data": {"b": "2"}, "binaryData": {"b": None}}
    )
    assert moved["data"] == {"a": "1", "b": "2"}


async def test_a_deletion_names_the_very_object(site: Site):
    stored = await site.create(CONFIG_MAPS, make_config_map("box"))
    ref = site.ref(CONFIG_MAPS, "box")
    with pytest.raises(Conflict):
        await site.api.delete(ref, uid="11111111-2222-4333-8444-555555555555")
    await site.api.delete(ref, uid=stored["metadata"]["uid"])
    with pytest.raises(NotFound):
        await site.api.get(ref)


async def test_a_deletion_can_name_the_version(site: Site):
    stored = await site.create(CONFIG_MAPS, make_config_map("box"))
    ref = site.ref(CONFIG_MAPS, "box")
    changed = await site.api.patch(ref, {"data": {"a": "1"}})
    identity = stored["metadata"]
    with pytest.raises(Conflict):
        await site.api.delete(
            ref, uid=identity["uid"], resource_version=identity["resourceVersion"]
        )
    fresh = changed["metadata"]["resourceVersion"]
    await site.api.delete(ref, uid=identity["uid"], resource_version=fresh)


async def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off(site: Site):
    manifest = make_config_map("box", finalizers=["example.com/hold"])
    stored = await site.create(CONFIG_MAPS, manifest)
    ref = site.ref(CONFIG_MAPS, "box")
    await site.api.delete(ref, uid=stored["metadata"]["uid"])
    held = await site.api.get(ref)
    assert held["metadata"]["deletionTimestamp"]
    await site.api.delete(ref, uid=stored["metadata"]["uid"])
    assert version(await site.api.get(ref)) == version(held)
    with pytest.raises(AlreadyExists):
        await site.create(CONFIG_MAPS, make_config_map("box"))
    await site.api.patch(ref, {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await site.api.get(ref)


async def test_a_list_is_cut_by_labels_and_names(site: Site):
    for name, color in (("a", "red"), ("b", "blue"), ("c", None)):
        labels = {"labels": {"color": color}} if color else {}
        await site.create(CONFIG_MAPS, make_config_map(f"box-{name}", **labels))

    async def find(**selectors: str) -> list[str]:
        listing = await site.api.list(CONFIG_MAPS, site.namespace, **selectors)
        names = [item["metadata"]["name"] for item in listing.items]
        return [name for name in names if name.startswith("box-")]

    assert await find() == ["box-a", "box-b", "box-c"]
    assert await find(label_selector="color=red") == ["box-a"]
    assert await find(label_selector="color!=red") == ["box-b", "box-c"]
    assert await find(label_selector="color") == ["box-a", "box-b"]
    assert await find(label_selector="!color") == ["box-c"]
    assert await find(label_selector="color in (red, blue)") == ["box-a", "box-b"]
    assert await find(field_selector="metadata.name=box-b") == ["box-b"]
    assert await find(field_selector="metadata.name!=box-b") == ["box-a", "box-c"]


async def test_a_list_is_not_older_than_the_write_before_it(site: Site):
    stored = await site.create(CONFIG_MAPS, make_config_map("box"))
    listing = await site.api.list(CONFIG_MAPS, site.namespace)
    found = [item for item in listing.items if item["metadata"]["name"] == "box"]
    assert found == [stored]
    assert int(listing.resource_version) >= version(stored)


async def test_dependents_follow_their_owner(site: Site):
    owner = await site.create(CONFIG_MAPS, make_config_map("owner"))
    await site.create(CONFIG_MAPS, make_config_map("child", ownerReferences=[make_owner(owner)]))
    await site.create(CONFIG_MAPS, make_config_map("stranger"))
    await site.api.delete(site.ref(CONFIG_MAPS, "owner"), uid=owner["metadata"]["uid"])
    await site.eventually(lambda: is_gone(site, "child"))
    assert not await is_gone(site, "stranger")


async def test_a_dependent_of_an_owner_that_never_was_goes_too(site: Site):
    owner = await site.create(CONFIG_MAPS, make_config_map("owner"))
    reference = make_owner(owner) | {"uid": "11111111-2222-4333-8444-555555555555"}
    await site.create(CONFIG_MAPS, make_config_map("child", ownerReferences=[reference]))
    await site.eventually(lambda: is_gone(site, "child"))


def version(document: Json) -> int:
    return int(document["metadata"]["resourceVersion"])


async def is_gone(site: Site, name: str) -> bool:
    try:
        await site.api.get(site.ref(CONFIG_MAPS, name))
    except NotFound:
        return True
    return False
