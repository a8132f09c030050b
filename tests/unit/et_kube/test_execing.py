from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta

import pytest
from aiohttp import web

from et_kube.connecting import Connection
from et_kube.errors import (
    KubeError,
    OutcomeUnknown,
    Refused,
    ServerFailed,
    StreamEnded,
    Throttled,
    Unreachable,
)
from et_kube.execing import (
    CLOSE_TIMEOUT,
    KEPT_STDERR,
    PROTOCOLS,
    ExecStream,
    open_exec,
    run_command,
)
from et_kube.resources import PODS, Ref
from tests.unit.et_kube.servers import Handler, authorize, serving

Talk = Callable[[web.WebSocketResponse], Awaitable[None]]


def speaking(talk: Talk, *protocols: str) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(
            protocols=protocols or ("v5.channel.k8s.io", "v4.channel.k8s.io"), timeout=0.1
        )
        await socket.prepare(request)
        await talk(socket)
        await socket.close()
        return socket

    return answer


def exec_into(
    connection: Connection, command: tuple[str, ...] = ("agent", "bridge")
) -> AbstractAsyncContextManager[ExecStream]:
    return open_exec(
        connection,
        "team",
        "w-1",
        container="main",
        command=command,
        timeout=timedelta(seconds=2),
    )


async def test_the_command_is_asked_for_as_it_is():
    seen = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append((request.path, list(request.query.items()), request.headers["Authorization"]))
        return await speaking(echo)(request)

    async with serving(answer) as connection, exec_into(connection, ("sh", "-c", "a & b=c")):
        pass
    wanted = [("container", "main"), ("stdin", "1"), ("stdout", "1"), ("stderr", "1")]
    command = [("command", "sh"), ("command", "-c"), ("command", "a & b=c")]
    path = "/api/v1/namespaces/team/pods/w-1/exec"
    assert seen == [(path, wanted + command, "Bearer planted")]


async def echo(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        await socket.send_bytes(b"\x01" + message.data)


async def test_bytes_go_both_ways_as_they_are():
    async with serving(speaking(echo)) as connection, exec_into(connection) as stream:
        assert stream.protocol == "v5.channel.k8s.io"
        await stream.send(b"caf\xc3")
        assert await stream.receive() == b"\x00caf\xc3"


async def test_an_older_server_is_spoken_to_in_v4():
    handler = speaking(echo, "v4.channel.k8s.io")
    async with serving(handler) as connection, exec_into(connection) as stream:
        assert stream.protocol == "v4.channel.k8s.io"


async def test_a_server_that_speaks_neither_is_left():
    handler = speaking(echo, "channel.k8s.io")
    async with serving(handler) as connection:
        with pytest.raises(OutcomeUnknown, match="speaks none of"):
            async with exec_into(connection):
                pass


async def test_only_output_is_received_and_the_rest_is_kept_for_logs():
    status = {"status": "Failure", "message": "exit code 3"}

    async def talk(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01")
        await socket.send_bytes(b"\x02" + b"x" * KEPT_STDERR)
        await socket.send_bytes(b"\x02no such file\n")
        await socket.send_bytes(b"\xff\x01")
        await socket.send_bytes(b"")
        await socket.send_bytes(b"\x01out")
        await socket.send_bytes(b"\x03" + json.dumps(status).encode())

    async with serving(speaking(talk)) as connection, exec_into(connection) as stream:
        assert await stream.receive() == b"out"
        with pytest.raises(StreamEnded, match=r"code 1000; exit code 3; x+no such file") as caught:
            await stream.receive()
        assert "1000" in caught.value.reason
        assert stream.status == status
        assert len(stream.stderr) == KEPT_STDERR
        with pytest.raises(StreamEnded):
            await stream.receive()
        with pytest.raises(StreamEnded):
            await stream.send(b"late")


@pytest.mark.parametrize("status", [b"not json", b"[1]", b"\xff"], ids=str)
async def test_an_odd_status_ends_nothing(status: bytes):
    async def talk(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x03" + status)
        await socket.send_bytes(b"\x01out")

    async with serving(speaking(talk)) as connection, exec_into(connection) as stream:
        assert await stream.receive() == b"out"
        assert stream.status is not None


async def test_a_connection_that_is_cut_ends_the_stream():
    async def talk(socket: web.WebSocketResponse) -> None:
        assert socket._req is not None
        transport = socket._req.transport
        assert transport is not None
        transport.abort()  # type: ignore[attr-defined]

    async with serving(speaking(talk)) as connection, exec_into(connection) as stream:
        with pytest.raises(StreamEnded, match="closed with code 1006"):
            await stream.receive()


@pytest.mark.parametrize(
    "send",
    [
        lambda socket: socket.send_str("text"),
        lambda socket: socket.send_bytes(b"\x01" + bytes(2**20)),
    ],
    ids=["text", "too long"],
)
async def test_a_server_that_breaks_the_rules_ends_the_stream(
    send: Callable[[web.WebSocketResponse], Awaitable[None]],
):
    async def talk(socket: web.WebSocketResponse) -> None:
        await send(socket)
        await socket.receive()

    async with serving(speaking(talk)) as connection, exec_into(connection) as stream:
        with pytest.raises(StreamEnded):
            await stream.receive()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(403, Refused), (404, ServerFailed), (429, Throttled)],
)
async def test_a_handshake_that_is_refused_is_told_in_the_servers_words(
    status: int, kind: type[KubeError]
):
    words = 'cannot create resource "pods/exec" in API group ""'

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"message": words}, status=status)

    async with serving(answer) as connection:
        with pytest.raises(kind, match="cannot create resource"):
            async with exec_into(connection):
                pass


async def test_a_server_that_ignores_the_upgrade_leaves_the_outcome_unknown():
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    async with serving(answer) as connection:
        with pytest.raises(OutcomeUnknown):
            async with exec_into(connection):
                pass


async def test_a_handshake_has_a_deadline():
    async def answer(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with serving(answer) as connection:
        with pytest.raises(OutcomeUnknown, match="no answer in time"):
            async with open_exec(
                connection,
                "team",
                "w-1",
                container="main",
                command=["true"],
                timeout=timedelta(seconds=0.1),
            ):
                pass


async def test_a_server_that_is_away_is_unreachable():
    async with serving(speaking(echo)) as connection:
        away = Connection(connection.session, "http://127.0.0.1:9", "default", authorize)
        with pytest.raises(Unreachable):
            async with exec_into(away):
                pass


@pytest.mark.parametrize(
    ("status", "is_done"),
    [({"status": "Success"}, True), ({"status": "Failure", "message": "exit code 3"}, False)],
)
async def test_a_command_that_ends_has_printed_something_or_failed(
    status: dict[str, str], *, is_done: bool
):
    async def talk(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x0142")
        await socket.send_bytes(b"\x01\n")
        await socket.send_bytes(b"\x03" + json.dumps(status).encode())

    async with serving(speaking(talk)) as connection:
        asked = run_command(connection, Ref(PODS, "team", "w-1"), container="c", command=["x"])
        if is_done:
            assert await asked == "42\n"
            return
        with pytest.raises(StreamEnded, match="exit code 3"):
            await asked


async def test_of_a_command_that_prints_without_end_nobody_knows_how_it_ended():
    async def talk(socket: web.WebSocketResponse) -> None:
        with suppress(ConnectionError):
            for _ in range(100):
                await socket.send_bytes(b"\x01" + bytes(2**16))

    async with serving(speaking(talk)) as connection:
        with pytest.raises(OutcomeUnknown, match="prints too much"):
            await run_command(connection, Ref(PODS, "team", "w-1"), container="c", command=["x"])


@pytest.mark.long
async def test_a_command_that_prints_on_is_left_in_time():
    is_left = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=PROTOCOLS, autoclose=False)
        await socket.prepare(request)
        try:
            while True:
                await socket.send_bytes(b"\x01y")
                await asyncio.sleep(CLOSE_TIMEOUT / 100)
        finally:
            is_left.set()

    async with serving(answer) as connection, asyncio.timeout(5 * CLOSE_TIMEOUT):
        async with exec_into(connection) as stream:
            await stream.receive()
        await is_left.wait()
