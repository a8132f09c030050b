"""The configuration files of a node, as text.

nodes.py writes them where its programs look; nothing is written or started here.
"""

import json

from devcluster import cgroups
from devcluster.settings import GATEWAY, NETWORK_BITS, PAUSE_IMAGE, Node

SOCKET = "/run/containerd/containerd.sock"


def write_containerd_configuration(node: Node) -> str:
    """Return the configuration of the node's containerd.

    Sockets and state are at their usual places, which are the node's own in its mount namespace.
    The adjustment of oom scores is restricted because it fails without the capability to lower
    them.
    """
    return f"""version = 2
root = "{node.store}"
state = "/run/containerd"

[grpc]
address = "{SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = "{node.folder}/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true
stream_server_port = "0"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{node.folder}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def write_kubelet_configuration(node: Node) -> str:
    """Return the configuration of the node's kubelet."""
    folder = node.cluster.certificates
    content = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cluster.name}/{node.name}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(folder / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(folder / f"{node.name}.crt"),
        "tlsPrivateKeyFile": str(folder / f"{node.name}.key"),
        "clusterDNS": [GATEWAY],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "maxPods": 240,
        "serializeImagePulls": False,
        "readOnlyPort": 0,
        "nodeStatusUpdateFrequency": "5s",
    }
    if not cgroups.is_v2():
        content["failCgroupV1"] = False
    return json.dumps(content, indent=1)


def write_network_configuration(node: Node) -> str:
    """Return the pods' network: addresses of the node's slice, all nodes on one link layer."""
    prefix = f"10.87.{node.number}"
    addresses = {
        "type": "host-local",
        "dataDir": str(node.folder / "addresses"),
        "ranges": [
            [
                {
                    "subnet": f"10.87.0.0/{NETWORK_BITS}",
                    "rangeStart": f"{prefix}.10",
                    "rangeEnd": f"{prefix}.250",
                    "gateway": GATEWAY,
                }
            ]
        ],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "br0",
        "isGateway": False,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    return json.dumps({"cniVersion": "1.0.0", "name": "devcluster", "plugins": [bridge]}, indent=1)
