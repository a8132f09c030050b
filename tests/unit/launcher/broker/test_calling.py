"""Streams to agents in our own pod, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from et_contract import frames
from et_contract.documents import HostConfig, Member, MemberState
from et_kube.errors import StreamEnded, Unreachable
from launcher.broker import calling
from launcher.broker.calling import Caller
from launcher.broker.hosts import HostList

MEMBER = Member("w-0", "uid-0", 1, MemberState.ACTIVE, "main", "10.0.0.9")


class Broker:
    """Takes down what PID 1 is told; `agent` is what PID 1 then starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.launcher: int | None = 1
        self.hosts = HostList("job-uid", 1, config=HostConfig("job", "ns", "job-uid", 1, 1, 1, 1))
        self.hosts.members = {MEMBER.uid: MEMBER}
        self.servers: list[asyncio.Server] = []
        self.is_there = True

    def tell_launcher(self, data: bytes) -> bool:
        if not self.is_there:
            return False
        decoder = frames.Decoder()
        decoder.feed(data)
        [frame] = list(decoder)
        self.told.append((frames.NAMES[frame.type], frames.decode_json(frame)))
        return True

    async def start_agent(self) -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                while data := await reader.read(100):
                    writer.write(b"<" + data + b">")
                    if data == b"end":
                        break
            writer.close()

        server = await asyncio.start_unix_server(echo, self.folder / f"{MEMBER.uid}.sock")
        self.servers.append(server)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    for server in broker.servers:
        server.close()
        await server.wait_closed()


def make_caller(broker: Broker) -> Caller:
    return Caller(broker, broker.folder)  # type: ignore[arg-type]


async def test_pid_1_is_asked_for_the_agent_and_bytes_go_both_ways(broker: Broker) -> None:
    await broker.start_agent()
    async with make_caller(broker).open(MEMBER) as call:
        await call.send(b"here")
        assert await call.receive() == b"<here>"
        await call.send(b"end")
        assert await call.receive() == b"<end>"
        with pytest.raises(StreamEnded, match="the agent has closed"):
            await call.receive()
    body = {"pod": "uid-0", "name": "w-0", "address": "10.0.0.9"}
    assert broker.told == [("ATTACH", body)]


async def test_the_agent_of_a_worker_that_has_gone_is_ended_and_of_none_that_leaves(
    broker: Broker,
) -> None:
    await broker.start_agent()
    caller = make_caller(broker)
    async with caller.open(MEMBER):
        caller.look()
    broker.hosts.members = {MEMBER.uid: replace(MEMBER, state=MemberState.DRAINING)}
    caller.look()
    broker.hosts.members = {MEMBER.uid: replace(MEMBER, state=MemberState.GONE)}
    broker.is_there = False
    caller.look()
    broker.is_there = True
    caller.look()
    caller.look()
    detached = [body for name, body in broker.told if name == "DETACH"]
    assert detached == [{"wanted": ["uid-0"]}, {"wanted": []}]


def test_each_connection_of_pid_1_is_told_whose_agents_go_on(broker: Broker) -> None:
    config, broker.hosts.config = broker.hosts.config, None
    caller = make_caller(broker)
    caller.look()
    assert broker.told == [], "before the config is known all may be there"
    broker.hosts.config = config
    for broker.launcher in (1, None, 2, 2):
        caller.look()
    assert broker.told == [("DETACH", {"wanted": ["uid-0"]})] * 2


@pytest.mark.long
async def test_pid_1_is_asked_until_there_is_an_agent(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "CALL_SECONDS", 0.3)
    with pytest.raises(Unreachable, match="no agent for w-0 within"):
        async with make_caller(broker).open(MEMBER):
            pass
    assert [name for name, _ in broker.told].count("ATTACH") >= 2
