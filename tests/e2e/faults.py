"""What tests break from outside, as somebody with root on the machine: nodes and processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes import client

from devcluster import cgroups
from devcluster.nodes import find_node
from devcluster.settings import find_cluster
from tests.e2e.operators import Operators, is_ready
from tests.e2e.world import RealWorld, devcluster

HOSTNAME = "kubernetes.io/hostname"
ONE_ON_EACH = {
    "maxSkew": 1,
    "topologyKey": HOSTNAME,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"training-job-role": "worker"}},
}
LEAVE_SOON = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]
"""For pods whose node is lost: the cluster deletes them after so many seconds."""


def find_nodes() -> tuple[str, str]:
    """The operator's node, which stays whole, and the other one."""
    operators = Operators()
    home: str = operators.wait_for_leader().spec.node_name
    nodes = operators.world.core.list_node().items
    [away] = [node.metadata.name for node in nodes if node.metadata.name != home]
    return home, away


def get_spec(job: dict[str, Any], role: str) -> dict[str, Any]:
    """The spec of a role's pods, to be changed."""
    found: dict[str, Any] = job["spec"]["etReplicaSpecs"][role]["template"]["spec"]
    return found


@contextmanager
def broken(node: str, fault: str, remedy: str) -> Iterator[None]:
    """A node with a fault inside, mended afterwards."""
    devcluster("fault", fault, node)
    try:
        yield
    finally:
        devcluster("fault", remedy, node)


def wait_until_lost(world: RealWorld, name: str) -> None:
    """Until the cluster has noticed, after 20 s, that nothing is heard of a node."""
    world.wait(lambda: not is_ready(world.core.read_node(name)), f"{name} is not ready", 60)


def wait_until_back(world: RealWorld, name: str) -> None:
    """Until the node is ready."""
    world.wait(lambda: is_ready(world.core.read_node(name)), f"{name} is ready", 60)


def find_pod(world: RealWorld, name: str) -> client.V1Pod | None:
    """A pod of the job, the dying ones too."""
    return next((pod for pod in world.pods() if pod.metadata.name == name), None)


def find_processes(uid: str, words: str = "") -> list[int]:
    """Of the job or pod with this uid, on whatever node, with these words on their command line."""
    found = []
    for pid in cgroups.list_processes(find_cluster()):
        folder = Path(f"/proc/{pid}")
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
            environment = (folder / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words.encode() in line and uid.encode() in environment:
            found.append(pid)
    return found


def kill(pids: list[int]) -> None:
    """SIGKILL, for at least one."""
    assert pids, "there is nothing to kill"
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def read_log_on_node(pod: client.V1Pod, container: str) -> str:
    """A container's log as its node keeps it, which no API server is needed to read."""
    folder = find_node(find_cluster(), pod.spec.node_name).folder / "pods"
    name = f"{pod.metadata.namespace}_{pod.metadata.name}_{pod.metadata.uid}"
    return "".join(path.read_text() for path in sorted((folder / name / container).glob("*.log")))
