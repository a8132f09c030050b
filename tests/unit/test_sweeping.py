"""The hourly look at runtimes of former versions, against a cluster in memory."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from et_kube.errors import Refused
from et_kube.events import Event
from et_kube.resources import CONFIG_MAPS, PODS, TRAINING_JOBS, Json
from et_operator.acting.executing import Executor
from et_operator.codec.runtimes import hash_files
from et_operator.model.names import LABEL_RUNTIME, build_labels
from et_operator.model.snapshots import RuntimeFiles
from et_operator.model.statuses import Runtime
from et_operator.planning.manifests.runtimes import build_runtime, build_runtime_volume
from et_operator.sweeping import PERIOD, Sweeper
from fakes.clients import Call, Moment
from tests.counting import count_steps
from tests.makers import make_job, make_pod
from tests.unit.rigs import StoreRig


def make_runtime(version: str) -> RuntimeFiles:
    files = {"launcher/boot.py": version}
    return RuntimeFiles(Runtime(hash_files(files), "broker:1"), files)


SHIPPED = make_runtime("new")


pytestmark = pytest.mark.usefixtures("quiet_logs")


class SweeperRig(StoreRig):
    def __init__(self) -> None:
        super().__init__()
        self.sweeper = Sweeper(
            store=self.store,
            api=self.api,
            executor=Executor(self.api, self, keep=self.ingest.read, requests_at_once=4),
            clock=self.clock,
            shipped=SHIPPED,
        )

    def record(self, event: Event) -> None:
        raise AssertionError(f"nobody is told of a sweep: {event}")

    def add_runtime(self, version: str, namespace: str = "team") -> None:
        self.create(CONFIG_MAPS, build_runtime(namespace, make_runtime(version)), namespace)

    def add_pod(self, version: str, namespace: str = "team") -> None:
        pod: Json = make_pod("worker", labels=build_labels("train"))
        volumes = [build_runtime_volume(make_runtime(version).runtime)]
        manifest = {**pod, "spec": {**pod["spec"], "volumes": volumes}}
        self.create(PODS, manifest, namespace)

    def list_runtimes(self) -> set[str]:
        found = self.cluster.list(CONFIG_MAPS, label_selector=LABEL_RUNTIME)
        return {f"{m['metadata']['namespace']}/{m['data']['launcher..boot.py']}" for m in found}

    async def sweep(self, hours: int) -> None:
        self.look({CONFIG_MAPS: ""})
        await self.wait(hours)

    async def wait(self, hours: int) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.sweeper.run())
            for _ in range(hours):
                await asyncio.sleep(0)
                await self.clock.advance(PERIOD)
            task.cancel()


async def test_a_namespace_that_cannot_be_swept_keeps_no_other_from_it() -> None:
    rig = SweeperRig()
    for namespace in ("a", "b", "c"):
        rig.add_runtime("old", namespace)

    def strike(call: Call, moment: Moment) -> None:
        if call.ref.namespace == "b" and moment is Moment.BEFORE:
            raise TypeError("nobody foresaw this")

    rig.log.faults.append(strike)
    await rig.sweep(2)
    assert rig.list_runtimes() == {"b/old"}


async def test_only_what_nobody_uses_goes_and_only_after_an_hour() -> None:
    rig = SweeperRig()
    for digest in ("new", "mounted", "old"):
        rig.add_runtime(digest)
    rig.add_pod("mounted")
    await rig.sweep(1)
    assert rig.list_runtimes() == {"team/new", "team/mounted", "team/old"}
    await rig.sweep(1)
    assert rig.list_runtimes() == {"team/new", "team/mounted"}


async def test_where_nothing_could_go_nothing_is_asked() -> None:
    rig = SweeperRig()
    rig.add_runtime("new")
    await rig.sweep(3)
    assert rig.log.calls == []


async def test_a_namespace_that_refuses_does_not_stop_the_others() -> None:
    rig = SweeperRig()
    rig.add_runtime("old", "a")
    rig.add_runtime("old", "b")

    def strike(call: Call, moment: Moment) -> None:
        if call.ref.namespace == "a" and moment is Moment.BEFORE:
            raise Refused(403, "Forbidden", "no")

    rig.log.faults.append(strike)
    await rig.clock.advance(timedelta(hours=1))
    await rig.sweep(1)
    assert rig.list_runtimes() == {"a/old"}


def test_a_sweep_looks_at_no_job_of_another_namespace() -> None:
    def measure(jobs: int) -> int:
        rig = SweeperRig()
        for number in range(30):
            rig.add_runtime("old", f"n{number}")
        for number in range(jobs):
            rig.create(TRAINING_JOBS, make_job(f"j{number}"))
        rig.look({TRAINING_JOBS: "", CONFIG_MAPS: ""})
        return count_steps(lambda: asyncio.run(rig.wait(1)))

    measure(1)
    assert measure(80) < 1.1 * measure(40)
