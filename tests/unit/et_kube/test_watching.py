from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from et_kube.api import Listing, WatchEvent
from et_kube.errors import (
    Expired,
    KubeError,
    OutcomeUnknown,
    ServerFailed,
    Throttled,
    Truncated,
    Unreachable,
)
from et_kube.resources import PODS, Json, Resource
from et_kube.watching import Cut, Deleted, Reflector, Resumed, Sighting, Synced, Upserted
from fakes.clock import FakeClock

SECOND = timedelta(seconds=1)
Script = Callable[[str], AsyncGenerator[WatchEvent, None]]


def make_pod(name: str, version: int) -> Json:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


class Server:
    """Lists one pod; watches as a test says."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.lists: list[float] = []
        self.watches: list[tuple[float, str]] = []
        self.listing: Exception | None = None
        self.watching: list[Script] = []
        self.fallback: Script = stay
        self.version = 10

    async def list(self, resource: Resource, namespace: str | None, **_: Any) -> Listing:
        self.lists.append(self.clock.monotonic())
        if self.listing is not None:
            raise self.listing
        return Listing((make_pod("a", 5),), str(self.version))

    async def watch(
        self, resource: Resource, namespace: str | None, *, resource_version: str, **_: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        self.watches.append((self.clock.monotonic(), resource_version))
        script = self.watching.pop(0) if self.watching else self.fallback
        async for event in script(resource_version):
            yield event


async def stay(_: str) -> AsyncGenerator[WatchEvent, None]:
    await asyncio.Event().wait()
    yield WatchEvent("BOOKMARK", {})


async def end(_: str) -> AsyncGenerator[WatchEvent, None]:
    for event in ():
        yield event


def fail(error: Exception) -> Script:
    async def script(_: str) -> AsyncGenerator[WatchEvent, None]:
        for event in ():
            yield event
        raise error

    return script


def tell(*events: WatchEvent, then: Script = stay) -> Script:
    async def script(version: str) -> AsyncGenerator[WatchEvent, None]:
        for event in events:
            yield event
        async for event in then(version):
            yield event

    return script


@asynccontextmanager
async def reflecting(
    server: Server,
    told: list[Sighting] | None = None,
    on_defect: Callable[[], None] | None = None,
    find_newest: Callable[[], int] = int,
) -> AsyncIterator[Reflector]:
    sink: list[Sighting] = [] if told is None else told
    reflector = Reflector(
        server,  # type: ignore[arg-type]
        server.clock,
        PODS,
        None,
        sink.append,
        chance=lambda: 0.0,
        on_defect=on_defect,
        find_newest=find_newest,
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run())
        await server.clock.settle()
        yield reflector
        task.cancel()


async def test_what_is_there_is_told_first_and_then_what_changes():
    server = Server(FakeClock())
    server.fallback = tell(
        WatchEvent("ADDED", make_pod("b", 11)),
        WatchEvent("MODIFIED", make_pod("b", 12)),
        WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "13"}}),
        WatchEvent("DELETED", make_pod("b", 14)),
    )
    told: list[Sighting] = []
    async with reflecting(server, told) as reflector:
        assert reflector.is_synced
    assert told == [
        Synced(PODS, None, (make_pod("a", 5),), "10", 1000.0),
        Upserted(PODS, make_pod("b", 11)),
        Upserted(PODS, make_pod("b", 12)),
        Deleted(PODS, make_pod("b", 14)),
    ]
    assert server.watches == [(1000.0, "10")]


async def test_a_watch_that_ends_in_time_goes_on_at_once_from_the_last_bookmark():
    clock = FakeClock()
    server = Server(clock)

    async def live(version: str) -> AsyncGenerator[WatchEvent, None]:
        await clock.sleep(300 * SECOND)
        yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "20"}})

    server.watching = [live]
    async with reflecting(server):
        await clock.advance(300 * SECOND)
    assert server.watches == [(1000.0, "10"), (1300.0, "20")]
    assert len(server.lists) == 1


@pytest.mark.parametrize(
    "error",
    [
        OutcomeUnknown("cut"),
        Unreachable("away"),
        ServerFailed(503, "", "busy"),
        ServerFailed(500, "", "an ERROR event"),
    ],
    ids=str,
)
async def test_a_watch_that_breaks_goes_on_from_where_it_was_without_a_list(
    error: KubeError,
):
    server = Server(FakeClock())
    server.watching = [tell(WatchEvent("ADDED", make_pod("b", 11)), then=fail(error))]
    async with reflecting(server):
        await server.clock.advance(SECOND)
    assert [version for _, version in server.watches] == ["10", "11"]
    assert len(server.lists) == 1


async def test_a_version_that_is_too_old_is_followed_by_a_list():
    server = Server(FakeClock())
    server.watching = [fail(Expired(410, "Expired", "too old"))]
    async with reflecting(server):
        server.version = 30
        await server.clock.advance(SECOND)
    assert server.lists == [1000.0, 1000.8]
    assert server.watches == [(1000.0, "10"), (1000.8, "30")]


async def test_a_server_that_closes_every_watch_at_once_is_listed_again_and_never_in_a_hot_loop():
    server = Server(FakeClock())
    server.fallback = end
    async with reflecting(server):
        await server.clock.advance(300 * SECOND)
    assert [round(at - 1000, 1) for at, _ in server.watches[:4]] == [0.0, 0.8, 2.4, 5.6]
    assert len(server.lists) > 1
    assert len(server.watches) + len(server.lists) < 25


@pytest.mark.parametrize(
    "script",
    [
        fail(OutcomeUnknown("not a watch event")),
        fail(ServerFailed(503, "", "")),
        fail(Expired(410, "", "")),
        tell(WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "11"}}), then=end),
    ],
    ids=["nonsense", "503", "410", "one event each"],
)
async def test_no_answer_makes_a_hot_loop(script: Script):
    server = Server(FakeClock())
    server.fallback = script
    async with reflecting(server):
        await server.clock.advance(300 * SECOND)
    assert 5 < len(server.watches) + len(server.lists) < 35


async def test_lists_that_fail_are_tried_again_less_and_less_often():
    server = Server(FakeClock())
    server.listing = ServerFailed(503, "", "")
    async with reflecting(server) as reflector:
        await server.clock.advance(100 * SECOND)
        assert not reflector.is_synced
        assert reflector.last_contact is None
    pauses = [round(b - a, 1) for a, b in zip(server.lists, server.lists[1:], strict=False)]
    assert pauses == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]


async def test_a_server_that_comes_back_is_found_within_seconds_and_not_kept_waiting():
    server = Server(FakeClock())
    server.listing = Unreachable("away")
    async with reflecting(server):
        await server.clock.advance(100 * SECOND)
        assert server.lists[-1] >= 1095
        assert len(server.lists) < 25
        server.listing = ServerFailed(503, "", "starting")
        await server.clock.advance(5 * SECOND)
        tries = len(server.lists)
        await server.clock.advance(2 * SECOND)
        assert len(server.lists) > tries


async def test_a_watch_that_lived_makes_the_next_failure_the_first_again():
    clock = FakeClock()
    server = Server(clock)

    async def live_then_break(_: str) -> AsyncGenerator[WatchEvent, None]:
        await clock.sleep(10 * SECOND)
        raise OutcomeUnknown("cut")
        yield  # the mark of a generator

    server.fallback = live_then_break
    async with reflecting(server):
        await clock.advance(40 * SECOND)
    starts = [round(at - 1000, 1) for at, _ in server.watches]
    assert starts == [0.0, 10.8, 21.6, 32.4]


async def test_the_wait_that_the_server_asked_for_is_kept():
    server = Server(FakeClock())
    server.listing = Throttled(429, "", "later", 9 * SECOND)
    async with reflecting(server):
        await server.clock.advance(10 * SECOND)
    assert server.lists == [1000.0, 1009.0]


async def test_a_list_on_demand_ends_the_watch():
    server = Server(FakeClock())
    told: list[Sighting] = []
    async with reflecting(server, told) as reflector:
        await server.clock.advance(5 * SECOND)
        reflector.relist()
        await server.clock.settle()
    assert server.lists == [1000.0, 1005.0]
    assert [type(sighting) for sighting in told] == [Synced, Synced]


@pytest.mark.parametrize("is_answered_first", [True, False])
async def test_a_list_under_way_is_not_told_to_who_asked_for_one_since(is_answered_first: bool):
    clock = FakeClock()
    server = Server(clock)
    release = asyncio.Event()

    async def list_slowly(*_: Any, **__: Any) -> Listing:
        server.lists.append(clock.monotonic())
        if len(server.lists) == 1:
            await release.wait()
        return Listing((), "10")

    server.list = list_slowly  # type: ignore[method-assign]
    told: list[Sighting] = []
    async with reflecting(server, told) as reflector:
        await clock.advance(SECOND)
        if is_answered_first:
            release.set()
        reflector.relist()
        await clock.settle()
    assert server.lists == [1000.0, 1001.0]
    assert [s.begun for s in told if isinstance(s, Synced)] == [1001.0]


@pytest.mark.parametrize("contact", ["an event", "a watch that lived"])
async def test_a_watch_that_breaks_is_told_as_cut_until_it_is_heard_again(contact: str):
    clock = FakeClock()
    server = Server(clock)

    async def be_heard(_: str) -> AsyncGenerator[WatchEvent, None]:
        await clock.sleep(9 * SECOND)
        if contact == "an event":
            yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
            await asyncio.Event().wait()

    server.watching = [fail(OutcomeUnknown("cut")), fail(Unreachable("away")), be_heard]
    told: list[Sighting] = []
    async with reflecting(server, told):
        await clock.advance(5 * SECOND)
        assert [type(sighting) for sighting in told] == [Synced, Cut]
        await clock.advance(15 * SECOND)
    assert told[1:] == [Cut(PODS, None), Resumed(PODS, None, server.watches[2][0] + 9)]


async def test_a_watch_that_was_well_and_breaks_is_no_cut_yet():
    """A proxy may end each connection that was idle for a while."""
    clock = FakeClock()
    server = Server(clock)

    async def be_ended(_: str) -> AsyncGenerator[WatchEvent, None]:
        await clock.sleep(50 * SECOND)
        raise Truncated("by a proxy")
        yield  # the mark of a generator

    server.fallback = be_ended
    told: list[Sighting] = []
    async with reflecting(server, told):
        await clock.advance(600 * SECOND)
        assert [type(sighting) for sighting in told] == [Synced]
        assert len(server.watches) == 12
        server.fallback = fail(Truncated("at once"))
        await clock.advance(60 * SECOND)
        assert [type(sighting) for sighting in told] == [Synced, Cut]
        server.fallback = be_ended
        await clock.advance(100 * SECOND)
    assert [type(sighting) for sighting in told] == [Synced, Cut, Resumed]


@pytest.mark.parametrize("error", [OutcomeUnknown("no answer"), Unreachable("away")], ids=str)
async def test_one_that_was_never_answered_is(error: KubeError):
    """A proxy may hold a connection for a while when there is no server behind it."""
    clock = FakeClock()
    server = Server(clock)

    async def be_held(_: str) -> AsyncGenerator[WatchEvent, None]:
        await clock.sleep(20 * SECOND)
        raise error
        yield  # the mark of a generator

    server.fallback = be_held
    told: list[Sighting] = []
    async with reflecting(server, told):
        await clock.advance(30 * SECOND)
    assert [type(sighting) for sighting in told] == [Synced, Cut]


async def test_one_that_had_said_nothing_for_longer_than_it_may_is():
    clock = FakeClock()
    server = Server(clock)

    async def fall_silent(_: str) -> AsyncGenerator[WatchEvent, None]:
        yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
        await clock.sleep(70 * SECOND)
        raise Truncated("silent for 70 s")

    server.fallback = fall_silent
    told: list[Sighting] = []
    async with reflecting(server, told):
        await clock.advance(70 * SECOND)
    assert [type(sighting) for sighting in told] == [Synced, Cut]


async def test_a_list_ends_a_cut_by_itself():
    server = Server(FakeClock())
    server.watching = [fail(Expired(410, "Expired", "too old"))]
    told: list[Sighting] = []
    async with reflecting(server, told):
        await server.clock.advance(60 * SECOND)
    assert [type(sighting) for sighting in told] == [Synced, Cut, Synced]


async def test_a_list_that_is_older_than_what_was_told_is_of_a_server_that_was_set_back():
    server = Server(FakeClock())
    server.version = 900
    told: list[Sighting] = []
    async with reflecting(server, told) as reflector:
        for version in (900, 500, 510):
            server.version = version
            reflector.relist()
            await server.clock.settle()
    lists = [s for s in told if isinstance(s, Synced)]
    assert [(s.version, s.is_set_back) for s in lists] == [
        ("900", False),
        ("900", False),
        ("500", True),
        ("510", False),
    ]


async def test_a_list_that_is_older_than_earlier_answers_is_of_a_server_that_was_set_back():
    server = Server(FakeClock())
    server.version = 900
    known = [0]
    told: list[Sighting] = []
    async with reflecting(server, told, find_newest=known.pop) as reflector:
        for answered, version in ((900, 900), (940, 930)):
            known.append(answered)
            server.version = version
            reflector.relist()
            await server.clock.settle()
    lists = [s for s in told if isinstance(s, Synced)]
    assert [s.is_set_back for s in lists] == [False, False, True]


async def test_what_is_answered_while_a_list_is_on_its_way_is_no_measure_of_it():
    server = Server(FakeClock())
    server.version = 900
    known = [0]
    list_now = server.list

    async def answer_meanwhile(*place: Any, **ways: Any) -> Any:
        known[0] = 940
        return await list_now(*place, **ways)

    server.list = answer_meanwhile  # type: ignore[method-assign]
    told: list[Sighting] = []
    async with reflecting(server, told, find_newest=lambda: known[0]):
        pass
    assert [s.is_set_back for s in told if isinstance(s, Synced)] == [False]


async def test_an_event_that_is_older_than_what_was_told_is_not_told_but_followed_by_a_list():
    server = Server(FakeClock())
    server.version = 900
    server.watching = [tell(WatchEvent("MODIFIED", make_pod("a", 510)))]
    told: list[Sighting] = []
    async with reflecting(server, told):
        server.version = 520
        await server.clock.advance(2 * SECOND)
    assert [type(sighting) for sighting in told] == [Synced, Cut, Synced]
    assert told[-1].is_set_back  # type: ignore[union-attr]
    assert [version for _, version in server.watches] == ["900", "520"]


async def test_a_watch_that_says_nothing_at_all_is_followed_by_a_list():
    clock = FakeClock()
    server = Server(clock)

    async def be_silent(_: str) -> AsyncGenerator[WatchEvent, None]:
        await clock.sleep(70 * SECOND)
        raise OutcomeUnknown("silent for 70 s")
        yield  # the mark of a generator

    server.version = 900
    server.watching = [be_silent]
    told: list[Sighting] = []
    async with reflecting(server, told):
        server.version = 520
        await clock.advance(80 * SECOND)
    assert len(server.lists) == 2
    assert told[-1].is_set_back  # type: ignore[union-attr]


async def test_the_last_contact_moves_with_every_event():
    clock = FakeClock()
    server = Server(clock)

    async def speak(version: str) -> AsyncGenerator[WatchEvent, None]:
        await clock.sleep(60 * SECOND)
        yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
        async for event in stay(version):
            yield event

    server.fallback = speak
    async with reflecting(server) as reflector:
        assert reflector.last_contact == 1000.0
        await clock.advance(90 * SECOND)
        assert reflector.last_contact == 1060.0


@pytest.mark.usefixtures("quiet_logs")
@pytest.mark.parametrize("where", ["list", "watch"])
async def test_a_defect_met_with_an_answer_is_counted_and_met_with_a_new_list(where: str):
    server = Server(FakeClock())
    defects: list[str] = []
    error = RecursionError("too deep")
    if where == "list":
        server.listing = error
    else:
        server.watching = [fail(error)]
    async with reflecting(server, on_defect=lambda: defects.append(where)) as reflector:
        server.listing = None
        await server.clock.advance(SECOND)
        assert reflector.is_synced
    assert defects == [where]
    assert (len(server.lists), server.watches[-1][1]) == (2, "10")
