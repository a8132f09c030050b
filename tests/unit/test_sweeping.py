"""The hourly look at runtimes of former versions, against a cluster in memory."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from et_operator.errors import Refused
from et_operator.model.jobs import Runtime
from et_operator.model.names import LABEL_RUNTIME, build_labels
from et_operator.model.resources import CONFIG_MAPS, PODS, Json
from et_operator.model.snapshots import RuntimeFiles
from et_operator.planning.manifests.runtimes import build_runtime, build_runtime_volume
from et_operator.sweeping import PERIOD, Sweeper
from tests.fakes import benches
from tests.fakes.clients import Call, Moment
from tests.makers import make_pod

SHIPPED = RuntimeFiles(Runtime("new", "broker:2"), {"launcher/boot.py": ""})


pytestmark = pytest.mark.usefixtures("quiet_logs")


class Bench(benches.Bench):
    def __init__(self) -> None:
        super().__init__()
        self.sweeper = Sweeper(store=self.store, api=self.api, clock=self.clock, shipped=SHIPPED)

    def add_runtime(self, digest: str, namespace: str = "team") -> None:
        files = RuntimeFiles(Runtime(digest, "broker:1"), {})
        self.create(CONFIG_MAPS, build_runtime(namespace, files), namespace)

    def add_pod(self, digest: str, namespace: str = "team") -> None:
        pod: Json = make_pod("worker", labels=build_labels("train"))
        volumes = [build_runtime_volume(Runtime(digest, "broker:1"))]
        manifest = {**pod, "spec": {**pod["spec"], "volumes": volumes}}
        self.create(PODS, manifest, namespace)

    def list_runtimes(self) -> set[str]:
        found = self.cluster.list(CONFIG_MAPS, label_selector=LABEL_RUNTIME)
        return {
            f"{m['metadata']['namespace']}/{m['metadata']['labels'][LABEL_RUNTIME]}" for m in found
        }

    async def sweep(self, hours: int) -> None:
        self.look({CONFIG_MAPS: ""})
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.sweeper.run())
            for _ in range(hours):
                await asyncio.sleep(0)
                await self.clock.advance(PERIOD)
            task.cancel()


async def test_only_what_nobody_uses_goes_and_only_after_an_hour() -> None:
    bench = Bench()
    for digest in ("new", "mounted", "old"):
        bench.add_runtime(digest)
    bench.add_pod("mounted")
    await bench.sweep(1)
    assert bench.list_runtimes() == {"team/new", "team/mounted", "team/old"}
    await bench.sweep(1)
    assert bench.list_runtimes() == {"team/new", "team/mounted"}


async def test_where_nothing_could_go_nothing_is_asked() -> None:
    bench = Bench()
    bench.add_runtime("new")
    await bench.sweep(3)
    assert bench.log.calls == []


async def test_a_namespace_that_refuses_does_not_stop_the_others() -> None:
    bench = Bench()
    bench.add_runtime("old", "a")
    bench.add_runtime("old", "b")

    def strike(call: Call, moment: Moment) -> None:
        if call.ref.namespace == "a" and moment is Moment.BEFORE:
            raise Refused(403, "Forbidden", "no")

    bench.log.faults.append(strike)
    await bench.clock.advance(timedelta(hours=1))
    await bench.sweep(1)
    assert bench.list_runtimes() == {"a/old"}
