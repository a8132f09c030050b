"""Answers of an API server that somebody's object has spoiled."""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from et_kube.errors import Unreadable
from et_kube.resources import PODS, Ref
from et_kube.rest import Limits, Rest
from tests.unit.et_kube.servers import Handler, serving

POD = Ref(PODS, "team", "a")
DEEP = '{"a":[' * 4000 + "1" + "]}" * 4000


@asynccontextmanager
async def rest(handler: Handler, **limits: Any) -> AsyncIterator[Rest]:
    async with serving(handler) as connection:
        yield Rest(connection, limits=Limits(**limits))


def make_text(name: str, extra: str = "1") -> str:
    return '{"metadata":{"name":"%s","resourceVersion":"5"},"extra":%s}' % (name, extra)  # noqa: UP031


def answering(text: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=text.encode(), content_type="application/json")

    return answer


async def watch(api: Rest) -> list[str]:
    stream = api.watch(PODS, None, resource_version="1", timeout=timedelta(minutes=1))
    async with aclosing(stream):
        return [event.object["metadata"]["name"] async for event in stream]


async def test_an_object_that_is_nested_too_deep_keeps_no_other_out_of_a_list():
    items = ",".join([make_text("a"), make_text("deep", DEEP), "null", make_text("b")])
    text = '{"metadata":{"resourceVersion":"9"},"items":[' + items + "]}"
    async with rest(answering(text)) as api:
        listing = await api.list(PODS, None)
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "deep", "b"]
    assert listing.resource_version == "9"


async def test_an_object_that_is_nested_too_deep_ends_no_watch():
    lines = [f'{{"type":"ADDED","object":{make_text("a", extra)}}}\n' for extra in (DEEP, "1")]
    async with rest(answering("".join(lines))) as api:
        assert await watch(api) == ["a", "a"]


async def test_what_is_no_character_is_read_as_one():
    async with rest(answering(make_text("a", r'["\ud800", "\ud83d\ude00"]'))) as api:
        assert (await api.get(POD))["extra"] == ["\ufffd", "\U0001f600"]


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones():
    sizes = {f"pod-{n}": 9000 if n in {3, 4} else 10 for n in range(12)}
    asked: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        begin, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        asked.append(limit)
        names = list(sizes)[begin : begin + limit]
        token = str(begin + limit) if begin + limit < len(sizes) else ""
        items = [json.loads(make_text(name, json.dumps("x" * sizes[name]))) for name in names]
        meta = {"resourceVersion": "9", "continue": token}
        return web.json_response({"metadata": meta, "items": items})

    async with rest(answer, page=8, page_body=10_000) as api:
        listing = await api.list(PODS, None)
    assert [item["metadata"]["name"] for item in listing.items] == list(sizes)
    assert asked == [8, 1, 2, 4, 1, 2, 4, 8]


@pytest.mark.long
async def test_a_page_of_too_many_values_is_asked_for_in_smaller_ones_and_held_alone():
    """Small values take forty times as much in Python as their text."""
    asked: list[int] = []
    held: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        begin, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        asked.append(limit)
        known = [o for o in gc.get_objects() if isinstance(o, dict) and "extra" in o]
        mine = [o for o in known if "held-" in str(o.get("metadata"))]  # not other tests'
        held.append(len(mine))
        texts = [make_text(f"held-{n}", "[" + "[]," * 400 + "[]]") for n in range(begin, 6)[:limit]]
        meta = '{"resourceVersion":"9","continue":"%s"}' % (
            begin + limit if begin + limit < 6 else ""
        )
        text = '{"metadata":%s,"items":[%s]}' % (meta, ",".join(texts))  # noqa: UP031
        return web.Response(body=text.encode(), content_type="application/json")

    async with rest(answer, page=4, page_values=1000) as api:
        listing = await api.list(PODS, None, keep=lambda pod: pod["metadata"]["name"])
    assert listing.items == tuple(f"held-{n}" for n in range(6))
    assert asked == [4, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]
    assert not any(held)


@pytest.mark.long
@pytest.mark.parametrize("verb", ["get", "list", "watch"])
async def test_the_largest_object_that_an_api_server_stores_is_read(verb: str):
    """etcd takes 1.5 MiB of it, and Go's JSON has six bytes for each of these."""
    largest = json.dumps("<" * (3 * 2**19)).replace("<", r"\u003c")
    obj = make_text("a", largest)
    page = '{"metadata":{"resourceVersion":"9"},"items":[%s]}' % obj  # noqa: UP031
    event = '{"type":"ADDED","object":%s}\n' % obj  # noqa: UP031
    text = {"get": obj, "list": page, "watch": event}[verb]
    async with rest(answering(text)) as api:
        if verb == "watch":
            assert await watch(api) == ["a"]
        elif verb == "list":
            assert [item["metadata"]["name"] for item in (await api.list(PODS, None)).items] == [
                "a"
            ]
        else:
            assert len((await api.get(POD))["extra"]) == 3 * 2**19


@pytest.mark.parametrize("verb", ["get", "list"])
async def test_an_object_that_is_larger_than_any_is_not_read(verb: str):
    async with rest(
        answering(make_text("a", json.dumps("x" * 5000))), body=4000, page_body=4000
    ) as api:
        with pytest.raises(Unreadable, match="more than 4000 bytes"):
            await (api.get(POD) if verb == "get" else api.list(PODS, None))


async def test_a_line_that_does_not_end_is_not_gathered_for_ever():
    async with rest(answering('{"type":"' + "x" * 1_000_000), body=4000) as api:
        with pytest.raises(Unreadable, match="not a watch event"):
            await watch(api)


async def test_a_line_of_a_log_that_does_not_end_comes_in_pieces():
    text = "x" * 5_000_000
    async with rest(answering(text)) as api, aclosing(api.read_log(POD, {})) as lines:
        pieces = [line async for line in lines]
    assert b"".join(pieces) == text.encode()
    assert max(map(len, pieces)) < 2_000_000
