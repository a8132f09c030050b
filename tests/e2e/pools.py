"""Room of a test's own: a resource of which each worker takes a seat, queues, priorities.

Nobody else asks for that resource, so that jobs compete with those of their own test alone, on the
nodes that all tests share.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from http import HTTPStatus
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.e2e.histories import Bounds
from tests.e2e.light_jobs import FOREVER
from tests.e2e.world import GROUP, RealWorld, build_job

PROTECTED = timedelta(minutes=11)
"""After so long a job may be evicted."""


class Pool:
    """The seats of one test, and what it makes beside its namespace."""

    def __init__(self, world: RealWorld) -> None:
        self.world = world
        self.resource = f"seats.example.com/{world.namespace}"
        self._seats: dict[str, int] = {}
        self._limits: dict[str, int] = {}
        self._nodes = [node.metadata.name for node in world.core.list_node().items]
        self._classes: list[str] = []
        self._queues: list[str] = []

    def offer(self, *seats: int) -> None:
        """So many on the first node, on the second."""
        self._seats = dict(zip(self._nodes, seats, strict=False))
        for node, amount in self._seats.items():
            self._advertise(node, str(amount))

    def open_queue(self, name: str, *, limit: int | None = None, **spec: Any) -> str:
        """A queue whose jobs never have more than so many seats; its name in the cluster."""
        name = f"{name}-{self.world.namespace}"
        if limit is not None:
            self._limits[name] = limit
            spec["limits"] = {self.resource: str(limit)}
        self._queues.append(name)
        create_queue(self.world, name, **spec)
        return name

    def open_class(self, name: str, value: int) -> str:
        """A priority class; its name in the cluster."""
        name = f"{name}-{self.world.namespace}"
        meta = client.V1ObjectMeta(name=name)
        self._classes.append(name)
        self._scheduling.create_priority_class(client.V1PriorityClass(metadata=meta, value=value))
        return name

    def build(
        self,
        name: str,
        queue: str,
        bounds: tuple[int, int],
        command: Sequence[str] = (),
        **worker: Any,
    ) -> dict[str, Any]:
        """A job in the queue, of one seat a worker; without a command it trains nothing."""
        least, most = bounds
        asked = [*command] or ["sh", "-c", FOREVER]
        sizes = {"workers": least, "minimum": least, "maximum": most}
        job = build_job(name, command=asked, queue=queue, **sizes)
        template = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
        template.update(worker)
        if not command:  # a SIGTERM that Python was not there yet to hear is lost
            template["terminationGracePeriodSeconds"] = 5
        template["containers"][0]["resources"] = self.request(1)
        return job

    def request(self, seats: int) -> dict[str, dict[str, str]]:
        """The resources of a container that takes so many."""
        amounts = {self.resource: str(seats)}
        return {"requests": amounts, "limits": amounts}

    def age(self, job: str) -> None:
        """As if the job had been admitted so long ago that it may be evicted."""
        since = datetime.fromisoformat(find_admission(self.world, job)["since"]) - PROTECTED
        place = (GROUP, "v1alpha1", self.world.namespace, "trainingjobs", job)
        body = {"status": {"admission": {"since": since.isoformat()}}}
        self.world.custom.patch_namespaced_custom_object_status(*place, body)

    def close(self) -> None:
        """Leave nothing of it."""
        for name in self._queues:
            delete_queue(self.world, name)
        for name in self._classes:
            self._scheduling.delete_priority_class(name)
        for node in self._seats:
            self._advertise(node, None)

    @property
    def bounds(self) -> Bounds:
        """What there is of them."""
        nodes, limits = (
            {name: Decimal(seats) for name, seats in one.items()}
            for one in (self._seats, self._limits)
        )
        return Bounds(self.resource, nodes, limits)

    @property
    def _scheduling(self) -> client.SchedulingV1Api:
        return client.SchedulingV1Api(self.world.core.api_client)

    def _advertise(self, node: str, amount: str | None) -> None:
        amounts = {self.resource: amount}
        body = {"status": {"capacity": amounts, "allocatable": amounts}}
        self.world.core.patch_node_status(node, body)


def create_queue(world: RealWorld, name: str, **spec: Any) -> None:
    """A queue of the cluster."""
    kind = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "TrainingQueue"}
    body = {**kind, "metadata": {"name": name}, "spec": spec}
    world.custom.create_cluster_custom_object(GROUP, "v1alpha1", "trainingqueues", body)


def delete_queue(world: RealWorld, name: str) -> None:
    """Whoever is in it; one that is gone stays so."""
    try:
        world.custom.delete_cluster_custom_object(GROUP, "v1alpha1", "trainingqueues", name)
    except ApiException as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


def find_admission(world: RealWorld, job: str) -> dict[str, Any]:
    """What et-scheduler has told the job."""
    admission: dict[str, Any] = world.status("trainingjobs", job).get("admission") or {}
    return admission
