"""EDL's experiments on simulated nodes: jobs and services of its report, made when it made them.

edl_1 and edl_2 say when what happens; here is what nodes, jobs and services are. The nodes are
those of et-scheduler's simulator; all of it is gone afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any

from benchmarks.apis import IN_FLIGHT, build_path, wait_for
from benchmarks.benches import Site
from benchmarks.brokers import Brokers
from benchmarks.lives import LABEL_KIND, Kind, Lives
from benchmarks.manifests import SIMULATED, build_job
from benchmarks.namespaces import make_namespace
from benchmarks.queues import have_object, have_queue
from benchmarks.storms import LONGEST, make_all
from devcluster.settings import OPERATOR_IMAGE
from devcluster.simulating import write_node
from et_scheduler.simulating.cases import COMPANIONS, build_nodes

NODE_TYPE = "edl"
PLACING = {**SIMULATED, "nodeSelector": {"type": NODE_TYPE}}
LEAST, MOST = 2, 60
TRAINER = {"cpu": "5", "memory": "8Gi"}
COMPANION = {"cpu": "4", "memory": "5Gi"}
SERVICE = {"cpu": "3", "memory": "3Gi"}
COMMAND = [
    *("horovodrun", "-np", str(LEAST), "--min-np", str(LEAST), "--max-np", str(MOST)),
    *("--host-discovery-script", "/etc/edl/discover_hosts.sh", "train"),
]
SERVICE_CLASS, LAUNCHER_CLASS = "bench-service", "bench-launcher"
_PRIORITIES = {SERVICE_CLASS: 1000, LAUNCHER_CLASS: 1}
"""Of launchers above that of trainers, as the documents advise."""
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_NODES = "/api/v1/nodes"
TIDE = "tide"
BARE_SAMPLES = 5


class Experiment:
    """One that is under way. Its seconds count from `begin`; until then they are below 0.

    With a `queue` its jobs are in it; without one each wants `size` trainers, as where EDL was off.
    """

    def __init__(self, site: Site, namespace: str, queue: str, size: int) -> None:
        self.site, self.namespace, self.queue, self.size = site, namespace, queue, size
        self.lives = Lives()
        self.jobs: dict[str, float] = {}
        """When each was created."""
        self._begun = float("inf")

    @property
    def now(self) -> float:
        """Seconds since the begin."""
        return max(self.site.clock.monotonic() - self._begun, -1.0)

    def begin(self) -> None:
        """The first second is now."""
        self._begun = self.site.clock.monotonic()

    async def wait_until(self, second: float) -> None:
        """Wait until this second; at once where it is over."""
        await self.site.clock.sleep(timedelta(seconds=second - self.now))

    async def submit(self) -> None:
        """One more job, with its companions."""
        name = f"job-{len(self.jobs):02}"
        self.jobs[name] = self.now
        job = build_edl_job(name, self.queue, self.size)
        await self.site.api.create(build_path("trainingjobs", self.namespace), job)
        companions = build_replica_set(f"{name}-companions", Kind.COMPANION, COMPANIONS, COMPANION)
        await self.site.api.create(self._build_sets_path(), companions)

    async def open_tide(self, count: int) -> None:
        """So many pods of a service of higher priority, all on nodes when this returns."""
        tide = build_replica_set(TIDE, Kind.SERVICE, count, SERVICE, SERVICE_CLASS)
        await self.site.api.create(self._build_sets_path(), tide)

        async def are_there() -> bool:
            return sum(one.bound is not None for one in self.lives.select(Kind.SERVICE)) == count

        await wait_for(are_there, f"{count} pods of services have nodes", seconds=LONGEST)

    async def set_tide(self, count: int) -> None:
        """So many of them from now on."""
        await self.site.api.patch(
            f"{self._build_sets_path()}/{TIDE}", {"spec": {"replicas": count}}
        )

    async def follow(self) -> None:
        """Take in what a watch tells of pods, until cancelled."""
        path = build_path("pods", self.namespace)
        async with aclosing(self.site.api.watch(path)) as events:
            async for event in events:
                self.lives.note(self.now, event)

    async def clear(self) -> None:
        """Nothing makes pods any more."""
        await self.site.api.delete(self._build_sets_path())
        await self.site.api.delete(build_path("trainingjobs", self.namespace))

    def _build_sets_path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/replicasets"


@asynccontextmanager
async def run_experiment(site: Site, title: str, *, size: int = 0) -> AsyncIterator[Experiment]:
    """An experiment in a namespace of its own; all of it is gone afterwards.

    `size` 0: with a queue.
    """
    async with AsyncExitStack() as stack:
        namespace = await stack.enter_async_context(make_namespace(site, title))
        queue = "" if size else namespace
        if queue:
            await stack.enter_async_context(have_queue(site, queue))
        experiment = Experiment(site, namespace, queue, size)
        stack.push_async_callback(experiment.clear)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        brokers = Brokers(site.api, namespace)
        tasks = [group.create_task(experiment.follow()), group.create_task(brokers.run())]
        try:
            yield experiment
        finally:
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def have_nodes(site: Site) -> AsyncIterator[None]:
    """EDL's 133 nodes and the priorities that are used, as long as the body runs."""
    nodes = [build_node(node.name, node.allocatable["cpu"] // 1000) for node in build_nodes()]
    async with AsyncExitStack() as stack:
        for name, value in _PRIORITIES.items():
            body = {"kind": "PriorityClass", "value": value}
            await stack.enter_async_context(have_object(site, _CLASSES, name, body))
        gate = asyncio.Semaphore(IN_FLIGHT)
        try:
            await asyncio.gather(*(_create_node(site, node, gate) for node in nodes))

            async def are_ready() -> bool:
                found = await site.api.get(_NODES, labelSelector=f"type={NODE_TYPE}")
                return sum(map(_is_ready, found["items"])) == len(nodes)

            await wait_for(are_ready, f"{len(nodes)} simulated nodes are ready", interval=1.0)
            yield
        finally:
            await site.api.delete(_NODES, labelSelector=f"type={NODE_TYPE}")


async def measure_bare(
    site: Site, count: int = 1 + LEAST, samples: int = BARE_SAMPLES
) -> tuple[float, ...]:
    """Seconds in which a script has so many pods on nodes, some times one after the other."""
    found = []
    for number in range(samples):
        async with make_namespace(site, f"bare-{number}") as namespace:
            pods = [build_pod(f"bare-{place}") for place in range(count)]
            found.append(await make_all(site, build_path("pods", namespace), pods))
    return tuple(found)


def build_pod(name: str, requests: Mapping[str, str] = TRAINER) -> dict[str, Any]:
    """A pod that no operator makes, on the simulated nodes."""
    container = {
        "name": "main",
        "image": OPERATOR_IMAGE,
        "resources": {"requests": dict(requests)},
    }
    spec = {"containers": [container], "automountServiceAccountToken": False, **PLACING}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def build_node(name: str, cpu: int) -> dict[str, Any]:
    """A simulated node of so many CPUs and four times as many GiB."""
    node = write_node(f"{NODE_TYPE}-{name}")
    amounts = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110"}
    node["metadata"]["labels"]["type"] = NODE_TYPE
    node["status"] = {"allocatable": amounts, "capacity": amounts}
    return node


def build_edl_job(name: str, queue: str, size: int) -> dict[str, Any]:
    """A job of 2 to 60 trainers; without a queue of so many."""
    job = build_job(name, workers=size or LEAST, command=COMMAND, placing=PLACING)
    roles = job["spec"]["etReplicaSpecs"]
    roles["launcher"]["template"]["spec"]["priorityClassName"] = LAUNCHER_CLASS
    worker = roles["worker"]
    worker["template"]["spec"]["containers"][0]["resources"] = {"requests": TRAINER}
    if queue:
        worker |= {"minReplicas": LEAST, "maxReplicas": MOST}
        job["spec"]["queue"] = queue
    return job


def build_replica_set(
    name: str, kind: Kind, count: int, requests: Mapping[str, str], priority: str = ""
) -> dict[str, Any]:
    """So many pods that Kubernetes' own controller makes."""
    labels = {"set": name, LABEL_KIND: kind.value}
    pod = build_pod(name, requests)
    pod["spec"] |= {"priorityClassName": priority} if priority else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"set": name}},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }


async def _create_node(site: Site, node: Mapping[str, Any], gate: asyncio.Semaphore) -> None:
    async with gate:
        await site.api.delete(f"{_NODES}/{node['metadata']['name']}")
        await site.api.create(_NODES, node)


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node["status"].get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
