"""The benchmarks' own access to the API server: plain JSON, none of the operator's requests.

Figures ask the server by it, so that what is measured is never measured by the operator's own
client. Only inside the cluster's network namespace; an error ends the measurement.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from benchmarks.manifests import API_VERSION
from devcluster.certificates import INSIDE
from devcluster.settings import Cluster
from et_kube.clock import Clock
from et_kube.parsing import read_lines

USER_AGENT = "benchmarks"
PATIENCE = 120.0
"""Seconds that anything may take before the measurement is given up."""
IN_FLIGHT = 16
"""Requests at once where many objects are made."""
REREAD_SECONDS = 0.25
"""Between two looks at a log; what is measured by it is said in its lines."""
_CALL_SECONDS = 60.0
_NOT_FOUND = 404
_ERROR = 400

T = TypeVar("T")


class ApiRefused(Exception):  # noqa: N818 (a fact, as the operator's errors are)
    """The API server answered with an error; the message has its words."""


class Api:
    """Requests as the cluster's administrator, from inside its network."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def get(self, path: str, **params: str) -> dict[str, Any]:
        """The object or list at a path."""
        return await self._call("GET", path, params=params)

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object in the collection at a path."""
        return await self._call("POST", path, body=body)

    async def delete(self, path: str, grace_seconds: int | None = None, **params: str) -> None:
        """Delete an object, or all of a collection; what is gone already will do."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self._call("DELETE", path, params=params, body=options, accepted=_NOT_FOUND)

    async def patch(self, path: str, body: Mapping[str, Any]) -> None:
        """Merge this into the object at a path."""
        await self._call("PATCH", path, body=body, content_type="application/merge-patch+json")

    async def read_text(self, url: str, **params: str) -> str:
        """What is at an address, here or of any other server, as it is."""
        async with self._session.get(url, params=params) as response:
            await _check(response, f"GET {url}")
            return await response.text()

    async def follow(self, path: str, **params: str) -> AsyncGenerator[bytes, None]:
        """The lines of an answer that does not end: a watch."""
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(INSIDE + path, params=params, timeout=timeout) as response:
            await _check(response, f"GET {path}")
            async with aclosing(read_lines(response, 2**23)) as lines:
                async for line in lines:
                    yield line

    async def watch(self, path: str, **params: str) -> AsyncGenerator[dict[str, Any], None]:
        """What happens in a collection, for ever; first all that is there. ApiRefused: too late.

        A server ends the watch of a reader that is too slow for it; it is begun again where it was.
        """
        since = {"watch": "1", "allowWatchBookmarks": "true", **params}
        while True:
            async with aclosing(self.follow(path, **since)) as lines:
                async for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise ApiRefused(f"the watch of {path}: {event['object']}")
                    since["resourceVersion"] = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield event

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        accepted: int = 0,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body)
        url, headers = INSIDE + path, {"Content-Type": content_type}
        async with self._session.request(
            method, url, params=params, data=data, headers=headers
        ) as response:
            if response.status != accepted:
                await _check(response, f"{method} {path}")
            answer = json.loads(await response.read())
            return answer if isinstance(answer, dict) else {}


class Transcript:
    """What a watch or a log has told so far, each line with the time (UTC seconds) it came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._news = asyncio.Condition()
        self.lines: list[tuple[float, bytes]] = []

    async def follow(self, api: Api, path: str, **params: str) -> None:
        """Take in lines until cancelled, or until the server ends the answer."""
        async with aclosing(api.follow(path, **params)) as lines:
            async for line in lines:
                self.lines.append((self._clock.now().timestamp(), line))
                async with self._news:
                    self._news.notify_all()

    async def reread(self, api: Api, path: str, **params: str) -> None:
        """Take in the lines of a log that grows, by reading it again and again.

        Following it would cost the kubelet an inotify instance, of which a machine has few.
        """
        while True:
            *lines, _ = (await api.read_text(INSIDE + path, **params)).encode().split(b"\n")
            at = self._clock.now().timestamp()
            self.lines += [(at, line) for line in lines[len(self.lines) :]]
            async with self._news:
                self._news.notify_all()
            await asyncio.sleep(REREAD_SECONDS)

    async def wait(self, look: Callable[[], T | None], what: str, seconds: float = PATIENCE) -> T:
        """Look after each line until something is found; TimeoutError with `what` otherwise."""
        try:
            async with asyncio.timeout(seconds), self._news:
                while (found := look()) is None:
                    await self._news.wait()
                return found
        except TimeoutError as error:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}") from error


@asynccontextmanager
async def open_api(cluster: Cluster) -> AsyncIterator[Api]:
    """Access to a cluster of this machine; only inside its network namespace."""
    folder = cluster.certificates
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    tls.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=tls),
        headers={"User-Agent": USER_AGENT},
        timeout=aiohttp.ClientTimeout(total=_CALL_SECONDS),
        read_bufsize=2**18,
    ) as session:
        yield Api(session)


def build_path(plural: str, namespace: str, name: str = "") -> str:
    """The path of pods, ConfigMaps and the like, or of our own kinds."""
    ours = plural in {"trainingjobs", "scaleins", "scaleouts"}
    root = f"/apis/{API_VERSION}" if ours else "/api/v1"
    tail = f"/{name}" if name else ""
    return f"{root}/namespaces/{namespace}/{plural}{tail}"


async def wait_for(
    look: Callable[[], Any], what: str, *, seconds: float = PATIENCE, interval: float = 0.2
) -> None:
    """Await `look` again and again until it returns something true; TimeoutError with `what`."""
    try:
        async with asyncio.timeout(seconds):
            while not await look():  # noqa: ASYNC110 (it asks a server, which rings no bell)
                await asyncio.sleep(interval)
    except TimeoutError as error:
        raise TimeoutError(f"not within {seconds:.0f} s: {what}") from error


async def _check(response: aiohttp.ClientResponse, what: str) -> None:
    if response.status >= _ERROR:
        text = (await response.text())[:300]
        raise ApiRefused(f"{what} was answered with {response.status}: {text}")
