"""How far behind the truth a watch can be kept."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from et_kube.errors import OutcomeUnknown, Unreachable
from et_kube.resources import CONFIG_MAPS, PODS, Ref
from fakes.clients import Call, CallLog, FakeApi, Moment
from fakes.clock import FakeClock
from fakes.cluster import FakeCluster
from tests.makers import make_config_map, make_pod

NAMESPACE = "default"
SHORT = timedelta(milliseconds=1)


def open_cluster() -> tuple[FakeCluster, FakeApi, CallLog]:
    cluster, log = FakeCluster(FakeClock().now), CallLog()
    return cluster, FakeApi(cluster, log), log


def add(cluster: FakeCluster, name: str) -> None:
    cluster.create(CONFIG_MAPS, NAMESPACE, make_config_map(name))


async def see(api: FakeApi, since: int) -> list[str]:
    stream = api.watch(CONFIG_MAPS, None, resource_version=str(since), timeout=SHORT)
    return [e.object["metadata"]["name"] async for e in stream if e.type != "BOOKMARK"]


async def test_a_held_kind_shows_nothing_new_until_it_is_released():
    cluster, api, _ = open_cluster()
    since = cluster.history.revision
    cluster.history.hold(CONFIG_MAPS)
    add(cluster, "a")
    add(cluster, "b")
    assert await see(api, since) == []
    cluster.history.release(CONFIG_MAPS, events=1)
    assert await see(api, since) == ["a"]
    cluster.history.release(CONFIG_MAPS)
    assert await see(api, since) == ["a", "b"]


async def test_a_held_kind_does_not_hold_another():
    cluster, api, _ = open_cluster()
    since = cluster.history.revision
    cluster.history.hold(PODS)
    cluster.create(PODS, NAMESPACE, make_pod("one"))
    add(cluster, "a")
    assert await see(api, since) == ["a"]


async def test_a_kind_can_lag_by_a_number_of_events():
    cluster, api, _ = open_cluster()
    since = cluster.history.revision
    cluster.history.lag(CONFIG_MAPS, events=1)
    for name in ("a", "b", "c"):
        add(cluster, name)
    assert await see(api, since) == ["a", "b"]


async def test_a_cached_list_is_as_old_as_the_watches_and_a_consistent_one_is_not():
    cluster, api, _ = open_cluster()
    add(cluster, "a")
    cluster.history.hold(CONFIG_MAPS)
    add(cluster, "b")
    cluster.patch(Ref(CONFIG_MAPS, NAMESPACE, "a"), {"data": {"x": "1"}})
    cached = await api.list(CONFIG_MAPS, None, resource_version="0")
    assert [(i["metadata"]["name"], i["data"]) for i in cached.items] == [("a", {})]
    fresh = await api.list(CONFIG_MAPS, None)
    assert [i["metadata"]["name"] for i in fresh.items] == ["a", "b"]
    assert int(cached.resource_version) < int(fresh.resource_version)


async def test_every_watch_can_be_broken_and_gets_bookmarks():
    cluster, api, _ = open_cluster()
    stream = api.watch(
        CONFIG_MAPS, None, resource_version=str(cluster.history.revision), timeout=timedelta(60)
    )
    async with asyncio.TaskGroup() as group:
        event = group.create_task(anext(stream))
        await asyncio.sleep(0)
        add(cluster, "a")
    assert event.result().type == "ADDED"
    cluster.history.bookmark()
    assert (await anext(stream)).type == "BOOKMARK"
    cluster.history.break_watches(Unreachable("cut"))
    with pytest.raises(Unreachable):
        await anext(stream)


async def test_a_fault_strikes_before_or_after_the_write():
    cluster, api, log = open_cluster()

    def lose(call: Call, moment: Moment) -> None:
        name = call.body["metadata"]["name"]
        if (name, moment) in {("before", Moment.BEFORE), ("after", Moment.AFTER)}:
            raise OutcomeUnknown("cut")

    log.faults.append(lose)
    for name in ("before", "after"):
        with pytest.raises(OutcomeUnknown):
            await api.create(CONFIG_MAPS, NAMESPACE, make_config_map(name))
    assert [d["metadata"]["name"] for d in cluster.list(CONFIG_MAPS)] == ["after"]
    assert [call.is_applied for call in log.calls] == [False, True]


def test_equal_seeds_make_equal_clusters():
    uids = {
        FakeCluster(FakeClock().now, seed).create(CONFIG_MAPS, "a", make_config_map("b"))[
            "metadata"
        ]["uid"]
        for seed in (1, 1, 2)
    }
    assert len(uids) == 2
