"""A HorizontalPodAutoscaler sizes a job by the memory of its workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes import client

from devcluster.settings import GATEWAY
from tests.e2e.doors import Json, open_door
from tests.e2e.playing import play
from tests.e2e.world import GROUP, RealWorld, build_job

pytestmark = pytest.mark.cluster

METRICS = "/apis/metrics.k8s.io/v1beta1"
NOW = "2026-01-01T00:00:00Z"
GREEDY = 10_000
"""MiB that launchers are said to use: whoever counts them in has the number too high."""


class Meter:
    """The metrics API of a cluster whose workers share a load of so much memory among them."""

    def __init__(self, world: RealWorld) -> None:
        self.mebibytes = 0
        self._world = world

    def answer(self, path: str, _: Json) -> Json | None:
        """What the API server asks for: the API's one resource, or the pods of a selector."""
        parts = urlsplit(path)
        if parts.path == METRICS:
            resource = {"name": "pods", "singularName": "", "namespaced": True}
            pods = {**resource, "kind": "PodMetrics", "verbs": ["get", "list"]}
            return {"kind": "APIResourceList", "groupVersion": METRICS[6:], "resources": [pods]}
        if parts.path != f"{METRICS}/namespaces/{self._world.namespace}/pods":
            return None
        selector = parse_qs(parts.query)["labelSelector"][0]
        pods = self._world.core.list_namespaced_pod(self._world.namespace, label_selector=selector)
        items = [self._measure(pod) for pod in find_running(pods.items)]
        return {"kind": "PodMetricsList", "apiVersion": METRICS[6:], "metadata": {}, "items": items}

    def _measure(self, pod: client.V1Pod) -> Json:
        role = pod.metadata.labels["training-job-role"]
        usage = self.mebibytes // self._count_workers() if role == "worker" else GREEDY
        name = pod.spec.containers[0].name
        return {
            "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
            "timestamp": NOW,
            "window": "10s",
            "containers": [{"name": name, "usage": {"cpu": "1m", "memory": f"{usage}Mi"}}],
        }

    def _count_workers(self) -> int:
        return len(find_running(self._world.pods("worker")))


def find_running(pods: Iterable[client.V1Pod]) -> list[client.V1Pod]:
    """Those that run."""
    return [pod for pod in pods if pod.status.phase == "Running"]


@pytest.fixture
def meter(world: RealWorld, tmp_path: Path) -> Iterator[Meter]:
    """The cluster's metrics API, as this test says."""
    meter = Meter(world)
    with open_door(meter.answer, tmp_path) as (url, certificate), register(world, url, certificate):
        yield meter


@contextmanager
def register(world: RealWorld, url: str, certificate: Path) -> Iterator[None]:
    """Make the API server serve this address as the metrics API."""
    services = client.ApiregistrationV1Api(world.core.api_client)
    port = urlsplit(url).port
    target = {"type": "ExternalName", "externalName": GATEWAY}
    world.core.create_namespaced_service(
        world.namespace, {"metadata": {"name": "m"}, "spec": target}
    )
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": world.namespace, "name": "m", "port": port},
        "insecureSkipTLSVerify": True,
    }
    name = "v1beta1.metrics.k8s.io"
    services.create_api_service({"metadata": {"name": name}, "spec": spec})
    try:
        yield
    finally:
        services.delete_api_service(name)


@pytest.mark.point("autoscaler")
def test_a_horizontal_pod_autoscaler_grows_and_shrinks_a_job(
    world: RealWorld, meter: Meter
) -> None:
    meter.mebibytes = 200
    world.create(build_job("auto", command=play(), workers=2))
    world.wait_for_size("auto", 2)
    client.AutoscalingV2Api(world.core.api_client).create_namespaced_horizontal_pod_autoscaler(
        world.namespace, build_autoscaler("auto")
    )

    meter.mebibytes = 390
    world.wait_for_size("auto", 4)
    world.wait(lambda: world.phase("auto") == "Running", "the scaling has ended")
    meter.mebibytes = 90
    world.wait_for_size("auto", 1)
    world.wait(lambda: world.worker_names() == ["auto-worker-0"], "the oldest worker is left")
    world.wait(lambda: world.phase("auto") == "Running", "the scaling has ended")
    job = world.get("trainingjobs", "auto")
    assert job["spec"]["etReplicaSpecs"]["worker"]["replicas"] == 1
    assert job["status"]["epoch"] == 1
    assert job["status"]["lastWorkerIndex"] == 3, "more than four workers were asked for"


def build_autoscaler(job: str) -> Json:
    """100 MiB for each worker, at once in both directions."""
    target = {"type": "AverageValue", "averageValue": "100Mi"}
    memory = {"type": "Resource", "resource": {"name": "memory", "target": target}}
    reference = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "TrainingJob", "name": job}
    return {
        "metadata": {"name": job},
        "spec": {
            "scaleTargetRef": reference,
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [memory],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }
