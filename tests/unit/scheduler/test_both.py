"""Operator and et-scheduler together: what one writes the other reads, and carries out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from et_kube.clock import Clock
from et_kube.errors import OutcomeUnknown, Refused
from et_kube.resources import (
    EVENTS,
    PODS,
    SCALE_OUTS,
    TRAINING_JOBS,
    TRAINING_QUEUES,
    Json,
    Ref,
    Resource,
)
from et_operator.assembly import Operator
from et_operator.measuring import Metrics
from et_operator.settings import Queueing, Settings
from et_operator.state.store import Store
from et_process.supervising import run_for_ever
from fakes.broker import FakeBroker
from fakes.clients import Call, GuardedApi, Moment
from fakes.kubelet import FakeKubelet
from tests.unit.scheduler.rigs import SchedulerRig, make_held

pytestmark = pytest.mark.usefixtures("quiet_logs")


class SlowApi(GuardedApi):
    """Of a server that asks others what it would create."""

    clock: Clock

    def guarded(self, guard: Callable[[], None]) -> SlowApi:
        client = SlowApi(self._cluster, self._log, self._user)
        client.guard, client.clock = guard, self.clock
        return client

    async def dry_run(self, resource: Resource, namespace: str | None, manifest: Json) -> Json:
        await self.clock.sleep(timedelta(seconds=1))
        return await super().dry_run(resource, namespace, manifest)


class Pair(SchedulerRig):
    """With the operator in the place of its stand-in; pods are bound, and run at once."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.operator = self.make_operator()

    def make_operator(self, queueing: Queueing = Queueing.OPTIONAL) -> Operator:
        api = SlowApi(self.cluster, self.log)
        api.clock = self.clock
        return Operator(
            Settings(broker_image="broker:1", workers=4, queueing=queueing),
            api,  # type: ignore[arg-type]
            Store(),
            clock=self.clock,
            metrics=Metrics(),
        )

    async def advance(self, seconds: float, *, is_carried: bool = True) -> None:
        for _ in range(round(seconds * 2)):
            self.carrier.bind()
            self.carrier.let_go()
            await self.clock.advance(timedelta(seconds=0.5))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            every = [run_for_ever(one.tasks) for one in (*self.replicas, self.operator)]
            tasks = [group.create_task(one) for one in every]
            yield
            for task in tasks:
                task.cancel()

    @asynccontextmanager
    async def set_to(self, queueing: Queueing) -> AsyncIterator[None]:
        """With an operator of this setting, after all that the one before has left."""
        self.operator = self.make_operator(queueing)
        async with self.running():
            await self.advance(20)
            yield

    def find_admitted(self, name: str) -> tuple[str, str, str]:
        """Status, reason and message of its condition; empty where it has none."""
        for one in self.find_status(name).get("conditions", ()):
            if one["type"] == "Admitted":
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def find_status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.get(Ref(TRAINING_JOBS, "team", name))["status"]
        return found


async def test_a_job_is_held_answered_started_and_makes_room() -> None:
    pair = Pair(nodes=2, cpu=4)
    pair.create(make_held("one", least=2, most=6))
    async with pair.running():
        await pair.advance(10)
        assert pair.get("one")["state"] == "Admitted"
        assert pair.find_status("one")["admittedNumber"] == 1
        size = pair.get("one")["workers"]
        assert pair.count("one") == size > 2
        pair.create(make_held("late", least=9, most=9))
        await pair.advance(5)
        status = pair.find_status("late")
        assert status["phase"] == "Waiting"
        assert status["admission"]["reason"] == "TooLarge"
        assert not [p for p in pair.cluster.list(PODS) if p["metadata"]["name"].startswith("late")]
        spec = pair.cluster.get(Ref(TRAINING_JOBS, "team", "one"))["spec"]["etReplicaSpecs"]
        assert spec["worker"]["replicas"] == 2
    assert [e["note"] for e in pair.cluster.list(EVENTS) if e["reason"] == "Unreadable"] == []


class Trained(Pair):
    """Kubelets and brokers are there too."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.broker = FakeBroker(self.cluster)
        self.kubelet = FakeKubelet(self.cluster, nodes=())

    async def train(self, seconds: float) -> set[str]:
        """Let time pass; the names of the workers that et-scheduler wants to go meanwhile."""
        asked: set[str] = set()
        for _ in range(round(seconds * 2)):
            await self.advance(0.5)
            self.carrier.bind()
            self.kubelet.step()
            self.broker.step()
            asked |= set(self.get("one").get("leaving", ()))
        return asked


@pytest.mark.long
@pytest.mark.parametrize(("most", "cpu"), [(3, 4), (6, 4), (6, 3)])
async def test_a_worker_that_is_used_up_is_replaced_and_the_admission_stays(
    most: int, cpu: int
) -> None:
    """Fixed or not, and where another one has room only when it has left."""
    pair = Trained(nodes=2, cpu=cpu)
    pair.create(make_held("one", least=3, most=most))
    async with pair.running():
        await pair.train(30)
        hosts, before = pair.broker.find_hosts("one"), pair.get("one")
        assert len(hosts) == pair.count("one") == most
        pair.broker.use_up("one", hosts[1])
        assert not await pair.train(30)
        left, after = pair.broker.find_hosts("one"), pair.get("one")
        assert len(left) == pair.count("one") == most
        assert set(hosts) - set(left) == {hosts[1]}
        assert (after["state"], after["workers"]) == (before["state"], before["workers"])


@pytest.mark.long
async def test_who_gets_no_answer_in_time_is_in_line_and_told_what_is_missing() -> None:
    """Webhooks that take longer, all together, than a call may: a creation may get through."""
    pair = Pair(nodes=2, cpu=4)

    def hang(call: Call, moment: Moment) -> None:
        if call.verb == "dry-run" and moment is Moment.AFTER:
            raise OutcomeUnknown("no answer within 15 s")

    async with pair.running():
        pair.create(make_held("first", least=7, most=7))
        await pair.advance(20)
        pair.log.faults.append(hang)
        pair.create(make_held("late", least=2, most=2))
        await pair.advance(120)
        status = pair.find_status("late")
        tries = sum(call.verb == "dry-run" for call in pair.log.calls)
        await pair.advance(600)
        assert sum(call.verb == "dry-run" for call in pair.log.calls) - tries <= 2 * 10
    (told,) = [one for one in status["conditions"] if one["type"] == "Admitted"]
    assert (told["status"], told["reason"]) == ("False", "Waiting")
    assert "no answer within 15 s" in told["message"]
    assert status["admission"]["reason"] == "NoRoom"


@pytest.mark.long
async def test_nobody_goes_for_who_would_have_no_pods_and_he_waits_again_once_he_would() -> None:
    pair = Pair(nodes=2, cpu=4)
    pair.create_queue("other")
    pair.create(*(make_held(name, least=1, most=1) for name in "abcdef"))
    quota = Refused(403, "Forbidden", "pods is forbidden: exceeded quota: gpus")

    def is_elsewhere(call: Call) -> bool:
        return call.verb == "dry-run" and call.ref.namespace == "elsewhere"

    async with pair.running():
        await pair.advance(11 * 60)
        assert [pair.count(name) for name in "abcdef"] == [1] * 6
        pair.refuse(is_elsewhere, quota)
        pair.create(make_held("late", least=1, most=4, queue="other"), namespace="elsewhere")
        await pair.advance(60)
        late = Ref(TRAINING_JOBS, "elsewhere", "late")
        [admitted] = [
            one
            for one in pair.cluster.get(late)["status"]["conditions"]
            if one["type"] == "Admitted"
        ]
        assert (admitted["status"], admitted["reason"]) == ("False", "PodsRefused")
        assert "exceeded quota: gpus" in admitted["message"]
        assert [pair.count(name) for name in "abcdef"] == [1] * 6
        pair.log.faults.clear()
        await pair.advance(120)
        assert pair.count("late") >= 1
        worker = pair.cluster.get(late)["status"]["shapes"]["pods"][1]
        assert (worker["priority"], worker["preemptionPolicy"]) == (0, "PreemptLowerPriority")
        assert worker["priorityClassName"] == ""


@pytest.mark.long
async def test_a_job_whose_workers_are_reached_by_ssh_waits_in_line_and_starts() -> None:
    pair = Pair(nodes=1, cpu=2)
    pair.create(make_held("first", least=1, most=1))
    async with pair.running():
        await pair.advance(5)
        pair.create(make_held("one", least=1, most=1, launcherAttachMode="ssh"))
        await pair.advance(10)
        assert pair.find_status("one")["phase"] == "Waiting"
        pair.cluster.delete(Ref(TRAINING_JOBS, "team", "first"))
        for _ in range(4):
            pair.cluster.collect_garbage()
            await pair.advance(5)
        assert pair.count("one") == 1


@pytest.mark.long
async def test_a_new_job_that_would_have_no_pods_is_given_no_room_that_is_free() -> None:
    pair = Pair(nodes=2, cpu=4)
    pair.refuse(
        lambda call: call.verb == "dry-run" and call.ref.name.startswith("new-worker"),
        Refused(403, "Forbidden", "pods is forbidden: exceeded quota: gpus"),
    )
    pair.create(make_held("new", least=6, most=6))
    async with pair.running():
        await pair.advance(5)
        pair.create(make_held("next", least=6, most=6))
        await pair.advance(5)
        status = pair.find_status("new")
        assert "admission" not in status
        assert "exceeded quota: gpus" in str(status["conditions"])
        assert pair.count("next") == 6
        pair.log.faults.clear()
        await pair.advance(30)
        assert pair.find_status("new")["admission"]["reason"] == "NoRoom"


def make_plain(name: str, workers: int) -> Json:
    """A job that names no queue."""
    job = make_held(name, least=workers, most=workers)
    del job["spec"]["queue"]
    return job


@pytest.mark.long
async def test_where_queues_are_required_who_names_none_waits_in_the_one_called_default() -> None:
    pair = Pair(nodes=2, cpu=4)
    async with pair.set_to(Queueing.REQUIRED):
        pair.create(make_plain("one", 2))
        await pair.advance(10)
        told = pair.find_admitted("one")
        assert told[:2] == ("False", "Waiting")
        assert "no queue default: create a TrainingQueue of that name" in told[2]
        assert "or name another one in spec.queue" in told[2]
        assert pair.find_status("one")["phase"] == "Waiting"
        pair.create_queue("default", limits={"cpu": "4"})
        await pair.advance(10)
        assert pair.count("one") == 2
        assert (pair.get("one")["queue"], pair.get("one")["elasticity"]) == ("default", "Fixed")
        pair.create(make_plain("two", 3))
        await pair.advance(10)
        assert pair.get("two")["reason"] == "AtLimit"


@pytest.mark.long
async def test_the_setting_says_how_a_job_starts_and_changes_nothing_of_one_that_runs() -> None:
    pair = Pair(nodes=2, cpu=4)
    pair.create_queue("default", limits={"cpu": "3"})
    async with pair.set_to(Queueing.OPTIONAL):
        pair.create(make_plain("before", 1))
        await pair.advance(6)
        assert pair.count("before") == 1
    async with pair.set_to(Queueing.REQUIRED):
        pair.create(make_plain("queued", 2), make_plain("late", 2))
        await pair.advance(6)
        assert pair.find_admitted("before") == ("", "", "")
        assert [pair.count(name) for name in ("before", "late", "queued")] == [1, 2, 0]
        assert pair.get("queued")["reason"] == "AtLimit"
    async with pair.set_to(Queueing.OPTIONAL):
        assert [pair.count(name) for name in ("before", "late", "queued")] == [1, 2, 2]
        assert pair.find_admitted("queued")[:2] == ("False", "NoQueue")
        assert pair.find_admitted("late")[:2] == ("True", "Admitted")
        assert pair.find_status("before")["epoch"] == pair.find_status("late")["epoch"] == 1
        line = pair.cluster.get(Ref(TRAINING_QUEUES, "", "default"))["status"]
        assert (line["waiting"], line["running"]) == (0, 1)
    async with pair.set_to(Queueing.REQUIRED):
        assert [pair.count(name) for name in ("before", "late", "queued")] == [1, 2, 2]
        assert pair.find_status("queued")["epoch"] == 1
        assert pair.get("queued")["state"] == "Waiting"
        suspend(pair, "queued", is_wanted=True)
        await pair.advance(6)
        suspend(pair, "queued", is_wanted=False)
        await pair.advance(6)
        assert pair.find_admitted("queued")[:2] == ("False", "Waiting")
        assert pair.count("queued") == 0


@pytest.mark.long
async def test_a_scale_out_of_a_fixed_job_stays_within_its_queue_until_there_is_room() -> None:
    pair = Pair(nodes=2, cpu=4)
    pair.create_queue("narrow", limits={"cpu": "4"})
    held = {"queue": "narrow", "elasticity": "Fixed"}
    pair.create(
        make_held("one", least=1, most=6, **held), make_held("two", least=2, most=2, **held)
    )
    out = {"selector": {"name": "one"}, "toAdd": {"count": 2}}
    async with pair.running():
        await pair.advance(6)
        assert (pair.count("one"), pair.count("two")) == (1, 2)
        pair.cluster.create(SCALE_OUTS, "team", {"metadata": {"name": "more"}, "spec": out})
        await pair.advance(6)
        job = pair.cluster.get(Ref(TRAINING_JOBS, "team", "one"))
        assert job["spec"]["etReplicaSpecs"]["worker"]["replicas"] == 3
        assert (job["status"]["admission"]["workers"], pair.count("one")) == (1, 1)
        assert job["status"]["phase"] == "Scaling"
        pair.cluster.delete(Ref(TRAINING_JOBS, "team", "two"))
        pair.cluster.collect_garbage()
        await pair.advance(6)
        assert (pair.get("one")["workers"], pair.count("one")) == (3, 3)


@pytest.mark.long
async def test_who_has_lost_its_admission_stays_in_its_queue_and_is_told_again() -> None:
    """Definitions of a former version were there for a while, say."""
    pair = Pair(nodes=2, cpu=4)
    pair.create_queue("narrow", limits={"cpu": "5"})
    held = {"queue": "narrow", "least": 2, "most": 2}
    pair.create(make_held("one", **held), make_held("two", elasticity="Fixed", **held))
    async with pair.running():
        await pair.advance(6)
        before = {name: pair.get(name) for name in ("one", "two")}
        pair.create(make_held("three", **held))
        await pair.advance(6)
        assert [pair.count(name) for name in ("one", "two", "three")] == [2, 2, 0]
        for name in before:
            ref = Ref(TRAINING_JOBS, "team", name)
            pair.cluster.patch(ref, {"status": {"admission": None}}, subresource="status")
        await pair.advance(6)
        assert [pair.count(name) for name in ("one", "two", "three")] == [2, 2, 0]
        for name, was in before.items():
            now = pair.get(name)
            for key in ("number", "state", "queue", "elasticity", "workers"):
                assert now[key] == was[key]
            assert "boundAt" in now
        assert pair.get("three")["reason"] == "AtLimit"
        edit = {"spec": {"etReplicaSpecs": {"worker": {"replicas": 1, "minReplicas": 1}}}}
        pair.cluster.patch(Ref(TRAINING_JOBS, "team", "two"), edit)
        await pair.advance(6)
        assert pair.get("two")["workers"] == 1


def suspend(pair: Pair, name: str, *, is_wanted: bool) -> None:
    pair.cluster.patch(Ref(TRAINING_JOBS, "team", name), {"spec": {"suspend": is_wanted}})
