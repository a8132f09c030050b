"""The relay between the host's loopback port and the API server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from devcluster import checks, relay

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HOST = "127.0.0.1"


@contextlib.asynccontextmanager
async def relaying(handler: Handler, port: int = 0) -> AsyncIterator[tuple[int, int]]:
    """Serve with ``handler`` behind a relay; the port of the relay and that of the server."""
    server = await asyncio.start_server(handler, HOST, port)
    target = server.sockets[0].getsockname()[1]
    listener = checks.listen(None)
    listener.setblocking(False)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(relay.relay(listener, HOST, target))
        try:
            yield listener.getsockname()[1], target
        finally:
            task.cancel()
            server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_bytes_come_back_whole_after_the_sender_closed_its_half() -> None:
    content = bytes(range(256)) * 8192
    async with relaying(echo) as (port, _):
        reader, writer = await asyncio.open_connection(HOST, port)

        async def send() -> None:
            writer.write(content)
            await writer.drain()
            writer.write_eof()

        _, received = await asyncio.gather(send(), reader.read(-1))
        writer.close()
    assert received == content


async def test_the_server_may_go_on_after_its_client_closed_its_half() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count = len(await reader.read(-1))
        await asyncio.sleep(0.05)
        writer.write(str(count).encode())
        writer.close()

    async with relaying(answer) as (port, _):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"12345")
        writer.write_eof()
        assert await reader.read(-1) == b"5"
        writer.close()


@pytest.mark.long
async def test_many_connections_are_served_at_once() -> None:
    async with relaying(echo) as (port, _):

        async def talk(number: int) -> bytes:
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(str(number).encode())
            writer.write_eof()
            data = await reader.read(-1)
            writer.close()
            return data

        answers = await asyncio.gather(*(talk(number) for number in range(200)))
    assert answers == [str(number).encode() for number in range(200)]


async def test_without_a_server_a_connection_is_closed_and_with_one_again_served() -> None:
    with socket.socket() as free:
        free.bind((HOST, 0))
        target = free.getsockname()[1]
    listener = checks.listen(None)
    listener.setblocking(False)
    port = listener.getsockname()[1]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(relay.relay(listener, HOST, target))
        reader, writer = await asyncio.open_connection(HOST, port)
        assert await reader.read(-1) == b""
        writer.close()
        server = await asyncio.start_server(echo, HOST, target)
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"again")
        writer.write_eof()
        assert await reader.read(-1) == b"again"
        writer.close()
        server.close()
        task.cancel()


async def test_a_client_that_breaks_off_ends_the_connection_to_the_server() -> None:
    ended = asyncio.Event()

    async def wait_for_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read(-1)
        ended.set()
        writer.close()

    async with relaying(wait_for_end) as (port, _):
        _, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"x")
        await writer.drain()
        writer.transport.abort()
        await asyncio.wait_for(ended.wait(), 5)
