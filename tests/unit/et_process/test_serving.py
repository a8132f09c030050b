import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from et_operator.measuring import Metrics
from et_process.serving import MOST_CONNECTIONS, Pages, build_app, serve


async def read(path: str, *, trouble: str = "") -> tuple[int, str]:
    metrics = Metrics()
    app = build_app(
        metrics,
        healthy=lambda: "",
        ready=lambda: trouble,
        refresh=lambda: metrics.queue_depth.set(3),
    )
    async with TestClient(TestServer(app)) as client:
        answer = await client.get(path)
        return answer.status, await answer.text()


async def test_health_and_readiness_are_two_questions() -> None:
    assert await read("/healthz", trouble="no lists yet") == (200, "ok")
    assert await read("/readyz", trouble="no lists yet") == (503, "no lists yet")
    assert await read("/readyz") == (200, "ok")


async def test_gauges_are_brought_up_to_date_before_they_are_read() -> None:
    status, text = await read("/metrics")

    assert status == 200
    assert "et_operator_workqueue_depth 3.0" in text


async def test_a_watch_is_counted_but_its_life_is_not_a_duration() -> None:
    metrics = Metrics()
    metrics.note_request("watch", "pods", 200, 300.0)
    metrics.note_request("get", "pods", 0, 0.1)

    text = metrics.render().decode()

    assert 'et_operator_api_requests_total{code="200",resource="pods",verb="watch"} 1.0' in text
    assert 'et_operator_api_request_seconds_count{resource="pods",verb="get"} 1.0' in text
    assert 'verb="watch"' not in "".join(x for x in text.splitlines() if "_seconds" in x)


@pytest.mark.usefixtures("quiet_logs")
async def test_gauges_that_cannot_be_read_do_not_take_the_other_metrics_with_them() -> None:
    metrics = Metrics()

    def refresh() -> None:
        raise KeyError("nobody foresaw this")

    app = build_app(metrics, healthy=lambda: "", ready=lambda: "", refresh=refresh)
    async with TestClient(TestServer(app)) as client:
        answer = await client.get("/metrics")
        text = await answer.text()
    assert answer.status == 200
    assert 'et_operator_defects_total{part="metrics"} 1.0' in text


@pytest.mark.long
async def test_who_opens_connections_without_end_takes_the_place_of_his_own() -> None:
    app = build_app(Metrics(), healthy=lambda: "", ready=lambda: "", refresh=lambda: None)
    async with serve_here(app, most=64) as port:
        crowd = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS + 200)
        ]
        answer = await ask(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        gone = [reader.at_eof() or reader.exception() is not None for reader, _ in crowd]
        for _, writer in crowd:
            writer.transport.abort()
    assert answer.startswith(b"HTTP/1.1 200")
    assert len(gone) - sum(gone) < 64
    assert not any(gone[-8:])


@pytest.mark.long
async def test_who_asks_at_once_is_answered_however_many_come_with_him() -> None:
    app = build_app(Metrics(), healthy=lambda: "", ready=lambda: "", refresh=lambda: None)
    async with serve_here(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(20):
            answer = await reader.read()
        for _, other in [(reader, writer), *crowd]:
            other.transport.abort()
    assert answer.startswith(b"HTTP/1.1 200")


async def test_a_connection_answers_one_request_however_many_were_sent() -> None:
    app = build_app(Metrics(), healthy=lambda: "", ready=lambda: "", refresh=lambda: None)
    async with serve_here(app) as port:
        for path in (b"/metrics", b"/healthz", b"/unknown"):
            answer = await ask(port, b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path * 50)
            assert answer.count(b"HTTP/1.1 ") == 1


def test_metrics_are_rendered_once_a_second_whoever_asks() -> None:
    metrics, refreshed = Metrics(), []
    pages = Pages(metrics, lambda: refreshed.append(1))
    texts = [pages.render(now) for now in (5.0, 5.1, 5.9, 6.0, 6.2)]
    assert len(refreshed) == 2
    assert texts[0] is texts[2]


@asynccontextmanager
async def serve_here(app: web.Application, most: int = MOST_CONNECTIONS) -> AsyncIterator[int]:
    """On a free port of all addresses, of which IPv4's is told."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        free = probe.getsockname()[1]
    async with serve(app, free, most=most) as port:
        yield port


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.transport.abort()
