"""What a watch shows, in which order, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import timedelta

import pytest

from et_kube.api import WatchEvent
from et_kube.errors import Expired
from et_kube.resources import CONFIG_MAPS, TRAINING_JOBS
from tests.contract.conftest import Site
from tests.makers import make_config_map

LONG = timedelta(seconds=20)


async def test_a_watch_goes_on_where_the_list_ended(site: Site):
    await site.create(CONFIG_MAPS, make_config_map("before"))
    listing = await site.api.list(CONFIG_MAPS, site.namespace)
    stored = await site.create(CONFIG_MAPS, make_config_map("box"))
    ref = site.ref(CONFIG_MAPS, "box")
    changed = await site.api.patch(ref, {"data": {"a": "1"}})
    await site.api.delete(ref, uid=stored["metadata"]["uid"])
    events = await take(3, watch(site, listing.resource_version))
    assert [(e.type, name(e)) for e in events] == [
        ("ADDED", "box"),
        ("MODIFIED", "box"),
        ("DELETED", "box"),
    ]
    assert version(events[0]) == int(stored["metadata"]["resourceVersion"])
    assert version(events[1]) == int(changed["metadata"]["resourceVersion"])
    assert version(events[2]) > version(events[1])
    assert events[2].object["data"] == {"a": "1"}


async def test_an_object_is_shown_whole_with_its_kind(site: Site):
    listing = await site.api.list(CONFIG_MAPS, site.namespace)
    await site.create(CONFIG_MAPS, make_config_map("box", {"a": "1"}))
    (event,) = await take(1, watch(site, listing.resource_version))
    assert (event.object["apiVersion"], event.object["kind"]) == ("v1", "ConfigMap")
    assert event.object["data"] == {"a": "1"}


async def test_an_object_enters_and_leaves_the_view_of_a_selector(site: Site):
    listing = await site.api.list(CONFIG_MAPS, site.namespace)
    await site.create(CONFIG_MAPS, make_config_map("box", {"a": "1"}))
    ref = site.ref(CONFIG_MAPS, "box")
    await site.api.patch(ref, {"metadata": {"labels": {"color": "red"}}})
    await site.api.patch(ref, {"data": {"a": "2"}})
    last = await site.api.patch(ref, {"metadata": {"labels": None}, "data": {"a": "3"}})
    events = await take(3, watch(site, listing.resource_version, label_selector="color=red"))
    assert [e.type for e in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[2].object["data"] == {"a": "2"}
    assert version(events[2]) == int(last["metadata"]["resourceVersion"])


async def test_one_object_can_be_watched_by_name(site: Site):
    listing = await site.api.list(CONFIG_MAPS, site.namespace)
    await site.create(CONFIG_MAPS, make_config_map("other"))
    await site.create(CONFIG_MAPS, make_config_map("box"))
    stream = watch(site, listing.resource_version, field_selector="metadata.name=box")
    (event,) = await take(1, stream)
    assert name(event) == "box"


async def test_a_watch_from_nowhere_begins_with_what_is_there(site: Site):
    await site.create(CONFIG_MAPS, make_config_map("box"))
    await site.create(CONFIG_MAPS, make_config_map("other"))
    (event,) = await take(1, watch(site, "", field_selector="metadata.name=box"))
    assert (event.type, name(event)) == ("ADDED", "box")


async def test_a_deletion_that_waits_is_a_modification(site: Site):
    manifest = make_config_map("box", finalizers=["example.com/hold"])
    stored = await site.create(CONFIG_MAPS, manifest)
    ref = site.ref(CONFIG_MAPS, "box")
    await site.api.delete(ref, uid=stored["metadata"]["uid"])
    await site.api.patch(ref, {"metadata": {"finalizers": None}})
    events = await take(2, watch(site, stored["metadata"]["resourceVersion"]))
    assert [e.type for e in events] == ["MODIFIED", "DELETED"]
    assert events[0].object["metadata"]["deletionTimestamp"]


async def test_a_watch_sees_what_happens_while_it_waits(site: Site):
    listing = await site.api.list(CONFIG_MAPS, site.namespace)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(take(1, watch(site, listing.resource_version)))
        await asyncio.sleep(0)
        await site.create(CONFIG_MAPS, make_config_map("box"))
    assert name(waiting.result()[0]) == "box"


@pytest.mark.long
async def test_the_server_ends_a_watch_at_its_time_out(site: Site):
    listing = await site.api.list(CONFIG_MAPS, site.namespace)
    await site.create(CONFIG_MAPS, make_config_map("box"))
    short = timedelta(seconds=1)
    since = listing.resource_version
    stream = site.api.watch(CONFIG_MAPS, site.namespace, resource_version=since, timeout=short)
    async with asyncio.timeout(10):
        events = [event async for event in stream]
    told = [e.type for e in events if e.type != "BOOKMARK" and name(e) == "box"]
    assert told == ["ADDED"]  # the ConfigMap that each real namespace has may come as late


async def test_a_watch_from_the_distant_past_is_expired(site: Site):
    # of our kind, which is younger than its cluster: a server as young as this knows all of others
    stream = site.api.watch(TRAINING_JOBS, site.namespace, resource_version="1", timeout=LONG)
    with pytest.raises(Expired) as caught:
        await take(1, stream)
    assert caught.value.status == 410


def watch(site: Site, since: str, **selectors: str) -> AsyncIterator[WatchEvent]:
    return site.api.watch(
        CONFIG_MAPS, site.namespace, resource_version=since, timeout=LONG, **selectors
    )


async def take(count: int, stream: AsyncIterator[WatchEvent]) -> list[WatchEvent]:
    """The first events that are no bookmarks; a real namespace has a ConfigMap of its own."""
    found: list[WatchEvent] = []
    async with asyncio.timeout(20), aclosing(stream):  # type: ignore[type-var]
        async for event in stream:
            if event.type != "BOOKMARK" and name(event) != "kube-root-ca.crt":
                found.append(event)
            if len(found) == count:
                break
    return found


def name(event: WatchEvent) -> str:
    return str(event.object["metadata"]["name"])


def version(event: WatchEvent) -> int:
    return int(event.object["metadata"]["resourceVersion"])
