"""Real nodes: containerd and kubelet in network, mount and host-name namespaces of their own.

In its mount namespace a node finds its own folders at the usual places, so that nothing is shared
with the host or another node. A process that only sleeps keeps the namespaces while the others are
stopped.
"""

import shlex
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devcluster import certificates, cgroups, manifests, networks, processes, reporting
from devcluster.clients import Client, is_node_ready
from devcluster.commands import attempt, run, wait_until
from devcluster.failures import DevclusterError
from devcluster.settings import Cluster, Node

_READY_SECONDS = 90.0
_CONTAINERD_SECONDS = 30.0
_FOLDERS = {
    "/var/lib/kubelet": "kubelet",
    "/var/log/pods": "pods",
    "/var/log/containers": "containers",
    "/var/lib/cni": "cni-state",
}
_IN_MEMORY = ("/run/containerd", "/run/netns", "/run/runc")
# what every kubelet writes and the whole machine would keep; a node sees files of its own instead
_KERNEL_VALUES = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
_PARTS = ("holder", "containerd", "kubelet")


def list_nodes(cluster: Cluster) -> list[Node]:
    """Return the nodes that were ever started since the last ``down``."""
    folder = cluster.state / "nodes"
    numbers = sorted(int(path.name.removeprefix("node-")) for path in folder.glob("node-*"))
    return [cluster.node(number) for number in numbers]


def find_node(cluster: Cluster, name: str) -> Node:
    """Return the node of this name.

    Raises DevclusterError if the cluster has none.
    """
    known = {node.name: node for node in list_nodes(cluster)}
    if name not in known:
        message = f"There is no real node {name!r}; the nodes are: {', '.join(known) or 'none'}."
        raise DevclusterError(message)
    return known[name]


def start_runtimes(nodes: Iterable[Node]) -> None:
    """Start the namespaces and containerd of these nodes, side by side, unless they run."""
    for node in nodes:
        networks.make_node_network(node)
    with ThreadPoolExecutor() as pool:
        list(pool.map(_start_runtime, nodes))


def start_kubelet(node: Node, kube: Path) -> None:
    """Start the node's kubelet unless it runs."""
    arguments = {
        "config": node.folder / "kubelet.json",
        "kubeconfig": node.cluster.certificates / f"{node.name}.conf",
        "hostname-override": node.name,
        "node-ip": node.address,
        "root-dir": "/var/lib/kubelet",
        "cert-dir": node.folder / "kubelet",
    }
    flags = [f"--{flag}={value}" for flag, value in arguments.items()]
    processes.start(node.cluster, f"{node.name}-kubelet", [*enter(node), kube, "kubelet", *flags])


def stop_kubelet(node: Node) -> bool:
    """End the node's kubelet and leave its containers; return whether it ran."""
    return processes.stop(node.cluster, f"{node.name}-kubelet")


def wait_ready(cluster: Cluster, nodes: list[Node], client: Client) -> None:
    """Return once all these nodes call themselves ready.

    Raises DevclusterError if one does not within a minute and a half.
    """
    names = {node.name for node in nodes}

    def list_missing() -> set[str]:
        return names - {
            node["metadata"]["name"] for node in client.list_nodes() if is_node_ready(node)
        }

    with reporting.step(f"waiting for {', '.join(sorted(names))}"):
        ready = wait_until(lambda: not list_missing(), seconds=_READY_SECONDS, interval=0.2)
    if not ready:
        missing = sorted(list_missing())
        logs = ", ".join(str(processes.find_log(cluster, f"{name}-kubelet")) for name in missing)
        message = f"Not ready: {', '.join(missing)}; see {logs}"
        raise DevclusterError(message)


def enter(node: Node) -> list[str | Path]:
    """Return the beginning of a command that runs in the node's namespaces.

    Raises DevclusterError if none of its processes is left to hold them.
    """
    for name in _PARTS:
        pid = processes.find(node.cluster, f"{node.name}-{name}")
        if pid:
            return ["nsenter", f"--target={pid}", "--net", "--mount", "--uts", "--"]
    message = f"{node.name} is not running: python -m devcluster up starts it again."
    raise DevclusterError(message)


def build_ctr(node: Node, *arguments: str | Path) -> list[str | Path]:
    """Return the command that runs containerd's client on the node."""
    return [*enter(node), "ctr", "--address", manifests.SOCKET, "--namespace", "k8s.io", *arguments]


def run_ctr(node: Node, *arguments: str | Path) -> str:
    """Run containerd's client on the node and return its output."""
    return run(build_ctr(node, *arguments))


def _start_runtime(node: Node) -> None:
    if not any(processes.find(node.cluster, f"{node.name}-{name}") for name in _PARTS):
        _make_fresh(node)
    _start_holder(node)
    fresh = not processes.find(node.cluster, f"{node.name}-containerd")
    configuration = node.folder / "containerd.toml"
    processes.start(
        node.cluster,
        f"{node.name}-containerd",
        [*enter(node), "containerd", "--config", configuration],
    )
    if fresh:
        _wait_for_containerd(node)
    if (node.folder / "fresh").exists():
        _forget_containers(node)
        (node.folder / "fresh").unlink()


def _make_fresh(node: Node) -> None:
    """Lay the node out anew, ending what an interruption left of an earlier life."""
    cgroups.kill_processes(node.cluster, node.name)
    cgroups.remove_groups(node.cluster, node.name)
    cgroups.make_groups(node.cluster, ["system", node.name])
    shutil.rmtree(node.folder, ignore_errors=True)
    certificates.make_node_certificates(node)
    for name in [*_FOLDERS.values(), "cni", "kernel"]:
        (node.folder / name).mkdir(parents=True)
    node.store.mkdir(parents=True, exist_ok=True)
    (node.folder / "fresh").touch()
    (node.folder / "containerd.toml").write_text(manifests.write_containerd_configuration(node))
    (node.folder / "kubelet.json").write_text(manifests.write_kubelet_configuration(node))
    (node.folder / "cni" / "10-devcluster.conflist").write_text(
        manifests.write_network_configuration(node)
    )
    for name, value in _KERNEL_VALUES.items():
        (node.folder / "kernel" / name.replace("/", "-")).write_text(f"{value}\n")
    (node.folder / "setup.sh").write_text(write_setup(node))


def write_setup(node: Node) -> str:
    """Return the shell script that fits out the node's mount namespace and then sleeps in it."""
    lines = [
        "set -e",
        "while read -r _ path type _; do",
        "  if [ $type = nsfs ]; then umount --lazy $path; fi",
        "done </proc/self/mounts",
        f"hostname {node.name}",
    ]
    lines += [
        f"mount --bind {shlex.quote(str(node.folder / name))} {target}"
        for target, name in _FOLDERS.items()
    ]
    lines += [f"mount -t tmpfs -o mode=711 tmpfs {target}" for target in _IN_MEMORY]
    for name in _KERNEL_VALUES:
        source = shlex.quote(str(node.folder / "kernel" / name.replace("/", "-")))
        lines.append(f"[ ! -e /proc/sys/{name} ] || mount --bind {source} /proc/sys/{name}")
    lines += [f"touch {shlex.quote(str(node.folder / 'ready'))}", "exec sleep infinity"]
    return "\n".join(lines) + "\n"


def _start_holder(node: Node) -> None:
    name = f"{node.name}-holder"
    if any(processes.find(node.cluster, f"{node.name}-{other}") for other in _PARTS):
        pid = processes.start(node.cluster, name, [*enter(node), "sleep", "infinity"])
        # whoever enters by way of the holder must not do so before it is inside itself
        outside = Path("/proc/self/ns/mnt").readlink()
        wait_until(lambda: Path(f"/proc/{pid}/ns/mnt").readlink() != outside, seconds=10)
    else:
        for target in (*_FOLDERS, *_IN_MEMORY):
            Path(target).mkdir(parents=True, exist_ok=True)
        command = [
            *networks.enter(node.namespace),
            "unshare",
            "--mount",
            "--uts",
            "--propagation",
            "private",
        ]
        processes.start(node.cluster, name, [*command, "sh", node.folder / "setup.sh"])
    if not wait_until((node.folder / "ready").exists, seconds=20, interval=0.02):
        log = processes.find_log(node.cluster, name)
        message = f"The namespaces of {node.name} could not be made: see {log}"
        raise DevclusterError(message)


def _wait_for_containerd(node: Node) -> None:
    probe = [*enter(node), "ctr", "--address", manifests.SOCKET, "version"]
    if not wait_until(lambda: attempt(probe).returncode == 0, seconds=_CONTAINERD_SECONDS):
        log = processes.find_log(node.cluster, f"{node.name}-containerd")
        message = f"containerd of {node.name} does not answer: see {log}"
        raise DevclusterError(message)


def _forget_containers(node: Node) -> None:
    """Drop the containers that the store remembers from before; nothing of them runs."""
    known = run_ctr(node, "containers", "list", "--quiet").split()
    if known:
        run_ctr(node, "containers", "delete", *known)
