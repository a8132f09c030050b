"""The metadata services of five clouds, on the loopback interface, as their pages describe them.

Each wants what the real one wants (a token that runs out, a header) and has 404, FALSE or an empty
list until a notice is given. `mischief` is what a service may do besides: be away, slow, huge, lie.
Nothing of et_notices is imported: what is right is said by those pages, never by who is tested.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

MOST_SECONDS = 21600
"""For which a token is given."""
Mischief = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""Answers in place of the service; None lets it answer."""


class Service:
    """What all have. `now` is in seconds, for tokens; `asked` is each request that was answered."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self._now = now
        self.mischief: Mischief | None = None
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Whatever is asked."""
        self.asked.append(f"{request.method} {request.path}")
        if self.mischief is not None and (odd := await self.mischief(request)) is not None:
            return odd
        return await self.serve(request)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """As the real one does."""
        raise NotImplementedError


class TokenService(Service):
    """With a token: by PUT, for so many seconds, 401 without one or with one that has run out.

    Attributes:
        found: by path, what there is to be read.
    """

    life_header = ""
    header = ""

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(now)
        self.found: dict[str, str] = {}
        self.tokens: dict[str, float] = {}

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """See Service."""
        if request.path == "/latest/api/token":
            return self._give(request)
        if self.tokens.get(request.headers.get(self.header, ""), -1.0) <= self._now():
            return web.Response(status=401, text="401 - Unauthorized")
        text = self.found.get(request.path)
        return web.Response(status=404, text="404") if text is None else web.Response(text=text)

    def _give(self, request: web.Request) -> web.Response:
        life = request.headers.get(self.life_header, "")
        if request.method != "PUT":
            return web.Response(status=405)
        if not life.isdigit() or not 1 <= int(life) <= MOST_SECONDS:
            return web.Response(status=400)
        token = f"token-{len(self.tokens)}=="
        self.tokens[token] = self._now() + int(life)
        return web.Response(text=token)


class AwsService(TokenService):
    """IMDSv2."""

    life_header = "X-aws-ec2-metadata-token-ttl-seconds"
    header = "X-aws-ec2-metadata-token"

    def take_back(self, moment: str, action: str = "terminate") -> None:
        """A notice; `moment` as `2026-01-01T00:02:00Z`."""
        text = json.dumps({"action": action, "time": moment})
        self.found["/latest/meta-data/spot/instance-action"] = text

    def advise(self, moment: str) -> None:
        """A rebalance recommendation since then."""
        text = json.dumps({"noticeTime": moment})
        self.found["/latest/meta-data/events/recommendations/rebalance"] = text

    def keep(self) -> None:
        """Nothing is said any more."""
        self.found.clear()


class AlibabaService(TokenService):
    """Of an instance in security-hardened mode."""

    life_header = "X-aliyun-ecs-metadata-token-ttl-seconds"
    header = "X-aliyun-ecs-metadata-token"

    def take_back(self, moment: str) -> None:
        """A notice; `moment` as `2026-01-01T00:05:00Z`."""
        self.found["/latest/meta-data/instance/spot/termination-time"] = moment


class TencentService(Service):
    """Without a token; `moment` is what it says, as `2026-01-01 08:02:00`, in UTC+8."""

    moment: str | None = None

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """See Service."""
        if self.moment is None or request.path != "/latest/meta-data/spot/termination-time":
            return web.Response(status=404)
        return web.Response(text=self.moment)


class GcpService(Service):
    """With the header both ways; a question that names the last ETag waits until there is another.

    Attributes:
        preempted: whether it is.
        maintenance: NONE, MIGRATE_ON_HOST_MAINTENANCE or TERMINATE_ON_HOST_MAINTENANCE.
        waits: for how many seconds clients have waited for a change.
        is_waited_for: set once one does.
    """

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(now)
        self.preempted = False
        self.maintenance = "NONE"
        self.waits: list[int] = []
        self.is_waited_for = asyncio.Event()
        self._changed = asyncio.Event()

    def take_back(self) -> None:
        """Preempt it."""
        self.preempted = True
        self._changed.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """See Service."""
        if request.headers.get("Metadata-Flavor") != "Google":
            return web.Response(status=403)
        if request.path.endswith("/instance/preempted"):
            return await self._serve_preempted(request)
        if request.path.endswith("/instance/maintenance-event"):
            return self._reply(self.maintenance)
        return web.Response(status=404, headers={"Metadata-Flavor": "Google"})

    async def _serve_preempted(self, request: web.Request) -> web.Response:
        seconds = int(request.query.get("timeout_sec", "0"))
        last = request.query.get("last_etag")
        if request.query.get("wait_for_change") == "true" and last == self._etag:
            self.waits.append(seconds)
            self.is_waited_for.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
        return self._reply("TRUE" if self.preempted else "FALSE")

    @property
    def _etag(self) -> str:
        return f"{411261 + self.preempted:x}"

    def _reply(self, text: str) -> web.Response:
        return web.Response(text=text, headers={"Metadata-Flavor": "Google", "ETag": self._etag})


class AzureService(Service):
    """Scheduled events; the list is of all machines of the set."""

    def __init__(self, name: str = "pool_7", now: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(now)
        self._name = name
        self.events: list[Any] = []

    def plan(self, kind: str, machine: str, moment: str = "", status: str = "Scheduled") -> None:
        """An event; `moment` as `Thu, 01 Jan 2026 00:00:30 GMT`, "" for one that has begun."""
        event = {
            "EventId": f"event-{len(self.events)}",
            "EventType": kind,
            "ResourceType": "VirtualMachine",
            "Resources": [machine],
            "EventStatus": status,
            "NotBefore": moment,
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }
        self.events.append(event)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """See Service."""
        if request.headers.get("Metadata") != "true" or "api-version" not in request.query:
            return web.json_response({"error": "Bad request"}, status=400)
        if request.path == "/metadata/instance/compute/name":
            return web.Response(text=self._name)
        if request.path == "/metadata/scheduledevents":
            return web.json_response({"DocumentIncarnation": 1, "Events": self.events})
        return web.json_response({"error": "Not found"}, status=404)


@asynccontextmanager
async def serving(service: Service, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """The URL where it answers while the context lasts."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", service.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
