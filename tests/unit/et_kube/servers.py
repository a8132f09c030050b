"""A server on the loopback interface that a test scripts, and a connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

from et_kube.connecting import Connection, open_session

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def authorize() -> Mapping[str, str]:
    return {"Authorization": "Bearer planted"}


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Connection]:
    """A connection to a server which gives every request to `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    server = TestServer(app, skip_url_asserts=True)
    await server.start_server(shutdown_timeout=0.1)
    try:
        async with open_session() as session:
            yield Connection(session, str(server.make_url("")).rstrip("/"), "default", authorize)
    finally:
        await server.close()
