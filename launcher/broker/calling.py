"""Streams to agents that run in our own pod, where workers are reached by ssh.

The agent of a worker is a child of PID 1, which starts it when we ask. What it says on its socket
is what any agent says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from et_contract import frames
from et_contract.documents import Member, MemberState
from et_kube.errors import StreamEnded, Unreachable
from launcher.broker.brokering import Broker

CALL_SECONDS = 10.0
"""From the first ATTACH to a connection: PID 1 may be busy starting the agents of all workers."""
RETRY_SECONDS = 0.1
CHUNK = 64 * 1024


class SocketStream:
    """The stream to an agent's socket; see streams.Stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Waits while the agent takes nothing."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise StreamEnded(str(error)) from error

    async def receive(self) -> bytes:
        """The next bytes, at least one."""
        try:
            data = await self._reader.read(CHUNK)
        except OSError as error:
            raise StreamEnded(str(error)) from error
        if not data:
            raise StreamEnded("the agent has closed")
        return data


class Caller:
    """`open` is the streams' opener; `folder` is where the agents' sockets are."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self._told: tuple[int, list[str]] | None = None
        """By which connection PID 1 was told which workers have not gone."""

    def look(self) -> None:
        """Who has gone, or PID 1's connection, may have changed: the agents of others are to end.

        PID 1 may have some of which we know nothing: of workers that went while no broker ran, or
        of whom a broker before us has told in vain. Before the config is known all may be there.
        One that says it is closed may hold an end that its shim has not heard: it stays.
        """
        launcher, hosts = self._broker.launcher, self._broker.hosts
        if launcher is None or hosts.config is None:
            return
        members = {} if hosts.is_fenced else hosts.members
        present = (
            launcher,
            [uid for uid, member in members.items() if member.state is not MemberState.GONE],
        )
        if present != self._told and self._tell(frames.DETACH, {"wanted": present[1]}):
            self._told = present

    @asynccontextmanager
    async def open(self, member: Member) -> AsyncIterator[SocketStream]:
        """A stream to the agent of this worker."""
        reader, writer = await self._connect(member)
        try:
            yield SocketStream(reader, writer)
        finally:
            writer.transport.abort()

    async def _connect(self, member: Member) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        body = {"pod": member.uid, "name": member.name, "address": member.address}
        path = self._folder / f"{member.uid}.sock"
        try:
            async with asyncio.timeout(CALL_SECONDS):
                while True:  # by hand: see retrying.py beside this
                    self._tell(frames.ATTACH, body)  # again: one that failed may have ended since
                    await asyncio.sleep(RETRY_SECONDS)
                    try:
                        return await asyncio.open_unix_connection(path)
                    except OSError:
                        continue
        except TimeoutError:
            reason = f"no agent for {member.name} within {CALL_SECONDS:.0f} s"
            raise Unreachable(reason) from None

    def _tell(self, kind: int, body: Mapping[str, object]) -> bool:
        return self._broker.tell_launcher(frames.encode_json(kind, dict(body)))
