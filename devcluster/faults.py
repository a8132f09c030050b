"""Breaking a running cluster on purpose, and mending it.

Only processes and cables are touched: what the cluster stores stays as it is. Each fault is undone
by its opposite, or by the next `up`.
"""

from devcluster import building, controlplane, networks, nodes, processes
from devcluster.failures import DevclusterError
from devcluster.reporting import say
from devcluster.settings import Cluster

OF_CLUSTER = ("restart-apiserver", "kill-apiserver")
OF_NODE = ("stop-kubelet", "start-kubelet", "cut", "heal")


def cause(cluster: Cluster, fault: str, node: str | None) -> None:
    """Do what a fault's name says, to the node of this name if it is one of a node.

    Raises DevclusterError if the name of a node is missing, unknown or too much.
    """
    client = controlplane.find_client(cluster)
    if (node is not None) != (fault in OF_NODE):
        message = (
            f"{fault} needs the name of a node."
            if fault in OF_NODE
            else f"{fault} takes no name of a node."
        )
        raise DevclusterError(message)
    if fault == "kill-apiserver":
        ended = processes.stop(cluster, "apiserver", grace=0)
        say("killed the API server" if ended else "the API server was not running")
    elif fault == "restart-apiserver":
        # it would wait for the end of every watch, and there are always some
        processes.stop(cluster, "apiserver", grace=2)
        controlplane.start_api_server(cluster, building.find_kube(cluster.cache, cluster.release))
        controlplane.wait_ready(cluster, client)
        say("the API server is ready")
    elif node is not None:
        _cause_on_node(cluster, fault, node)


def _cause_on_node(cluster: Cluster, fault: str, name: str) -> None:
    node = nodes.find_node(cluster, name)
    if fault == "stop-kubelet":
        nodes.stop_kubelet(node)
        say(f"the kubelet of {name} is stopped; its containers go on")
    elif fault == "start-kubelet":
        nodes.start_kubelet(node, building.find_kube(cluster.cache, cluster.release))
        say(f"the kubelet of {name} is started")
    else:
        networks.set_cable(node, up=fault == "heal")
        say(f"{name} is {'plugged in' if fault == 'heal' else 'cut off'}")
