"""/healthz, /readyz and /metrics on one port, for kubelet and Prometheus.

Where no NetworkPolicy says otherwise, every pod of the cluster reaches this port, and needs no
right for that. So what it can cost is bounded: connections, requests on each, renderings.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
from aiohttp import web

from et_process.measuring import Measures

log = structlog.get_logger()

Check = Callable[[], str]
"""Says what is wrong in a sentence, "" when nothing is."""

MOST_CONNECTIONS = 512
"""Beyond these the oldest is closed. The loop takes a hundred at once: who asks at once, as a
kubelet does, must be answered before so many others have come."""
FRESH_SECONDS = 1.0
"""So long metrics that were rendered are given to whoever asks."""


def build_app(
    metrics: Measures, *, healthy: Check, ready: Check, refresh: Callable[[], None]
) -> web.Application:
    """The three pages. A check that has something to say answers 503 with its words.

    `refresh` is called before the metrics are rendered, to set what is counted only then.
    """
    pages = Pages(metrics, refresh)

    async def answer_health(_: web.Request) -> web.Response:
        return answer_check(healthy())

    async def answer_ready(_: web.Request) -> web.Response:
        return answer_check(ready())

    async def answer_metrics(_: web.Request) -> web.Response:
        body = pages.render(asyncio.get_running_loop().time())
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4"})

    app = web.Application()
    app.on_response_prepare.append(hang_up_after)
    app.router.add_get("/healthz", answer_health)
    app.router.add_get("/readyz", answer_ready)
    app.router.add_get("/metrics", answer_metrics)
    return app


class Pages:
    """The metrics as text, rendered once for all who ask within a second."""

    def __init__(self, metrics: Measures, refresh: Callable[[], None]) -> None:
        self._metrics = metrics
        self._refresh = refresh
        self._rendered: tuple[float, bytes] | None = None

    def render(self, now: float) -> bytes:
        """The text, at most FRESH_SECONDS old; `now` is the loop's clock."""
        if self._rendered is None or now - self._rendered[0] >= FRESH_SECONDS:
            try:
                self._refresh()
            except Exception:  # what is counted elsewhere is still worth a scrape
                log.exception("gauges not refreshed")
                self._metrics.defects.labels("metrics").inc()
            self._rendered = (now, self._metrics.render())
        return self._rendered[1]


async def hang_up_after(_: web.Request, response: web.StreamResponse) -> None:
    """One request a connection: what else was sent on it is not answered."""
    response.force_close()


def answer_check(trouble: str) -> web.Response:
    """200 ok, or 503 with the trouble in words."""
    return web.Response(text=trouble or "ok", status=503 if trouble else 200)


class Door:
    """Lets connections in, the newest ones; what a server's protocol factory is."""

    def __init__(self, server: web.Server, most: int) -> None:
        self._server = server
        self._most = most

    def __call__(self) -> asyncio.Protocol:
        """Who comes next; raises nothing."""
        known = self._server.connections
        for oldest in known[: max(len(known) - self._most + 1, 0)]:
            if oldest.transport is not None:
                oldest.transport.abort()  # whoever reads nothing would keep a closed one open
        return self._server()


@asynccontextmanager
async def serve(
    app: web.Application, port: int, *, most: int = MOST_CONNECTIONS
) -> AsyncIterator[int]:
    """Listen on all addresses while the context lasts; yields the port (0 asks for a free one).

    `most` is how many connections are held at once.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    assert runner.server is not None  # noqa: S101 (it is there after setup)
    listener = None
    try:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(Door(runner.server, most), port=port)
        yield listener.sockets[0].getsockname()[1]
    finally:
        if listener is not None:
            listener.close()
        await runner.cleanup()
