"""An API server on the loopback interface, as far as a broker knows one: config, report, exec.

An exec call runs the agent's own bridge, as a kubelet does, or is joined to the agent's socket
directly where a process for each stream would measure the processes. Faults are switches: away,
cut, frozen, far. Bytes travel in messages of 32 KiB at most, as those of kubelets do.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

import launcher
from et_contract import names
from et_contract.documents import HostConfig, Report, decode_report, encode_config

ROOT = Path(launcher.__file__).parents[1]
BRIDGE = ROOT / "launcher" / "agent" / "bridge.py"
MESSAGE = 32 * 1024
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
WINDOW = re.compile(rb'{"window":(\d+)}')
MAPS = "/api/v1/namespaces/{namespace}/configmaps"

Dial = Callable[[str], socket.socket]
"""A connected socket for the exec call into a pod; OSError when there is none."""


def dial_agent(folder: Path) -> Dial:
    """Sockets of agents at <folder>/<pod>.sock, without a bridge between."""

    def dial(pod: str) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(folder / f"{pod}.sock"))
        return sock

    return dial


def dial_bridge(folder: Path, started: list[subprocess.Popen[bytes]]) -> Dial:
    """A stream to an agent through the bridge program, whose processes are added to `started`."""

    def dial(pod: str) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-I", "-S", str(BRIDGE), str(folder / f"{pod}.sock")]
            started.append(subprocess.Popen(command, stdin=theirs.fileno(), stdout=theirs.fileno()))
        return ours

    return dial


class ApiServer:
    """See the module. `dial` is what exec means here."""

    def __init__(self, dial: Dial) -> None:
        self.dial = dial
        self.maps: dict[str, dict[str, str]] = {}
        self.is_away = False
        """Every request is cut off unanswered."""
        self.frozen: set[str] = set()
        """Pods whose streams stay open and say nothing; see `thaw`."""
        self.far = 0.0
        """Seconds that bytes are under way, each way."""
        self.says_success = False
        """The next exec calls end with Success at once, as a kubelet may say of a live command."""
        self.handshakes = 0
        self.most_handshakes = 0
        """The most exec calls that were asked for and not yet answered, at any time."""
        self.answer_after: Callable[[], Any] | None = None
        """Awaited before an exec call is answered."""
        self.exec_calls = 0
        self.windows: set[int] = set()
        """What brokers have told agents of windows, in acknowledgements."""
        self._version = 0
        self._changed = asyncio.Event()
        self._thawed = asyncio.Event()
        self._sockets: dict[web.WebSocketResponse, web.Request] = {}

    # ------------------------------------------------------------ what tests do

    def write_config(self, config: HostConfig) -> None:
        """As the operator does it."""
        self._write(f"{config.job}-config", {names.CONFIG_KEY: encode_config(config)})

    def read_report(self, job: str, epoch: int = 1) -> Report | None:
        """As the operator does it."""
        text = self.maps.get(f"{job}-report", {}).get(names.build_report_key(epoch))
        return decode_report(text) if text else None

    def cut(self, pod: str | None = None) -> None:
        """Break the exec streams of this pod, or of all; not even a goodbye is sent."""
        for request in list(self._sockets.values()):
            if pod in (None, request.match_info["pod"]) and request.transport is not None:
                request.transport.abort()

    def thaw(self) -> None:
        """Let frozen streams go on."""
        self.frozen.clear()
        self._thawed.set()
        self._thawed = asyncio.Event()

    @property
    def streams(self) -> int:
        """Exec streams that are open."""
        return len(self._sockets)

    # ------------------------------------------------------------ HTTP

    def build_app(self) -> web.Application:
        """The routes."""
        app = web.Application(middlewares=[self._guard])
        app.router.add_get(MAPS, self._watch)
        app.router.add_get(MAPS + "/{name}", self._get)
        app.router.add_patch(MAPS + "/{name}", self._patch)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/exec", self._exec)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if self.is_away and request.transport is not None:
            request.transport.abort()
            return web.Response(status=503)
        response: web.StreamResponse = await handler(request)
        return response

    def _write(self, name: str, data: dict[str, str]) -> dict[str, str]:
        self._version += 1
        kept = self.maps.setdefault(name, {})
        kept.update(data)
        for key in [key for key, text in kept.items() if text is None]:
            del kept[key]
        self._changed.set()
        self._changed = asyncio.Event()
        return self.maps[name]

    def _show(self, name: str) -> dict[str, Any]:
        metadata = {"name": name, "resourceVersion": str(self._version)}
        return {"kind": "ConfigMap", "metadata": metadata, "data": self.maps.get(name, {})}

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._show(request.match_info["name"]))

    async def _patch(self, request: web.Request) -> web.Response:
        body = await request.json()
        self._write(request.match_info["name"], body["data"])
        return web.json_response(self._show(request.match_info["name"]))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        name = request.query["fieldSelector"].removeprefix("metadata.name=")
        seen = self.maps.get(name, {}).copy()
        while not self.is_away:
            changed = self._changed
            if self.maps.get(name, {}) != seen:
                seen = self.maps[name].copy()
                event = {"type": "MODIFIED", "object": self._show(name)}
                await response.write(json.dumps(event).encode() + b"\n")
            await changed.wait()
        return response

    # ------------------------------------------------------------ exec

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        self.exec_calls += 1
        self.handshakes += 1
        self.most_handshakes = max(self.most_handshakes, self.handshakes)
        ws = web.WebSocketResponse(protocols=PROTOCOLS, timeout=0.1, max_msg_size=2**20)
        try:
            if self.answer_after is not None:
                await self.answer_after()
            await ws.prepare(request)
        except ConnectionResetError:
            return web.Response()  # for nobody: the broker has died meanwhile
        finally:
            self.handshakes -= 1
        if self.says_success:
            await ws.send_bytes(b"\x03" + b'{"kind":"Status","status":"Success"}')
            await ws.close()
            return ws
        self._sockets[ws] = request
        try:
            await self._join(ws, request.match_info["pod"])
        finally:
            del self._sockets[ws]
        return ws

    async def _join(self, ws: web.WebSocketResponse, pod: str) -> None:
        sock = self.dial(pod)
        sock.setblocking(False)
        with sock, suppress(OSError, ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._bring_in(ws, sock, pod))
                group.create_task(self._bring_out(ws, sock, pod))

    async def _bring_in(self, ws: web.WebSocketResponse, sock: socket.socket, pod: str) -> None:
        loop = asyncio.get_running_loop()
        async with aclosing(self._delay(self._receive(ws))) as arriving:
            async for data in arriving:
                await self._unfreeze(pod)
                self.windows.update(int(found[1]) for found in WINDOW.finditer(data))
                await loop.sock_sendall(sock, data[1:])
        raise ConnectionError("the client has gone")

    async def _bring_out(self, ws: web.WebSocketResponse, sock: socket.socket, pod: str) -> None:
        async with aclosing(self._delay(self._read(sock))) as arriving:
            async for data in arriving:
                await self._unfreeze(pod)
                await ws.send_bytes(b"\x01" + data)
        await ws.send_bytes(b"\x03" + b'{"kind":"Status","status":"Success"}')
        await ws.close()
        raise ConnectionError("the command has ended")

    async def _unfreeze(self, pod: str) -> None:
        while pod in self.frozen:
            await self._thawed.wait()

    async def _receive(self, ws: web.WebSocketResponse) -> AsyncIterator[bytes]:
        async for message in ws:
            yield message.data

    async def _read(self, sock: socket.socket) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(sock, MESSAGE):
            yield data

    async def _delay(self, source: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        """The bytes that come, `far` later; the way holds any number of them."""
        if not self.far:
            async for data in source:
                yield data
            return
        queue: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        async def fill() -> None:
            async for data in source:
                queue.put_nowait((loop.time() + self.far, data))
            queue.put_nowait((loop.time() + self.far, None))

        async with asyncio.TaskGroup() as group:
            filling = group.create_task(fill())
            while True:
                due, item = await queue.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if item is None:
                    break
                yield item
            filling.cancel()


@asynccontextmanager
async def serving(server: ApiServer) -> AsyncIterator[str]:
    """Answer on a port of the loopback interface: the URL."""
    runner = web.AppRunner(server.build_app(), shutdown_timeout=0.1, handle_signals=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        server.is_away = True
        server.cut()
        await runner.cleanup()
