"""What the operator does so rarely that no run comes to it, under the account that it has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from et_kube.clock import SystemClock
from et_kube.connecting import connect
from et_kube.events import Event
from et_kube.resources import CONFIG_MAPS, EVENTS
from et_kube.rest import Rest
from et_operator.acting.executing import Executor
from et_operator.codec.runtimes import hash_files
from et_operator.model.names import LABEL_RUNTIME, build_runtime_name
from et_operator.model.snapshots import RuntimeFiles
from et_operator.model.statuses import Runtime
from et_operator.planning.manifests.runtimes import build_runtime
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from et_operator.sweeping import PERIOD, Sweeper
from et_process.recording import REPEAT_PERIOD, Recorder
from fakes.clock import FakeClock
from tests.contract.conftest import Site, nap, open_real_site

pytestmark = [pytest.mark.cluster, pytest.mark.point("rights")]

OPERATOR = "et-operator"


@pytest.fixture
async def admin(kubeconfig: str) -> AsyncIterator[Site]:
    async with open_real_site(kubeconfig) as site:
        yield site
    await nap()


@pytest.fixture
def account(kubeconfig: str, tmp_path: Path) -> str:
    """A kubeconfig with the rights of the installed operator."""
    core = client.CoreV1Api(config.new_client_from_config(kubeconfig))
    wish: dict[str, Any] = {"spec": {"expirationSeconds": 600}}
    token = core.create_namespaced_service_account_token(OPERATOR, OPERATOR, wish).status.token
    body = yaml.safe_load(Path(kubeconfig).read_text())
    body["users"] = [{"name": user["name"], "user": {"token": token}} for user in body["users"]]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(body))
    return str(path)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Meanwhile; it never ends by itself."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()


async def test_runtimes_that_nobody_uses_are_swept(admin: Site, account: str) -> None:
    old, new = make_runtime("old"), make_runtime("new")
    for files in (old, new):
        await admin.create(CONFIG_MAPS, build_runtime(admin.namespace, files))
    store, clock = Store(), FakeClock(SystemClock().now() + timedelta(days=1))
    ingest = Ingest(store)
    listed = await admin.api.list(CONFIG_MAPS, admin.namespace, label_selector=LABEL_RUNTIME)
    ingest.sync(
        CONFIG_MAPS, None, listed.items, version=listed.resource_version, at=clock.monotonic()
    )

    async with connect(kubeconfig=account) as connection:
        api = Rest(connection)
        recorder = Recorder(api, clock, controller="et-operator", instance="test")
        executor = Executor(api, recorder, keep=ingest.read, requests_at_once=1)
        sweeper = Sweeper(store=store, api=api, executor=executor, clock=clock, shipped=new)
        async with running(sweeper.run()):
            await clock.advance(PERIOD)
            await admin.eventually(
                lambda: has_runtimes(admin, {build_runtime_name(new.runtime.digest)})
            )


async def test_repeated_events_are_counted(admin: Site, account: str) -> None:
    ref = admin.ref(CONFIG_MAPS, "kube-root-ca.crt")
    event, clock = Event(ref, "uid", "Scaled", "again"), FakeClock()

    async with connect(kubeconfig=account) as connection:
        recorder = Recorder(Rest(connection), clock, controller="group/program", instance="test")
        async with running(recorder.run()):
            recorder.record(event)
            await admin.eventually(lambda: has_event(admin, 0))
            await clock.advance(timedelta(seconds=REPEAT_PERIOD))
            recorder.record(event)
            await admin.eventually(lambda: has_event(admin, 2))


def make_runtime(version: str) -> RuntimeFiles:
    files = {"launcher/boot.py": version}
    return RuntimeFiles(Runtime(hash_files(files), "broker:1"), files)


async def has_runtimes(site: Site, names: set[str]) -> bool:
    found = await site.api.list(CONFIG_MAPS, site.namespace, label_selector=LABEL_RUNTIME)
    return {item["metadata"]["name"] for item in found.items} == names


async def has_event(site: Site, count: int) -> bool:
    found = await site.api.list(EVENTS, site.namespace)
    return [(item.get("series") or {}).get("count", 0) for item in found.items] == [count]
