"""Names, addresses and folders of a cluster.

Nothing is made or started here; what DEVCLUSTER_ variables say is checked. Folders of a cluster
have its name, all of them below one cache.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from devcluster.failures import DevclusterError

CHECKOUT = Path(__file__).resolve().parent.parent
KWOK_VERSION = "0.8.0"
GO_VERSION = (1, 26)


@dataclass(frozen=True, slots=True)
class Release:
    """A version of Kubernetes that can be built, and what is so in it alone.

    ``module`` names its go.mod in devcluster/kube, ``tag`` the build tag of its sources there.
    """

    version: str
    module: str
    tag: str
    gates: str = ""
    apis: str = ""


RELEASES = {
    "newest": Release(
        "1.36.3",
        "go.mod",
        "newest",
        gates="GenericWorkload=true,GangScheduling=true",
        apis="scheduling.k8s.io/v1alpha2=true",
    ),
    "oldest": Release("1.30.14", "oldest.mod", "oldest"),
}
"""What DEVCLUSTER_KUBERNETES may say; the oldest is the one that the README promises."""
NEWEST = RELEASES["newest"]

AUDIT_BACKUPS = 20
"""So many full files of the audit log, of 200 MB, are kept beside the one that is written."""

NETWORK_BITS = 16
GATEWAY = "10.87.0.1"
SERVICE_NETWORK = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
API_PORT = 443

DEFAULT_NODES = 2
MAXIMUM_NODES = 20
MAXIMUM_SIMULATED = 5000

OPERATOR_IMAGE = "localhost/et-operator:dev"
TRAINER_IMAGE = "localhost/horovod-torch:dev"
PAUSE_IMAGE = "localhost/pause:dev"

_NAME = re.compile(r"[a-z][a-z0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster of this machine: its short name, the folder of all caches, its Kubernetes."""

    name: str
    cache: Path
    release: Release = NEWEST

    @property
    def state(self) -> Path:
        """All that lives as long as the cluster runs."""
        return self.cache / "clusters" / self.name

    @property
    def logs(self) -> Path:
        """Output of every process, and the audit log; kept by ``down`` until the next ``up``."""
        return self.state / "logs"

    @property
    def certificates(self) -> Path:
        """Keys, certificates and the components' kubeconfigs."""
        return self.state / "certificates"

    @property
    def records(self) -> Path:
        """One file for each process that was started."""
        return self.state / "processes"

    @property
    def namespaces(self) -> Path:
        """One mounted file for each network namespace."""
        return self.state / "namespaces"

    @property
    def namespace(self) -> Path:
        """The network namespace of the control plane and of the bridge."""
        return self.namespaces / "cluster"

    @property
    def kubeconfig(self) -> Path:
        """The file that a client on the host uses."""
        return self.state / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """Every request to the API server, one JSON object a line."""
        return self.logs / "audit.log"

    def node(self, number: int) -> "Node":
        """Name the node of this number, from 1."""
        return Node(self, number)


@dataclass(frozen=True, slots=True)
class Node:
    """One real node of a cluster, by its number from 1."""

    cluster: Cluster
    number: int

    @property
    def name(self) -> str:
        """The name of its Node object and its host name."""
        return f"node-{self.number}"

    @property
    def address(self) -> str:
        """Where its kubelet listens."""
        return f"10.87.{self.number}.1"

    @property
    def link(self) -> str:
        """The cable to this node, seen from the cluster's namespace."""
        return f"{self.cluster.name}-n{self.number}"

    @property
    def namespace(self) -> Path:
        """The node's network namespace."""
        return self.cluster.namespaces / self.name

    @property
    def folder(self) -> Path:
        """Configuration and the kubelet's state; dropped by ``down``."""
        return self.cluster.state / "nodes" / self.name

    @property
    def store(self) -> Path:
        """The node's images; kept by ``down``."""
        return self.cluster.cache / "stores" / self.cluster.name / self.name


def find_cache() -> Path:
    """Return the folder of all caches, outside the checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "et-operator-devcluster"


def find_cluster() -> Cluster:
    """Name the cluster of this checkout, or the one that DEVCLUSTER_NAME asks for.

    A checkout has one for each version of Kubernetes.
    """
    release = find_release()
    place = str(CHECKOUT) if release == NEWEST else f"{CHECKOUT} {release.version}"
    wanted = os.environ.get("DEVCLUSTER_NAME")
    name = wanted or "et" + hashlib.sha256(place.encode()).hexdigest()[:6]
    if not _NAME.fullmatch(name):
        message = (
            f"DEVCLUSTER_NAME is {name!r}: "
            "give 1 to 9 lower-case letters and digits, first a letter."
        )
        raise DevclusterError(message)
    return Cluster(name, find_cache(), release)


def find_release() -> Release:
    """Return the Kubernetes that DEVCLUSTER_KUBERNETES asks for: newest (by default) or oldest."""
    wanted = os.environ.get("DEVCLUSTER_KUBERNETES") or "newest"
    if wanted not in RELEASES:
        message = f"DEVCLUSTER_KUBERNETES is {wanted!r}: give {' or '.join(RELEASES)}."
        raise DevclusterError(message)
    return RELEASES[wanted]


def find_port() -> int | None:
    """Return the loopback port that DEVCLUSTER_PORT asks for, or None for any free one."""
    wanted = os.environ.get("DEVCLUSTER_PORT")
    if not wanted:
        return None
    if not wanted.isdecimal() or not 0 < int(wanted) < 2**16:
        message = f"DEVCLUSTER_PORT is {wanted!r}: give a port number from 1 to 65535."
        raise DevclusterError(message)
    return int(wanted)


def find_request_rate() -> int:
    """Return DEVCLUSTER_QPS: requests/s of the scheduler and of the controller-manager."""
    wanted = os.environ.get("DEVCLUSTER_QPS", "1000")
    if not wanted.isdecimal() or int(wanted) < 1:
        message = f"DEVCLUSTER_QPS is {wanted!r}: give a whole number from 1."
        raise DevclusterError(message)
    return int(wanted)
