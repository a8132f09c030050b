"""The API server of the test cluster, for those who send it what no client library would."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from devcluster.settings import find_cluster
from et_kube.resources import Resource

DEEP = 40_000
"""Calls within each other that reading an answer may take: objects are nested 10,000 deep."""
MERGE = "application/merge-patch+json"
SECONDS = 60


@dataclass(frozen=True)
class Answer:
    """What came back."""

    code: int
    text: str

    @property
    def is_good(self) -> bool:
        """Whether it was done."""
        return self.code < 300

    def read(self) -> Any:
        """The object in it; {} where there is none."""
        return json.loads(self.text) if self.text.startswith("{") else {}

    @property
    def message(self) -> str:
        """What the server says about a request that it refused."""
        found = self.read()
        return str(found.get("message") or "") if found.get("kind") == "Status" else ""


class Server:
    """Requests as an administrator, each of a minute at most."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def ask(
        self, method: str, path: str, text: str | None = None, content_type: str = ""
    ) -> Answer:
        """Send this very text; raises aiohttp.ClientError and TimeoutError."""
        headers = {"Content-Type": content_type or "application/json"} if text is not None else {}
        data = None if text is None else text.encode("utf-8", "surrogatepass")
        async with self._session.request(method, path, data=data, headers=headers) as response:
            return Answer(response.status, await response.text(errors="replace"))

    async def get(self, path: str) -> Any:
        """The object, {} if it is not there."""
        answer = await self.ask("GET", path)
        return answer.read() if answer.is_good else {}

    async def create(self, path: str, manifest: Any) -> Any:
        """Create what nothing is odd about."""
        answer = await self.ask("POST", path, json.dumps(manifest))
        if not answer.is_good:
            raise RuntimeError(f"POST {path}: {answer.code} {answer.text[:300]}")
        return answer.read()


@asynccontextmanager
async def connect() -> AsyncIterator[Server]:
    """The server of the running test cluster; raises FileNotFoundError if none is up."""
    sys.setrecursionlimit(DEEP)
    cluster = find_cluster()
    port = int((cluster.state / "port").read_text())
    folder = cluster.certificates
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    tls.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    async with aiohttp.ClientSession(
        f"https://127.0.0.1:{port}",
        connector=aiohttp.TCPConnector(ssl=tls, limit=64),
        timeout=aiohttp.ClientTimeout(total=SECONDS),
    ) as session:
        yield Server(session)


def build_path(resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
    """Of a collection, an object or a subresource."""
    root = f"/apis/{resource.group}" if resource.group else "/api"
    place = f"{root}/{resource.version}/namespaces/{namespace}/{resource.plural}"
    return "/".join(part for part in (place, name, subresource) if part)
