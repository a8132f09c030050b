"""Starting, mending, showing and ending a whole cluster.

The order of everything that a cluster consists of; how a part is started is in its own module.
Whatever was interrupted, the next `up` or `down` goes on from what is there.
"""

import shutil

from devcluster import (
    building,
    certificates,
    cgroups,
    checks,
    controlplane,
    images,
    networks,
    nodes,
    processes,
    reporting,
    simulating,
)
from devcluster.clients import is_node_ready
from devcluster.failures import DevclusterError
from devcluster.settings import DEFAULT_NODES, Cluster

_PARTS_OF_NODE = ("holder", "containerd", "kubelet")


def bring_up(cluster: Cluster, node_count: int | None, simulated: int | None) -> None:
    """Start what does not run of the cluster; a cluster of which nothing runs begins empty.

    ``node_count`` and ``simulated`` say how many nodes there shall be; None leaves them as they
    are. Real nodes are only added.
    """
    checks.check_programs(checks.RUNTIME_PROGRAMS)
    checks.check_disk(cluster.cache)
    kube = building.find_kube(cluster.cache, cluster.release)
    pause = images.find_pause_image(cluster.cache)
    if not cgroups.list_processes(cluster):
        checks.check_memory()
        take_down(cluster)
        shutil.rmtree(cluster.logs, ignore_errors=True)
    keep_release(cluster)
    present = len(nodes.list_nodes(cluster))
    wanted = max(node_count or (present or DEFAULT_NODES), present)
    targets = [cluster.node(number) for number in range(1, wanted + 1)]
    cgroups.make_groups(cluster, ["system", *(node.name for node in targets)])
    networks.make_cluster_network(cluster)
    certificates.make_cluster_certificates(cluster)
    controlplane.start_etcd(cluster, kube)
    controlplane.start_api_server(cluster, kube)
    client = controlplane.start_relay(cluster)
    with reporting.step(f"starting {wanted} nodes"):
        nodes.start_runtimes(targets)
        images.load(targets, pause)
    controlplane.wait_ready(cluster, client)
    controlplane.start_controllers(cluster, kube)
    for node in targets:
        networks.set_cable(node, up=True)
        nodes.start_kubelet(node, kube)
    nodes.wait_ready(cluster, targets, client)
    simulating.simulate(
        cluster, simulating.read_count(cluster) if simulated is None else simulated, client
    )


def keep_release(cluster: Cluster) -> None:
    """Note which Kubernetes the cluster runs.

    Raises DevclusterError if its parts run another one: they are never mixed.
    """
    note = cluster.state / "kubernetes"
    runs = note.read_text() if note.exists() else cluster.release.version
    if runs != cluster.release.version:
        message = (
            f"Cluster {cluster.name} runs Kubernetes {runs}, not {cluster.release.version}: take "
            "it down first, or name another one with DEVCLUSTER_NAME."
        )
        raise DevclusterError(message)
    cluster.state.mkdir(parents=True, exist_ok=True)
    note.write_text(runs)


def take_down(cluster: Cluster) -> None:
    """End everything of the cluster and remove its traces; caches and logs stay."""
    for name in processes.list_names(cluster):
        # containerd may finish what it writes to the image store; all else is dropped anyway
        processes.stop(cluster, name, grace=5 if name.endswith("-containerd") else 0)
    cgroups.kill_processes(cluster)
    networks.remove_namespaces(cluster)
    cgroups.remove_groups(cluster)
    if cluster.state.is_dir():
        for path in cluster.state.iterdir():
            if path != cluster.logs:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def describe(cluster: Cluster) -> tuple[str, bool]:
    """Return what runs and where it lives, and whether all is well."""
    names = ["etcd", "apiserver", "controller-manager", "scheduler", "relay"]
    names += [
        f"{node.name}-{part}" for node in nodes.list_nodes(cluster) for part in _PARTS_OF_NODE
    ]
    names += ["kwok"] if simulating.read_count(cluster) else []
    pids = {name: processes.find(cluster, name) for name in names}
    healthy = all(pids.values())
    state = "running" if healthy else "broken" if any(pids.values()) else "not running"
    lines = [f"cluster {cluster.name}, Kubernetes {cluster.release.version}: {state}"]
    if not any(pids.values()):
        return "\n".join([*lines, "start it with python -m devcluster up"]), False
    lines += [f"  {name:22} {f'pid {pid}' if pid else 'NOT RUNNING'}" for name, pid in pids.items()]
    try:
        objects = controlplane.find_client(cluster).list_nodes()
    except DevclusterError as error:
        lines.append(f"  {error}")
        return "\n".join(lines), False
    ready = sum(is_node_ready(entry) for entry in objects)
    lines.append(f"  nodes ready            {ready} of {len(objects)}")
    lines += [
        f"  {node.name} is cut off"
        for node in nodes.list_nodes(cluster)
        if not networks.is_cable_up(node)
    ]
    lines += [
        f"kubeconfig  {cluster.kubeconfig}",
        f"logs        {cluster.logs}",
        f"audit log   {cluster.audit_log}",
        f"images      {cluster.cache / 'images'}",
    ]
    return "\n".join(lines), healthy and ready == len(objects)
