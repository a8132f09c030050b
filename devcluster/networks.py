"""The network namespaces of a cluster, its bridge, and the cables to its nodes.

A cut cable is what a fault of the network is here. All is made where it is missing, and the host's
own interfaces and addresses are never touched.
"""

from pathlib import Path

from devcluster.commands import attempt, run
from devcluster.settings import GATEWAY, NETWORK_BITS, SERVICE_ADDRESS, Cluster, Node

_BRIDGE = "br0"


def enter(namespace: Path) -> list[str | Path]:
    """Return the beginning of a command that runs in this network namespace."""
    return ["nsenter", f"--net={namespace}", "--"]


def make_cluster_network(cluster: Cluster) -> None:
    """Make the cluster's namespace with the bridge for all nodes, unless it is there."""
    _make_namespace(cluster.namespace)
    if _has_link(cluster.namespace, _BRIDGE):
        return
    _ip(
        cluster.namespace,
        f"link add {_BRIDGE} type bridge",
        f"address add {GATEWAY}/{NETWORK_BITS} dev {_BRIDGE}",
        f"address add {SERVICE_ADDRESS}/32 dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
    )


def make_node_network(node: Node) -> None:
    """Make the node's namespace, its bridge for pods and its cable, unless they are there."""
    _make_namespace(node.namespace)
    if not _has_link(node.cluster.namespace, node.link):
        run(
            [
                *enter(node.cluster.namespace),
                "ip",
                "link",
                "add",
                node.link,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                node.namespace,
            ]
        )
    # for every cable: an interruption may have come before this one was joined to the bridge
    _ip(node.cluster.namespace, f"link set {node.link} master {_BRIDGE}")
    if not _has_link(node.namespace, _BRIDGE):
        _ip(
            node.namespace,
            f"link add {_BRIDGE} type bridge",
            f"address add {node.address}/{NETWORK_BITS} dev {_BRIDGE}",
            f"link set {_BRIDGE} up",
            f"route add default via {GATEWAY}",
        )
    _ip(node.namespace, f"link set eth0 master {_BRIDGE} up")


def set_cable(node: Node, *, up: bool) -> None:
    """Plug or unplug the cable of a node."""
    _ip(node.cluster.namespace, f"link set {node.link} {'up' if up else 'down'}")


def is_cable_up(node: Node) -> bool:
    """Tell whether the cable of a node is plugged."""
    shown = attempt(
        [*enter(node.cluster.namespace), "ip", "-oneline", "link", "show", node.link]
    ).stdout
    return ",UP" in shown


def remove_namespaces(cluster: Cluster) -> None:
    """Unmount every namespace of the cluster; without processes they go, and their links too."""
    if not cluster.namespaces.is_dir():
        return
    for path in cluster.namespaces.iterdir():
        while _is_namespace(path):
            run(["umount", "--lazy", path])
        path.unlink(missing_ok=True)


def _make_namespace(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch()
    if not _is_namespace(path):
        run(["unshare", f"--net={path}", "true"])
    _ip(path, "link set lo up")


def _is_namespace(path: Path) -> bool:
    return path.stat().st_dev != path.parent.stat().st_dev


def _has_link(namespace: Path, link: str) -> bool:
    return attempt([*enter(namespace), "ip", "link", "show", link]).returncode == 0


def _ip(namespace: Path, *lines: str) -> None:
    run([*enter(namespace), "ip", "-batch", "-"], given="\n".join(lines) + "\n")
