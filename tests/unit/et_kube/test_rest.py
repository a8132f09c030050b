from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from et_kube.api import APPLY_PATCH, WatchEvent
from et_kube.connecting import Connection
from et_kube.errors import (
    Conflict,
    Expired,
    NotFound,
    NotLeader,
    OutcomeUnknown,
    Refused,
    ServerFailed,
    Throttled,
    Truncated,
    Unauthorized,
    Unreachable,
    Unreadable,
)
from et_kube.resources import CONFIG_MAPS, NODES, PODS, ROLES, TRAINING_JOBS, Json, Ref
from et_kube.rest import MOST_LISTS, PAGES, Limits, Rest, read_lines
from tests.counting import find_peak
from tests.unit.et_kube.servers import Handler, authorize, serving

POD = Ref(PODS, "team", "w-1")
QUICK = Limits(silence=timedelta(seconds=0.2), call=timedelta(seconds=0.5))
MINUTE = timedelta(minutes=1)


@asynccontextmanager
async def rest(handler: Handler, **options: Any) -> AsyncIterator[Rest]:
    async with serving(handler) as connection:
        yield Rest(connection, **options)


def make_pod(name: str, version: int) -> dict:
    return {
        "metadata": {
            "name": name,
            "resourceVersion": str(version),
            "managedFields": [{"manager": "x"}],
        }
    }


def make_line(kind: str, obj: dict) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


async def collect(api: Rest) -> list[WatchEvent]:
    stream = api.watch(PODS, "team", resource_version="5", timeout=MINUTE)
    async with aclosing(stream):
        return [event async for event in stream]


async def test_a_list_takes_all_pages_of_one_version():
    queries = []

    async def answer(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        is_last = "continue" in request.query
        meta = {"resourceVersion": "9"} if is_last else {"resourceVersion": "9", "continue": "c"}
        name = "b" if is_last else "a"
        return web.json_response({"metadata": meta, "items": [make_pod(name, 1)]})

    async with rest(answer, limits=Limits(page=1)) as api:
        listing = await api.list(PODS, "team", label_selector="a=b", resource_version="0")
    assert listing.resource_version == "9"
    assert [pod["metadata"] for pod in listing.items] == [
        {"name": "a", "resourceVersion": "1"},
        {"name": "b", "resourceVersion": "1"},
    ]
    assert {(pod["apiVersion"], pod["kind"]) for pod in listing.items} == {("v1", "Pod")}
    assert queries == [
        {"limit": "1", "labelSelector": "a=b", "resourceVersion": "0"},
        {"limit": "1", "labelSelector": "a=b", "continue": "c"},
    ]


async def test_of_each_page_no_more_is_kept_than_was_asked_for():
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        number = int(request.query.get("continue", "0"))
        seen.append(f"page {number}")
        meta = {"resourceVersion": "9", "continue": str(number + 1) if number < 2 else ""}
        return web.json_response({"metadata": meta, "items": [make_pod(f"w{number}", 1)]})

    def keep(pod: Json) -> str:
        seen.append(pod["metadata"]["name"])
        return str(pod["kind"])

    async with rest(answer) as api:
        listing = await api.list(PODS, "team", keep=keep)
    assert listing.items == ("Pod",) * 3
    assert seen == ["page 0", "w0", "page 1", "w1", "page 2", "w2"]


async def test_between_two_objects_of_a_page_all_others_have_their_turn_but_other_pages():
    turns = 0
    seen: list[tuple[str, int]] = []

    async def answer(request: web.Request) -> web.Response:
        names = [f"{request.path.split('/')[-2]}-{number}" for number in range(5)]
        items = [make_pod(name, 1) for name in names]
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": items})

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def keep(pod: Json) -> None:
        seen.append((pod["metadata"]["name"], turns))

    async with rest(answer) as api, asyncio.TaskGroup() as group:
        others = group.create_task(take_turns())
        await asyncio.gather(*(api.list(PODS, name, keep=keep) for name in ("a", "b")))
        others.cancel()
    assert all(after > before for (_, before), (_, after) in itertools.pairwise(seen))
    assert len({name[0] for name, _ in seen[:5]}) == 1


def test_of_many_lists_no_more_pages_are_held_than_of_a_few():
    body = json.dumps({"metadata": {"resourceVersion": "9"}, "items": ["x" * 50_000]}).encode()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body)

    async def list_all(count: int) -> None:
        async with rest(answer) as api, asyncio.TaskGroup() as group:
            other = api.guarded(lambda: None)
            for number in range(count):
                one = other if number % 2 else api
                group.create_task(one.list(PODS, f"n{number}", keep=lambda _: None))

    few, many = (find_peak(partial(asyncio.run, list_all(count))) for count in (PAGES, 40))
    assert many < few + 36 * len(body) / 2


async def answer_unless_it_hangs(request: web.Request) -> web.Response:
    if "/hangs" in request.path:
        await asyncio.sleep(MINUTE.total_seconds())
    return web.json_response({"metadata": {"resourceVersion": "9"}, "items": []})


async def list_hanging(api: Rest, number: int) -> None:
    while True:
        with suppress(OutcomeUnknown, Unreachable):
            await api.list(PODS, f"hangs{number}")


@pytest.mark.parametrize(
    ("hanging", "listing"), [(PAGES - 1, MINUTE), (2 * PAGES, timedelta(seconds=0.3))]
)
async def test_lists_whose_answers_hang_stop_no_other(hanging: int, listing: timedelta):
    """A few have places of their own; many give them up in time, which is not that of others."""
    async with (
        rest(answer_unless_it_hangs, limits=Limits(listing=listing)) as api,
        asyncio.TaskGroup() as group,
    ):
        tasks = [group.create_task(list_hanging(api, number)) for number in range(hanging)]
        async with asyncio.timeout(MINUTE.total_seconds() / 2):
            await asyncio.gather(*(api.list(PODS, f"n{number}") for number in range(3 * PAGES)))
        for task in tasks:
            task.cancel()


async def test_between_two_events_all_others_have_their_turn():
    turns = 0
    lines = b"".join(make_line("ADDED", make_pod(f"w-{number}", number)) for number in range(1, 99))

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=lines)

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with rest(answer) as api, asyncio.TaskGroup() as group:
        others = group.create_task(take_turns())
        async with aclosing(api.watch(PODS, "a", resource_version="0", timeout=MINUTE)) as stream:
            seen = [turns async for _ in stream]
        others.cancel()
    assert len(set(seen)) == len(seen) == 98


async def test_a_list_whose_next_page_expired_is_taken_in_one_page():
    async def answer(request: web.Request) -> web.Response:
        if "continue" in request.query:
            return web.json_response({"reason": "Expired"}, status=410)
        meta = {"resourceVersion": "9"}
        if "limit" in request.query:
            return web.json_response({"metadata": {**meta, "continue": "c"}, "items": []})
        return web.json_response({"metadata": meta, "items": [make_pod("a", 1)]})

    async with rest(answer) as api:
        assert len((await api.list(PODS, None)).items) == 1


async def test_one_page_of_all_is_no_larger_than_a_few():
    """Of objects that anybody may have made without number it would be all of them at once."""

    async def answer(request: web.Request) -> web.Response:
        if "continue" in request.query:
            return web.json_response({"reason": "Expired"}, status=410)
        meta = {"resourceVersion": "9", "continue": "c" if "limit" in request.query else ""}
        items = [make_pod(f"w-{number}", 1) for number in range(1 if meta["continue"] else 100)]
        return web.json_response({"metadata": meta, "items": items})

    for size, is_read in ((4000, True), (1000, False)):
        async with rest(answer, limits=Limits(page_body=size)) as api:
            with nullcontext() if is_read else pytest.raises(Unreadable):
                await api.list(PODS, None)


@pytest.mark.parametrize("count", [20, 200])
async def test_a_list_that_takes_longer_than_its_tokens_live_comes_to_its_end(count: int):
    """Where looking at its objects is what takes so long: each is looked at once."""
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        query = request.query
        begin, token = int(query.get("continue") or 0), query.get("continue")
        if token and len(seen) - looked[0] > 5:
            looked[0] = len(seen)
            return web.json_response({"reason": "Expired"}, status=410)
        end = min(begin + int(query.get("limit") or count), count)
        meta = {"resourceVersion": "9", "continue": "" if end == count else str(end)}
        items = [make_pod(f"w-{number}", 1) for number in range(begin, end)]
        for item in items:
            item["metadata"]["uid"] = item["metadata"]["name"]
        return web.json_response({"metadata": meta, "items": items})

    looked = [0]
    limits = Limits(page=2, page_body=500, whole=1)

    def look(pod: Json) -> Json:
        seen.append(pod["metadata"]["name"])
        return pod

    async with rest(answer, limits=limits) as api:
        listing = await api.list(PODS, None, keep=look)
    assert len(listing.items) == count
    assert sorted(seen) == sorted({f"w-{number}" for number in range(count)})


async def test_a_list_that_comes_no_nearer_to_its_end_is_given_up():
    lists = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal lists
        if "continue" in request.query:
            return web.json_response({"reason": "Expired"}, status=410)
        if "limit" in request.query:
            lists += 1
        meta = {"resourceVersion": "9", "continue": "c"}
        count = 2 if "limit" in request.query else 99
        items = [make_pod(f"w-{number}", 1) for number in range(count)]
        for item in items:  # somebody writes to them all the time
            item["metadata"].update(uid=item["metadata"]["name"], resourceVersion=str(lists))
        return web.json_response({"metadata": meta, "items": items})

    limits = Limits(page=2, page_body=1000, whole=1)
    async with rest(answer, limits=limits) as api:
        for keep in (dict, lambda _: None):
            lists = 0
            with pytest.raises(Unreadable):
                await api.list(PODS, None, keep=keep)
            assert lists == MOST_LISTS


@pytest.mark.parametrize(
    ("ref", "path"),
    [
        (POD, "/api/v1/namespaces/team/pods/w-1"),
        (Ref(NODES, "", "n"), "/api/v1/nodes/n"),
        (
            Ref(TRAINING_JOBS, "team", "j"),
            "/apis/kai.alibabacloud.com/v1alpha1/namespaces/team/trainingjobs/j",
        ),
        (
            Ref(ROLES, "team", "a:b"),
            "/apis/rbac.authorization.k8s.io/v1/namespaces/team/roles/a:b",
        ),
    ],
    ids=["core", "cluster-wide", "ours", "colon"],
)
async def test_every_kind_has_its_place(ref: Ref, path: str):
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path})

    async with rest(answer) as api:
        assert await api.get(ref) == {"path": path}


async def test_writes_say_what_they_are():
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(
            (
                request.method,
                request.path.rsplit("/", 2)[-2:],
                request.content_type,
                dict(request.query),
                await request.json(),
            )
        )
        return web.json_response({"metadata": {"managedFields": []}})

    async with rest(answer) as api:
        assert await api.create(PODS, "team", {"a": 1}) == {"metadata": {}}
        await api.patch(POD, {"b": 2}, subresource="status")
        await api.patch(POD, {"c": 3}, content_type=APPLY_PATCH)
        await api.delete(POD, uid="u", resource_version="5", grace_seconds=0)
        await api.delete(POD, uid="u", propagation="Background")
    manager = {"fieldManager": "et-operator"}
    forced = {**manager, "force": "true"}
    options = {"kind": "DeleteOptions", "apiVersion": "v1"}
    pinned = {"preconditions": {"uid": "u", "resourceVersion": "5"}, "gracePeriodSeconds": 0}
    merge = "application/merge-patch+json"
    assert seen == [
        ("POST", ["team", "pods"], "application/json", manager, {"a": 1}),
        ("PATCH", ["w-1", "status"], merge, manager, {"b": 2}),
        ("PATCH", ["pods", "w-1"], "application/apply-patch+yaml", forced, {"c": 3}),
        ("DELETE", ["pods", "w-1"], "application/json", {}, {**options, **pinned}),
        (
            "DELETE",
            ["pods", "w-1"],
            "application/json",
            {},
            {**options, "preconditions": {"uid": "u"}, "propagationPolicy": "Background"},
        ),
    ]


async def test_who_has_which_field_is_read_by_those_who_ask_for_it():
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(make_pod("w-1", 5))

    async with rest(answer) as api:
        assert await api.get_managed(POD) == make_pod("w-1", 5)
        assert "managedFields" not in (await api.get(POD))["metadata"]


@pytest.mark.parametrize("status", [200, 403])
async def test_each_answer_tells_what_time_it_is_there(status: int):
    heard: list[datetime] = []

    async def handle(_: web.Request) -> web.Response:
        body = make_pod("w-1", 1) if status == HTTPStatus.OK else {}
        date = {"Date": "Sun, 06 Nov 1994 08:49:37 GMT"}
        return web.json_response(body, status=status, headers=date)

    async with rest(handle, hear=heard.append) as api:
        with suppress(Refused):
            await api.get(POD)
    assert heard == [datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)]


async def test_what_is_larger_than_a_server_reads_is_refused_and_not_sent():
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response(make_pod("w-1", 1))

    async with rest(handle) as api:
        with pytest.raises(Refused, match="it would have 31457") as caught:
            await api.create(PODS, "team", {"metadata": {"name": "x" * 3 * 2**20}})
        assert caught.value.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        assert asked == []
        await api.create(PODS, "team", {"metadata": {"name": "x" * 2**19}})


@pytest.mark.parametrize("text", ["at night", "Sun, 06 Nov 1994 08:49:37 +99999999999999"])
async def test_what_is_no_time_tells_nothing(text: str):
    heard: list[datetime] = []

    async def handle(_: web.Request) -> web.Response:
        return web.json_response(make_pod("w-1", 1), headers={"Date": text})

    async with rest(handle, hear=heard.append) as api:
        await api.get(POD)
    assert heard == []


async def test_requests_say_who_asks():
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(
            {name: request.headers[name] for name in ("Authorization", "User-Agent")}
        )

    async with rest(answer) as api:
        seen = await api.get(POD)
    assert seen["Authorization"] == "Bearer planted"
    assert seen["User-Agent"].startswith("et-operator/")


async def test_a_refused_request_is_raised_in_the_servers_words():
    async def answer(_: web.Request) -> web.Response:
        body = {"reason": "Conflict", "message": "the object has been modified"}
        return web.json_response(body, status=409)

    async with rest(answer) as api:
        with pytest.raises(Conflict, match="the object has been modified"):
            await api.patch(POD, {})


async def test_a_throttled_request_tells_how_long_to_wait():
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "4"}, text="too many requests")

    async with rest(answer) as api:
        with pytest.raises(Throttled, match="too many requests") as caught:
            await api.get(POD)
    assert caught.value.retry_after == timedelta(seconds=4)


PRIORITY_LEVEL = {
    "Retry-After": "1",
    "X-Kubernetes-PF-FlowSchema-UID": "f",
    "X-Kubernetes-PF-PriorityLevel-UID": "p",
}
"""What priority and fairness adds to the answer to a request that finds its queue full."""


@pytest.mark.parametrize(
    ("status", "headers", "details", "kind", "wait"),
    [
        pytest.param(429, PRIORITY_LEVEL, None, Throttled, 1, id="priority-and-fairness"),
        pytest.param(429, {}, {"retryAfterSeconds": 7}, Throttled, 7, id="in-the-body"),
        pytest.param(503, {"Retry-After": "3"}, None, ServerFailed, 3, id="unavailable"),
    ],
)
async def test_a_write_that_is_put_off_is_sent_once_and_tells_for_how_long(
    status: int, headers: dict[str, str], details: Any, kind: type[Exception], wait: int
):
    calls = []

    async def answer(request: web.Request) -> web.Response:
        calls.append(request.method)
        body = {"kind": "Status", "message": "too many requests", "details": details}
        return web.json_response(body, status=status, headers=headers)

    async with rest(answer) as api:
        with pytest.raises(kind) as caught:
            await api.create(PODS, "team", {})
    assert caught.value.retry_after == timedelta(seconds=wait)  # type: ignore[attr-defined]
    assert calls == ["POST"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]"], ids=["empty", "html", "list"])
async def test_a_success_that_says_nothing_is_an_unknown_outcome(body: bytes):
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with rest(answer) as api:
        with pytest.raises(OutcomeUnknown):
            await api.create(PODS, "team", {})


async def test_a_write_whose_answer_never_comes_has_an_unknown_outcome():
    calls = []

    async def answer(request: web.Request) -> web.Response:
        calls.append(request.method)
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async with rest(answer) as api:
        with pytest.raises(OutcomeUnknown):
            await api.create(PODS, "team", {})
        with pytest.raises(OutcomeUnknown):
            await api.patch(POD, {})
    assert calls == ["POST", "PATCH"]


@pytest.mark.long
async def test_a_server_that_hangs_is_left_after_the_limit():
    async def answer(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with rest(answer, limits=QUICK) as api:
        with pytest.raises(OutcomeUnknown, match="no answer in time"):
            await api.create(PODS, "team", {})


async def test_a_server_that_is_away_is_unreachable():
    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    async with serving(answer) as connection:
        away = Connection(connection.session, "http://127.0.0.1:9", "default", authorize)
        with pytest.raises(Unreachable):
            await Rest(away).create(PODS, "team", {})


async def test_whoever_does_not_lead_may_read_but_sends_no_write():
    seen, counted = [], []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.method)
        return web.json_response({"metadata": {}})

    def refuse() -> None:
        raise NotLeader("lost")

    async with rest(answer, observe=lambda *facts: counted.append(facts)) as api:
        guarded = api.guarded(refuse)
        await guarded.get(POD)
        await guarded.list(PODS, None)
        for write in (
            guarded.create(PODS, "team", {}),
            guarded.patch(POD, {}),
            guarded.delete(POD, uid="u"),
        ):
            with pytest.raises(NotLeader):
                await write
    assert seen == ["GET", "GET"]
    assert len(counted) == 2


async def test_requests_are_counted_by_what_came_of_them():
    counted = []

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            return web.json_response({}, status=201)
        details = {"kind": "pods", "name": POD.name}
        return web.json_response({"reason": "NotFound", "details": details}, status=404)

    observe = lambda verb, resource, code, _: counted.append((verb, resource.plural, code))  # noqa: E731 (one use)
    async with rest(answer, observe=observe) as api:
        await api.create(CONFIG_MAPS, "team", {})
        with pytest.raises(NotFound):
            await api.get(POD)
    assert counted == [("create", "configmaps", 201), ("get", "pods", 404)]


def streaming(*chunks: bytes) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        return response

    return answer


async def test_a_watch_gives_its_events_wherever_the_network_cuts_them():
    big = make_pod("b" * 300_000, 7)
    lines = make_line("ADDED", make_pod("a", 6)) + make_line("MODIFIED", big)
    lines += b"\n" + make_line("BOOKMARK", {"metadata": {"resourceVersion": "8"}})
    cuts = [lines[:10], lines[10:11], lines[11:200_000], lines[200_000:]]
    async with rest(streaming(*cuts)) as api:
        events = await collect(api)
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "BOOKMARK"]
    assert [event.object["metadata"]["resourceVersion"] for event in events] == ["6", "7", "8"]
    assert "managedFields" not in events[0].object["metadata"]


async def test_a_watch_asks_for_bookmarks_and_its_end():
    queries = []

    async def answer(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        return web.Response()

    async with rest(answer) as api:
        assert await collect(api) == []
    assert queries == [
        {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "60",
            "resourceVersion": "5",
        }
    ]


@pytest.mark.parametrize(("code", "kind"), [(410, Expired), (500, ServerFailed), (429, Throttled)])
async def test_an_error_event_is_raised_as_what_it_means(code: int, kind: type[Exception]):
    async with rest(streaming(make_line("ERROR", {"code": code, "message": "old"}))) as api:
        with pytest.raises(kind):
            await collect(api)


@pytest.mark.parametrize(
    "line",
    [
        b"too many requests\n",
        b"[]\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": {}}\n',
        make_line("ADDED", make_pod("a", 6))[:-9],
        make_line("ADDED", {"metadata": []}),
    ],
    ids=["text", "list", "no object", "no version", "cut", "no metadata"],
)
async def test_nonsense_in_a_watch_is_an_error_and_never_an_event(line: bytes):
    async with rest(streaming(line)) as api:
        with pytest.raises(OutcomeUnknown):
            await collect(api)


async def test_a_watch_that_is_refused_is_raised():
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=503, text="shutting down")

    async with rest(answer) as api:
        with pytest.raises(ServerFailed, match="shutting down"):
            await collect(api)


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_watch_that_breaks_tells_whether_it_was_answered(*, is_begun: bool, is_reset: bool):
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if is_begun:
            await response.prepare(request)
        assert request.transport is not None
        if is_reset:
            request.transport.abort()
        else:
            request.transport.close()
        return response

    async with rest(answer) as api:
        with pytest.raises(OutcomeUnknown) as caught:
            await collect(api)
    assert isinstance(caught.value, Truncated) == is_begun


@pytest.mark.long
async def test_a_watch_that_is_silent_for_too_long_is_dead():
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(make_line("ADDED", make_pod("a", 6)))
        await asyncio.Event().wait()
        return response

    async with rest(answer, limits=QUICK) as api:
        stream = api.watch(PODS, None, resource_version="5", timeout=MINUTE)
        async with aclosing(stream):
            assert (await anext(stream)).type == "ADDED"
            with pytest.raises(OutcomeUnknown):
                await anext(stream)


class Chunks:
    """As much of a response as read_lines needs."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.content = self
        self._chunks = chunks

    async def iter_any(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


@pytest.mark.long
@given(st.lists(st.binary(max_size=8).map(lambda b: b.replace(b"\n", b""))), st.data())
def test_lines_do_not_depend_on_the_chunks(lines: list[bytes], data: st.DataObject):
    text = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edges = [0, *cuts, len(text)]
    chunks = [text[a:b] for a, b in itertools.pairwise(edges)]

    async def read() -> list[bytes]:
        return [line async for line in read_lines(Chunks(chunks), 10**6)]  # type: ignore[arg-type]

    assert asyncio.run(read()) == [line for line in lines if line.strip()]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_line_goes_on_after_each_piece_that_is_as_long_as_one_may_be(size: int):
    text = b"1234\n12345\n123456\n\n1234567890\n1"

    async def read() -> list[bytes]:
        chunks = Chunks([text[at : at + size] for at in range(0, len(text), size)])
        return [line async for line in read_lines(chunks, 5)]  # type: ignore[arg-type]

    pieces = [b"1234", b"12345", b"", b"12345", b"6", b"12345", b"67890", b"", b"1"]
    assert asyncio.run(read()) == pieces


def test_a_long_line_that_comes_byte_by_byte_is_not_added_up_each_time():
    async def read() -> list[bytes]:
        chunks = Chunks([b"."] * 20_000)
        return [line async for line in read_lines(chunks, 15_000)]  # type: ignore[arg-type]

    began = time.process_time()
    assert [len(line) for line in asyncio.run(read())] == [15_000, 5_000]
    assert time.process_time() < began + 1


async def test_a_log_is_read_line_by_line_with_the_servers_own_parameters():
    seen: list[tuple[str, dict[str, str]]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.path, dict(request.query)))
        return web.Response(body=b"one\n\ntwo")

    async with rest(handler) as api, aclosing(api.read_log(POD, {"follow": "true"})) as lines:
        assert [line async for line in lines] == [b"one", b"two"]
    assert seen == [("/api/v1/namespaces/team/pods/w-1/log", {"follow": "true"})]


async def test_whoever_writes_says_so_with_every_write():
    seen: list[dict[str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(dict(request.query))
        return web.json_response({"kind": "Pod"})

    writing = {"fieldManager": "et", "fieldValidation": "Strict"}
    async with rest(handler, writing=writing) as api:
        await api.create(PODS, "team", {})
        await api.guarded(lambda: None).patch(POD, {})
        await api.dry_run(PODS, "team", {})

    assert seen == [writing, writing, {**writing, "dryRun": "All"}]


@pytest.mark.parametrize("name", ["", ".", "..", "a/scale", "%2e%2e", "a%2Fscale"])
async def test_what_would_be_the_path_of_something_else_is_never_sent(name: str):
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.raw_path)
        return web.json_response({"kind": "List", "items": []})

    async with rest(handler) as api:
        ref, elsewhere = replace(POD, name=name), replace(POD, namespace=name or ".")
        for place in (ref, elsewhere):
            for work in (api.get(place), api.delete(place, uid="u"), api.patch(place, {})):
                with pytest.raises(Refused, match=r"is no name of a (Pod|Namespace)"):
                    await work
        with pytest.raises(Refused):
            await anext(api.read_log(ref, {}))
        with pytest.raises(Refused):
            await api.list(PODS, name or ".")
    assert seen == []


@pytest.mark.parametrize("is_known_then", [True, False])
async def test_who_is_not_known_any_more_asks_once_more_as_he_is_called_now(*, is_known_then: bool):
    names, seen = ["Bearer old", "Bearer new"], []

    async def handle(request: web.Request) -> web.Response:
        who = request.headers["Authorization"]
        seen.append((who, await request.json()))
        return web.json_response({}, status=200 if who == "Bearer new" and is_known_then else 401)

    async def tell() -> dict[str, str]:
        return {"Authorization": names[0]}

    async def replace_them(refused: Mapping[str, str]) -> bool:
        assert refused == {"Authorization": "Bearer old"}
        del names[0]
        return True

    async with serving(handle) as there:
        api = Rest(replace(there, authorize=tell, replace=replace_them))
        if is_known_then:
            await api.patch(POD, {"a": 1})
        else:
            with pytest.raises(Unauthorized):
                await api.patch(POD, {"a": 1})

    assert seen == [("Bearer old", {"a": 1}), ("Bearer new", {"a": 1})]
