"""All parts of one replica together, against a cluster in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from et_kube.errors import Expired, Refused, ServerFailed
from et_kube.resources import CONFIG_MAPS, LEASES, NODES, PODS, TRAINING_JOBS, Ref
from et_operator.assembly import Operator
from et_operator.measuring import Metrics
from et_operator.settings import Settings
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store
from et_process.supervising import run_for_ever
from fakes.clients import Call, CallLog, GuardedApi, Moment
from fakes.clock import FakeClock
from fakes.cluster import FakeCluster
from tests.makers import make_job

SECOND = timedelta(seconds=1)

pytestmark = pytest.mark.usefixtures("quiet_logs")


class AssemblyRig:
    def __init__(self, *namespaces: str) -> None:
        self.clock = FakeClock()
        self.cluster = FakeCluster(self.clock.now)
        self.log = CallLog()
        self.store = Store()
        self.metrics = Metrics()
        self.drift = timedelta()
        self.operator = Operator(
            Settings(broker_image="broker:1", namespaces=namespaces, workers=2),
            GuardedApi(self.cluster, self.log),  # type: ignore[arg-type]
            self.store,
            clock=self.clock,
            metrics=self.metrics,
            find_drift=lambda: self.drift,
        )

    def refuse(self, is_it: Callable[[Call], bool], error: Exception) -> None:
        def strike(call: Call, moment: Moment) -> None:
            if moment is Moment.BEFORE and is_it(call):
                raise error

        self.log.faults.append(strike)

    def count_pods(self, namespace: str) -> int:
        return len(self.cluster.list(PODS, namespace))

    def count_unseen(self) -> float | None:
        self.operator.measure()
        return self.metrics.registry.get_sample_value("et_operator_namespaces_unseen")

    async def advance(self, seconds: int) -> None:
        for _ in range(seconds):
            await self.clock.advance(SECOND)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(run_for_ever(self.operator.tasks))
            yield
            task.cancel()


async def test_a_namespace_that_cannot_be_listed_holds_up_no_other() -> None:
    rig = AssemblyRig("team", "gone")
    rig.refuse(lambda c: c.ref.namespace == "gone", Refused(403, "Forbidden", "no such right"))
    rig.cluster.create(TRAINING_JOBS, "team", make_job(workers=2))
    async with rig.running():
        await rig.advance(10)
        assert rig.count_pods("team") == 3
        assert rig.operator.describe_trouble() == ""  # or no rollout would come to its end
        assert rig.count_unseen() == 1


async def test_who_has_a_clock_far_from_the_servers_is_not_ready_and_goes_on() -> None:
    rig = AssemblyRig()
    rig.drift = timedelta(minutes=6)
    rig.cluster.create(TRAINING_JOBS, "team", make_job(workers=2))
    async with rig.running():
        await rig.advance(10)
        assert rig.count_pods("team") == 3
        assert "360 s apart" in rig.operator.describe_trouble()
        rig.drift = timedelta(minutes=4)
        assert rig.operator.describe_trouble() == ""


async def test_who_stands_by_keeps_no_name_of_a_job_that_has_gone_and_leads_with_all() -> None:
    rig = AssemblyRig()
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 15}
    rig.cluster.create(LEASES, "et-operator", {"metadata": {"name": "et-operator"}, "spec": spec})
    async with rig.running():
        await rig.advance(2)
        for number in range(20):
            job = rig.cluster.create(TRAINING_JOBS, "team", make_job(f"short-{number}"))
            await rig.advance(1)
            if number < 19:
                name = f"short-{number}"
                rig.cluster.delete(Ref(TRAINING_JOBS, "team", name), uid=job["metadata"]["uid"])
            rig.operator.measure()
            depth = rig.metrics.registry.get_sample_value("et_operator_workqueue_depth")
            assert not depth
            held = rig.cluster.get(Ref(LEASES, "et-operator", "et-operator"))
            if number < 19:
                renewed = {"spec": {"leaseTransitions": number}}
                rig.cluster.patch(Ref(LEASES, "et-operator", "et-operator"), renewed)
        assert held["spec"]["holderIdentity"] == "other"
        await rig.advance(40)
        assert rig.count_pods("team") == 3


async def test_who_has_led_keeps_no_name_of_a_job() -> None:
    rig = AssemblyRig()
    rig.cluster.create(TRAINING_JOBS, "team", make_job(activeDeadlineSeconds=60))
    lease = Ref(LEASES, "et-operator", "et-operator")
    async with rig.running():
        await rig.advance(10)
        assert rig.count_pods("team") == 3
        for number in range(90):
            held = {"holderIdentity": "other", "leaseTransitions": number}
            rig.cluster.patch(lease, {"spec": held})
            await rig.advance(1)
        rig.operator.measure()
        assert rig.metrics.registry.get_sample_value("et_operator_workqueue_depth") == 0
        rig.cluster.create(TRAINING_JOBS, "other", make_job())
        await rig.advance(40)
        assert rig.count_pods("other") == 3, "it leads again, with all jobs that are"


async def test_jobs_in_trouble_are_counted_by_it_and_no_word_of_others_makes_a_row() -> None:
    rig = AssemblyRig()
    for name, kinds in {
        "one": ["WorkersIdle", "Running"],
        "two": ["WorkersIdle", "MyOwn"],
        "three": ["YourOwn"],
        "over": ["WorkersIdle", "Failed"],
    }.items():
        job = make_job()
        job["metadata"]["name"] = name
        stored = rig.cluster.create(TRAINING_JOBS, "team", job)
        conditions = [{"type": kind, "status": "True", "reason": "R"} for kind in kinds]
        Ingest(rig.store).upsert(TRAINING_JOBS, {**stored, "status": {"conditions": conditions}})
    rig.operator.measure()
    family = "et_operator_job_troubles"
    rows = {
        sample.labels["condition"]: sample.value
        for found in rig.metrics.registry.collect()
        for sample in found.samples
        if sample.name == family
    }
    assert rows == {"WorkersIdle": 2, "other": 2}


@pytest.mark.parametrize("namespaces", [("team", "gone"), ()])
async def test_who_sees_no_namespace_is_not_ready(namespaces: tuple[str, ...]) -> None:
    rig = AssemblyRig(*namespaces)
    rig.refuse(lambda c: c.ref.resource == PODS, Refused(403, "Forbidden", "no such right"))
    async with rig.running():
        assert rig.operator.describe_trouble()
        await rig.advance(10)
        assert "pods is not complete yet" in rig.operator.describe_trouble()
        assert rig.count_unseen() == max(len(namespaces), 1)
        rig.log.faults.clear()
        await rig.advance(60)
        assert rig.operator.describe_trouble() == ""
        assert rig.count_unseen() == 0


@pytest.mark.long
async def test_a_namespace_that_can_be_listed_at_last_gets_what_its_jobs_ask_for() -> None:
    rig = AssemblyRig("team", "late")
    rig.refuse(lambda c: c.ref.namespace == "late", Refused(403, "Forbidden", "no such right"))
    rig.cluster.create(TRAINING_JOBS, "late", make_job(workers=2))
    async with rig.running():
        await rig.advance(10)
        assert rig.count_pods("late") == 0
        rig.log.faults.clear()
        await rig.advance(60)
        assert rig.count_pods("late") == 3


@pytest.mark.long
async def test_requests_that_fail_for_one_job_say_nothing_of_the_view_of_others() -> None:
    rig = AssemblyRig()
    webhook = ServerFailed(500, "InternalError", 'failed calling webhook "x": EOF')
    rig.refuse(lambda c: c.is_write and c.ref.namespace == "team", webhook)
    rig.cluster.create(TRAINING_JOBS, "team", make_job(workers=2))
    rig.cluster.create(TRAINING_JOBS, "else", make_job(workers=2))
    async with rig.running():
        await rig.advance(300)
        now, at = rig.clock.now(), rig.clock.monotonic()
        tried = [c for c in rig.log.calls if c.is_write and c.ref.namespace == "team"]
        assert len(tried) > 5
        since = rig.store.coverage.find_since("else", now=now, at=at)
        assert since is not None
        assert now - since > timedelta(seconds=290)


async def test_a_new_term_takes_its_own_lists_before_anything_is_planned() -> None:
    rig = AssemblyRig()
    async with rig.running():
        await rig.advance(5)
        is_held = ServerFailed(503, "ServiceUnavailable", "etcd has no leader")
        rig.refuse(lambda c: c.ref.resource == LEASES or c.verb == "list", is_held)
        await rig.advance(30)
        rig.log.faults.clear()
        rig.refuse(lambda c: c.verb == "list" and c.ref.resource == PODS, is_held)
        rig.cluster.create(TRAINING_JOBS, "team", make_job(workers=2))
        await rig.advance(60)
        assert rig.count_pods("team") == 0
        rig.log.faults.clear()
        await rig.advance(60)
        assert rig.count_pods("team") == 3


async def test_where_one_kind_was_set_back_all_are_and_answers_to_our_writes_too() -> None:
    rig = AssemblyRig()
    report = Ref(CONFIG_MAPS, "team", "train-report")
    async with rig.running():
        await rig.advance(5)
        rig.cluster.history.hold(CONFIG_MAPS)
        rig.cluster.create(TRAINING_JOBS, "team", make_job(workers=2))
        backup = rig.cluster.back_up()
        for _ in range(200):  # what the operator writes is newer than any list for a while
            rig.cluster.create(NODES, None, {"metadata": {"name": "n"}, "spec": {}})
            rig.cluster.remove(Ref(NODES, "", "n"))
        await rig.advance(5)
        assert rig.cluster.find(report) is not None
        rig.refuse(
            lambda c: c.verb == "watch" and c.ref.resource == PODS, Expired(410, "Expired", "old")
        )
        rig.cluster.restore(backup)
        assert rig.cluster.find(report) is None
        await rig.advance(10)
        believed = [entry.version for entry in rig.store.config_maps]
        assert all(version <= rig.cluster.history.revision for version in believed)
        await rig.advance(110)
        assert rig.cluster.find(report) is not None
