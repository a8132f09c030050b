"""A node, a cloud and a loop in virtual time, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from et_kube.notices import LEAVING_ADVISED, LEAVING_AT, LEAVING_REASON
from et_kube.racing import Interrupted, run_unless
from et_notices.asking import Ask
from et_notices.polling import Poller
from et_notices.questions import Answer, Cloud, Question, Unclear
from et_notices.telling import MANAGER, REFUSAL, Node
from fakes.clock import START, FakeClock
from fakes.metadata import AwsService, Service
from fakes.nodes import NodeServer

OWN = (LEAVING_AT, LEAVING_REASON, LEAVING_ADVISED)
S = TypeVar("S", bound=Service)
AWS_ID = "aws:///eu-west-1a/i-0123456789abcdef0"


def build_ask(service: Service) -> Ask:
    """Asks a service as if by HTTP."""

    async def ask(question: Question) -> Answer:
        request = make_mocked_request(question.method, question.path, headers=question.headers)
        response = await service.answer(request)
        assert isinstance(response, web.Response)
        body = response.body
        headers = {name.lower(): text for name, text in response.headers.items()}
        return Answer(response.status, body if isinstance(body, bytes) else b"", headers)

    return ask


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def write(moment: datetime) -> str:
    """As most clouds do."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def build_server(provider_id: str = AWS_ID, name: str = "node-1") -> NodeServer:
    return NodeServer(name, REFUSAL, OWN, {"providerID": provider_id} if provider_id else {})


def build_node(server: NodeServer, name: str = "node-1") -> Node:
    return Node(server.connect(MANAGER), server.connect(MANAGER, is_dry=True), name)


@dataclass
class CloudWorld(Generic[S]):
    """One program, its node and its cloud."""

    service: S
    server: NodeServer = field(default_factory=build_server)
    clock: FakeClock = field(default_factory=FakeClock)
    cloud: str = ""
    reached: list[str] = field(default_factory=list)
    trouble: str = ""
    """While there is some: what Ask raises."""
    slow: timedelta = timedelta(0)
    """For each answer."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Callable[[float], Awaitable[None]]]:
        """The loop runs while the context lasts; yields what lets so many seconds pass."""

        async def pass_time(seconds: float) -> None:
            await self.clock.advance(timedelta(seconds=seconds))

        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_until(stop))
            await self.clock.settle()
            yield pass_time
            stop.set()

    def _reach(self, cloud: Cloud) -> Ask:
        self.reached.append(cloud.address)
        ask = build_ask(self.service)

        async def try_to_ask(question: Question) -> Answer:
            await self.clock.sleep(self.slow)
            if self.trouble:
                raise Unclear(self.trouble)
            return await ask(question)

        return try_to_ask

    async def _run_until(self, stop: asyncio.Event) -> None:
        node = build_node(self.server)
        poller = Poller(node, self.clock, self._reach, cloud=self.cloud, chance=lambda: 0.0)
        await poller.prove()
        with suppress(Interrupted):
            await run_unless(stop.wait(), poller.run())


def make_aws_world(server: NodeServer | None = None) -> CloudWorld[AwsService]:
    clock = FakeClock()
    return CloudWorld(AwsService(clock.monotonic), server or build_server(), clock)
