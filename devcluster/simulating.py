"""Simulated nodes: Node objects whose pods KWOK pretends to run.

What runs on them is in no process: pods are Running as KWOK's stages say. Only pods that tolerate
their taint come there, and real nodes are left as they are.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from devcluster import building, networks, processes, reporting
from devcluster.clients import Client, is_node_ready
from devcluster.commands import wait_until
from devcluster.failures import DevclusterError
from devcluster.settings import GATEWAY, Cluster

_PREFIX = "simulated-"
_RESOURCES = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "1000"}
_READY_SECONDS = 120.0
_WORKERS = 8
_KUBELET_PORT = 10247


def read_count(cluster: Cluster) -> int:
    """Return how many simulated nodes the last ``up`` asked for."""
    path = cluster.state / "simulated"
    return int(path.read_text()) if path.exists() else 0


def simulate(cluster: Cluster, count: int, client: Client) -> None:
    """Have exactly this many simulated nodes, and KWOK running if there are any."""
    (cluster.state / "simulated").write_text(str(count))
    if count:
        _start_kwok(cluster)
    present = {
        name
        for node in client.list_nodes()
        if (name := node["metadata"]["name"]).startswith(_PREFIX)
    }
    wanted = {f"{_PREFIX}{number}" for number in range(1, count + 1)}
    with ThreadPoolExecutor(_WORKERS) as pool:
        list(
            pool.map(
                lambda name: client.create("/api/v1/nodes", write_node(name)),
                sorted(wanted - present),
            )
        )
        list(
            pool.map(lambda name: client.delete(f"/api/v1/nodes/{name}"), sorted(present - wanted))
        )
    if wanted:
        _wait_ready(cluster, wanted, client)
    if not count:
        processes.stop(cluster, "kwok")


def write_node(name: str) -> dict[str, Any]:
    """Return the Node object of a simulated node; only pods that tolerate its taint go there."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "spec": {
            "taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]
        },
        "status": {"allocatable": _RESOURCES, "capacity": _RESOURCES},
    }


def _start_kwok(cluster: Cluster) -> None:
    if processes.find(cluster, "kwok"):
        return
    program = building.find_kwok(cluster.cache)
    configuration = cluster.state / "kwok.json"
    content = {
        "kind": "ClusterExec",
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "metadata": {"name": "all"},
        "spec": {"execs": [{"local": {"workDir": "/"}}]},
    }
    configuration.write_text(json.dumps(content))
    arguments = {
        "kubeconfig": cluster.certificates / "simulator.conf",
        "config": configuration,
        "manage-all-nodes": "false",
        "manage-nodes-with-annotation-selector": "kwok.x-k8s.io/node=fake",
        "cidr": "10.88.0.0/16",
        "v": "WARN",
        "node-ip": GATEWAY,
        "node-port": _KUBELET_PORT,
        "tls-cert-file": cluster.certificates / "simulator.crt",
        "tls-private-key-file": cluster.certificates / "simulator.key",
    }
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    flags.append(f"--config={building.find_kwok_stages(cluster.cache)}")
    processes.start(cluster, "kwok", [*networks.enter(cluster.namespace), program, *flags])


def _wait_ready(cluster: Cluster, wanted: set[str], client: Client) -> None:
    def count_missing() -> int:
        return len(
            wanted
            - {node["metadata"]["name"] for node in client.list_nodes() if is_node_ready(node)}
        )

    def is_over() -> bool:
        return not count_missing() or not processes.find(cluster, "kwok")

    with reporting.step(f"waiting for {len(wanted)} simulated nodes"):
        wait_until(is_over, seconds=_READY_SECONDS, interval=0.5)
        if count_missing():
            log = processes.find_log(cluster, "kwok")
            message = f"{count_missing()} simulated nodes are not ready: see {log}"
            raise DevclusterError(message)
