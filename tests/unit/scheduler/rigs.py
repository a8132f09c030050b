"""et-scheduler whole, against a cluster in memory where an operator's half carries out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from et_kube.resources import NODES, PODS, TRAINING_JOBS, TRAINING_QUEUES, Ref
from et_process.supervising import run_for_ever
from et_scheduler.assembly import Scheduler
from et_scheduler.codec.snapshots import Snapshot
from et_scheduler.measuring import Metrics
from et_scheduler.model.decisions import Decision
from et_scheduler.planning.passing import decide
from et_scheduler.settings import Settings
from fakes.carriers import Carrier, make_node, make_service
from fakes.clients import Call, CallLog, GuardedApi, Moment
from fakes.clock import FakeClock
from fakes.cluster import FakeCluster
from tests.makers import make_job

TICK = timedelta(milliseconds=250)
USER = "et-scheduler"
Document = dict[str, Any]


def make_held(name: str, least: int = 1, most: int = 4, cpu: int = 1, **spec: Any) -> Document:
    """A job in queue main with a launcher that requests nothing."""
    job = make_job(name, workers=least, minReplicas=least, maxReplicas=most, **spec)
    worker = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    worker["resources"] = {"requests": {"cpu": str(cpu)}}
    job["spec"].setdefault("queue", "main")
    return job


class SchedulerRig:
    """A cluster with nodes and queue main, and replicas of et-scheduler."""

    make_cluster: Callable[[Callable[[], datetime]], FakeCluster] = FakeCluster

    def __init__(
        self, nodes: int = 2, cpu: int = 4, replicas: int = 1, *, is_slow: bool = False, **own: Any
    ) -> None:
        self.clock = FakeClock()
        self.drift = timedelta()
        """How far the replicas' clocks are from the API server's."""
        self.cluster = self.make_cluster(self.clock.now)
        self.log = CallLog()
        self.carrier = Carrier(self.cluster, is_slow=is_slow)
        for number in range(nodes):
            self.cluster.create(NODES, None, make_node(f"node-{number}", cpu))
            self.cluster.edit(
                Ref(NODES, "", f"node-{number}"),
                lambda d: d.update(status=make_node("", cpu)["status"]),
            )
        self.create_queue("main")
        self.replicas = [self.make_replica(number, **own) for number in range(replicas)]

    def make_replica(self, number: int = 0, **own: Any) -> Scheduler:
        self.metrics = Metrics()
        return Scheduler(
            Settings(identity=f"replica-{number}", **own),
            GuardedApi(self.cluster, self.log, USER),  # type: ignore[arg-type]
            clock=self.clock,
            metrics=self.metrics,
            plan=self.plan,
            start=lambda work: work(),
            find_drift=lambda: self.drift,
        )

    async def plan(self, snapshot: Snapshot) -> Decision:
        """A pass in no time: a thread would not wait for the clock."""
        given = (snapshot.cluster, snapshot.queues, snapshot.jobs, snapshot.now, snapshot.rules)
        return decide(*given)

    def create_queue(self, name: str, **spec: Any) -> None:
        manifest = {"metadata": {"name": name}, "spec": spec}
        self.cluster.create(TRAINING_QUEUES, None, manifest)

    def create(self, *jobs: Document, namespace: str = "team") -> None:
        for job in jobs:
            self.cluster.create(TRAINING_JOBS, namespace, job)

    def add_services(self, count: int, cpu: int = 1, name: str = "service") -> None:
        for number in range(count):
            self.cluster.create(PODS, "web", make_service(f"{name}-{number}", cpu))

    def count_passes(self) -> int:
        """Passes of the newest replica."""
        results = ("changed", "unchanged", "error")
        return round(sum(self.metrics.passes.labels(r)._value.get() for r in results))

    def get(self, name: str) -> Document:
        status: Document = self.cluster.get(Ref(TRAINING_JOBS, "team", name)).get("status", {})
        return status.get("admission") or {}

    def count(self, name: str) -> int:
        """Its workers that have a node."""
        return sum(
            1
            for pod in self.cluster.scan(PODS)
            if pod["metadata"]["name"].startswith(f"{name}-worker-") and pod["spec"].get("nodeName")
        )

    def refuse(self, is_it: Callable[[Call], bool], error: Exception) -> None:
        def strike(call: Call, moment: Moment) -> None:
            if moment is Moment.BEFORE and is_it(call):
                raise error

        self.log.faults.append(strike)

    def list_writes(self) -> list[Call]:
        """What et-scheduler has written, its lease and Events left out."""
        return [
            call
            for call in self.log.list_writes(USER)
            if call.ref.resource in {TRAINING_JOBS, TRAINING_QUEUES}
        ]

    async def advance(self, seconds: float, *, is_carried: bool = True) -> None:
        for _ in range(round(seconds / TICK.total_seconds())):
            if is_carried:
                self.carrier.carry()
            await self.clock.advance(TICK)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_for_ever(one.tasks)) for one in self.replicas]
            yield
            for task in tasks:
                task.cancel()
