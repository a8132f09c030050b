"""One exec call as a stream of bytes to and from a command in a container.

Bytes only: a frame may end in the middle of a character. The websocket's own pings prove nothing
about the command at the other end, so whoever uses a stream pings inside it. How the API server
multiplexes: each message begins with the number of its channel (v4.channel.k8s.io, and v5 which
adds the closing of one channel).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import aiohttp

from et_contract.texts import parse_json
from et_kube.connecting import Connection
from et_kube.errors import OutcomeUnknown, StreamEnded
from et_kube.resources import PODS, Json, Ref
from et_kube.rest import build_ref_path
from et_kube.translating import MAX_STATUS, translated

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")

STDIN = b"\x00"
STDOUT = 1
STDERR = 2
STATUS = 3

MAX_MESSAGE = 2**20
KEPT_STDERR = 4096
CLOSE_TIMEOUT = 2.0
"""Seconds to wait for the other side's goodbye, which changes nothing: in all, for a command that
prints on sends message after message."""

HANDSHAKE = timedelta(seconds=15)
RUN = timedelta(seconds=30)
"""For a command that only prints something."""


class ExecStream:
    """A running exec call. One sender and one receiver may be at work at the same time."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._stderr = bytearray()
        self.status: Json | None = None
        """How the command ended, as the server said; for logs."""

    @property
    def protocol(self) -> str:
        """The version that the server chose."""
        return self._socket.protocol or ""

    @property
    def stderr(self) -> bytes:
        """The last 4 KiB of the command's error output; for logs."""
        return bytes(self._stderr)

    async def send(self, data: bytes) -> None:
        """Give bytes to the command's standard input; waits while the connection is full.

        Raises:
            StreamEnded: the connection is gone; whether the bytes arrived is unknown.
        """
        try:
            await self._socket.send_bytes(STDIN + data)
        except (aiohttp.ClientError, OSError) as error:
            raise StreamEnded(f"cannot send: {error or type(error).__name__}") from error

    async def receive(self) -> bytes:
        """The next bytes of the command's standard output, at least one.

        Raises:
            StreamEnded: there are no more, and why.
        """
        while True:
            message = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise StreamEnded(self._explain_end(message))
            if not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == STDOUT and data:
                return bytes(data)
            self._keep(channel, data)

    def _keep(self, channel: int, data: bytes) -> None:
        """Take note of what is for logs only; other channels say nothing that is needed."""
        if channel == STDERR:
            self._stderr += data
            del self._stderr[:-KEPT_STDERR]
        elif channel == STATUS:
            try:
                status = parse_json(data, MAX_STATUS)
            except ValueError:
                status = {"message": data.decode(errors="replace")}
            self.status = status if isinstance(status, dict) else {"message": str(status)}

    def _explain_end(self, message: aiohttp.WSMessage) -> str:
        if message.type is aiohttp.WSMsgType.TEXT:
            return "the server sent text where only bytes are allowed"
        parts = [f"closed with code {self._socket.close_code}"]
        error = self._socket.exception()
        if error is not None:
            parts.append(str(error))
        if self.status is not None:
            parts.append(str(self.status.get("message") or self.status.get("status") or ""))
        if self._stderr:
            parts.append(self._stderr.decode(errors="replace").strip())
        return "; ".join(part for part in parts if part)


@asynccontextmanager
async def open_exec(
    connection: Connection,
    namespace: str,
    pod: str,
    *,
    container: str,
    command: Sequence[str],
    timeout: timedelta = HANDSHAKE,  # noqa: ASYNC109 (covers the handshake, not the body)
) -> AsyncIterator[ExecStream]:
    """Run a command in a container; closed at the end, however it comes.

    Raises:
        ApiError: the server's answer in its own words (Refused names the verb that is missing).
        Unreachable: no connection.
        OutcomeUnknown: no answer, or one that is no exec stream; the command may have started.
    """
    what = f"exec {namespace}/{pod}"
    with translated(what):
        async with asyncio.timeout(timeout.total_seconds()):
            socket = await shake_hands(connection, namespace, pod, container, command)
    try:
        if socket.protocol is None:
            raise OutcomeUnknown(f"{what}: the server speaks none of {', '.join(PROTOCOLS)}")
        yield ExecStream(socket)
    finally:
        with suppress(TimeoutError):  # a close that is broken off leaves the connection closed
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await socket.close()


async def shake_hands(
    connection: Connection, namespace: str, pod: str, container: str, command: Sequence[str]
) -> aiohttp.ClientWebSocketResponse:
    """Ask for the upgrade. The session raises the server's refusal (see connecting)."""
    params = [("container", container), ("stdin", "1"), ("stdout", "1"), ("stderr", "1")]
    params += [("command", part) for part in command]
    socket: aiohttp.ClientWebSocketResponse = await connection.session.ws_connect(
        connection.url + build_ref_path(Ref(PODS, namespace, pod), "exec"),
        params=params,
        protocols=PROTOCOLS,
        headers=await connection.authorize(),
        heartbeat=None,
        max_msg_size=MAX_MESSAGE,
        **connection.choose_options(),
    )
    return socket


async def run_command(
    connection: Connection, ref: Ref, *, container: str, command: Sequence[str]
) -> str:
    """What a command in a pod's container has printed, once it has ended with 0.

    Raises:
        KubeError: as `open_exec`; StreamEnded: it ended otherwise, or was cut off. The message has
            the server's words, and the command's own. OutcomeUnknown: it has not ended in time, or
            prints without end.
    """
    output = bytearray()
    async with open_exec(
        connection, ref.namespace, ref.name, container=container, command=command
    ) as stream:
        try:
            async with asyncio.timeout(RUN.total_seconds()):
                while len(output) < MAX_MESSAGE:
                    output += await stream.receive()
            raise OutcomeUnknown(f"exec {ref.namespace}/{ref.name}: it prints too much")
        except StreamEnded:
            if (stream.status or {}).get("status") != "Success":
                raise
        except TimeoutError as error:
            raise OutcomeUnknown(f"exec {ref.namespace}/{ref.name}: it goes on still") from error
    return output.decode(errors="replace")
