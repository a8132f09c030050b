"""/healthz, /readyz and /metrics on one port, for kubelet and Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from et_operator.runtime.measuring import Metrics

Check = Callable[[], str]
"""Says what is wrong in a sentence, "" when nothing is."""


def build_app(
    metrics: Metrics, *, healthy: Check, ready: Check, refresh: Callable[[], None]
) -> web.Application:
    """The three pages. A check that has something to say answers 503 with its words.

    `refresh` is called before each scrape, to set what is counted only then.
    """

    async def answer_health(_: web.Request) -> web.Response:
        return answer_check(healthy())

    async def answer_ready(_: web.Request) -> web.Response:
        return answer_check(ready())

    async def answer_metrics(_: web.Request) -> web.Response:
        refresh()
        return web.Response(
            body=metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4"}
        )

    app = web.Application()
    app.router.add_get("/healthz", answer_health)
    app.router.add_get("/readyz", answer_ready)
    app.router.add_get("/metrics", answer_metrics)
    return app


def answer_check(trouble: str) -> web.Response:
    """200 ok, or 503 with the trouble in words."""
    return web.Response(text=trouble or "ok", status=503 if trouble else 200)


@asynccontextmanager
async def serve(app: web.Application, port: int) -> AsyncIterator[int]:
    """Listen on all addresses while the context lasts; yields the port (0 asks for a free one)."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, port=port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
