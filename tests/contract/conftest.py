"""The same cases against the in-memory cluster and a real API server.

The real one is that of $KUBECONFIG, or the development cluster if it is up; without either its
cases are skipped. Each case has a namespace of its own.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from et_kube.api import Api
from et_kube.errors import AlreadyExists
from et_kube.resources import SERVICE_ACCOUNTS, Json, Ref, Resource
from fakes.clients import CallLog, FakeApi
from fakes.clock import FakeClock
from fakes.cluster import FakeCluster
from fakes.schemas import CRDS

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
PATIENCE_SECONDS = 30.0
INSTALLED: list[str] = []


@dataclass(frozen=True, slots=True)
class Site:
    """Where a case runs. `push` lets the cluster's own controllers work once.

    `api` writes as the operator does, and what `write_as` gives as the field manager of that name.
    """

    api: Api
    write_as: Callable[[str], Api]
    namespace: str
    push: Callable[[], Awaitable[None]]

    def ref(self, resource: Resource, name: str) -> Ref:
        """One object in this case's namespace."""
        return Ref(resource, self.namespace, name)

    async def create(self, resource: Resource, manifest: Json) -> Json:
        """Create it in this case's namespace, if its kind is in namespaces."""
        namespace = self.namespace if resource.namespaced else None
        return await self.api.create(resource, namespace, manifest)

    async def eventually(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        """Wait for what a controller of the cluster will do."""
        await wait_until(is_so, push=self.push)


async def wait_until(
    is_so: Callable[[], Awaitable[bool]], *, push: Callable[[], Awaitable[None]]
) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await is_so():
            await push()


async def nap() -> None:
    await asyncio.sleep(0.1)


FAKE = pytest.param("fake", marks=pytest.mark.point("contract-fake"))
REAL = pytest.param("real", marks=[pytest.mark.cluster, pytest.mark.point("contract-real")])


@pytest.fixture(params=[FAKE, REAL])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    if request.param == "fake":
        yield open_fake_site()
        return
    kubeconfig = request.getfixturevalue("kubeconfig")
    async with open_real_site(kubeconfig) as real:
        yield real
    await nap()  # the last TLS connections end a moment after their session


def open_fake_site() -> Site:
    cluster = FakeCluster(FakeClock().now)

    async def push() -> None:
        cluster.collect_garbage()

    log = CallLog()
    return Site(FakeApi(cluster, log), partial(FakeApi, cluster, log), "contract", push)


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    given = os.environ.get("KUBECONFIG")
    if given:
        return given
    command = [sys.executable, "-m", "devcluster", "kubeconfig"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    path = asked.stdout.strip()
    if asked.returncode != 0 or not Path(path).is_file():
        pytest.skip("no cluster: KUBECONFIG is not set and the development cluster is not up")
    return path


@asynccontextmanager
async def open_real_site(kubeconfig: str) -> AsyncIterator[Site]:
    from et_kube.connecting import connect
    from et_kube.rest import Rest

    async with connect(kubeconfig=kubeconfig) as connection:

        def write_as(manager: str) -> Api:
            return Rest(connection, writing={"fieldManager": manager})

        api = Rest(connection)
        await install_definitions(api)
        name = f"contract-{uuid.uuid4().hex[:10]}"
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        namespace = await api.create(NAMESPACES, None, manifest)
        try:
            site = Site(api, write_as, name, push=nap)
            await site.eventually(lambda: has_service_account(site))
            yield site
        finally:
            uid = namespace["metadata"]["uid"]
            await api.delete(Ref(NAMESPACES, "", name), uid=uid)


async def install_definitions(api: Api) -> None:
    """Once a run: a session fixture could not, for each case has an event loop of its own."""
    if INSTALLED:
        return
    for path in sorted(CRDS.glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if manifest and manifest["kind"] == DEFINITIONS.kind:
                await install_definition(api, manifest)
                INSTALLED.append(manifest["metadata"]["name"])


async def install_definition(api: Api, manifest: dict[str, Any]) -> None:
    ref = Ref(DEFINITIONS, "", manifest["metadata"]["name"])
    try:
        await api.create(DEFINITIONS, None, manifest)
    except AlreadyExists:
        await api.patch(ref, {"spec": manifest["spec"]})
    await wait_until(lambda: is_established(api, ref), push=nap)


async def is_established(api: Api, ref: Ref) -> bool:
    definition = await api.get(ref)
    conditions = definition.get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


async def has_service_account(site: Site) -> bool:
    """Before it exists, every pod is refused."""
    listing = await site.api.list(SERVICE_ACCOUNTS, site.namespace)
    return any(item["metadata"]["name"] == "default" for item in listing.items)
