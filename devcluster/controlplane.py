"""etcd, the API server, the controller manager, the scheduler and the relay to the host.

lifecycles.py says in which order they start. Each is left alone where it runs; which flags they
have, and nothing else about them, is decided here.
"""

import json
import sys
from pathlib import Path

from devcluster import certificates, networks, processes, reporting
from devcluster.checks import listen
from devcluster.clients import Client
from devcluster.commands import wait_until
from devcluster.failures import DevclusterError
from devcluster.settings import (
    API_PORT,
    AUDIT_BACKUPS,
    CHECKOUT,
    GATEWAY,
    SERVICE_NETWORK,
    Cluster,
    find_port,
    find_request_rate,
)

_READY_SECONDS = 60.0
_ETCD = "http://127.0.0.1:2379"
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def start_etcd(cluster: Cluster, kube: Path) -> None:
    """Start etcd unless it runs; its data need not survive the machine, so nothing is synced."""
    arguments = {
        "data-dir": cluster.state / "etcd",
        "listen-client-urls": _ETCD,
        "advertise-client-urls": _ETCD,
        "listen-peer-urls": "http://127.0.0.1:2380",
        "quota-backend-bytes": 4 * 2**30,
        "log-level": "warn",
    }
    (cluster.state / "etcd").mkdir(parents=True, exist_ok=True, mode=0o700)
    _start(cluster, kube, "etcd", ["--unsafe-no-fsync", *_write_flags(arguments)])


def start_api_server(cluster: Cluster, kube: Path) -> None:
    """Start the API server unless it runs."""
    folder = cluster.certificates
    policy = cluster.state / "audit-policy.json"
    policy.write_text(json.dumps(_AUDIT_POLICY))
    arguments = {
        "etcd-servers": _ETCD,
        "bind-address": "0.0.0.0",  # noqa: S104 - of the cluster's own network namespace
        "secure-port": API_PORT,
        "advertise-address": GATEWAY,
        "service-cluster-ip-range": SERVICE_NETWORK,
        "tls-cert-file": folder / "apiserver.crt",
        "tls-private-key-file": folder / "apiserver.key",
        "client-ca-file": folder / "ca.crt",
        "kubelet-client-certificate": folder / "apiserver-kubelet.crt",
        "kubelet-client-key": folder / "apiserver-kubelet.key",
        "kubelet-certificate-authority": folder / "ca.crt",
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": folder / "service-accounts.pub",
        "service-account-signing-key-file": folder / "service-accounts.key",
        "authorization-mode": "Node,RBAC",
        "allow-privileged": "true",
        "enable-admission-plugins": "NodeRestriction",
        "feature-gates": cluster.release.gates,
        "runtime-config": cluster.release.apis,
        "event-ttl": "2h",
        "audit-policy-file": policy,
        "audit-log-path": cluster.audit_log,
        "audit-log-maxsize": 200,
        "audit-log-maxbackup": AUDIT_BACKUPS,
    }
    _start(cluster, kube, "apiserver", _write_flags(arguments))


def start_relay(cluster: Cluster) -> Client:
    """Start the relay unless it runs, on the port it had before, and write the kubeconfig."""
    recorded = cluster.state / "port"
    if not processes.find(cluster, "relay"):
        before = int(recorded.read_text()) if recorded.exists() else None
        with listen(before or find_port()) as listener:
            port = listener.getsockname()[1]
            recorded.write_text(str(port))
            program = CHECKOUT / "devcluster" / "relay.py"
            command = [*networks.enter(cluster.namespace), sys.executable, "-I", program]
            arguments = [str(listener.fileno()), "127.0.0.1", str(API_PORT)]
            processes.start(
                cluster, "relay", [*command, *arguments], inherited=(listener.fileno(),)
            )
    certificates.write_kubeconfig(
        cluster.certificates,
        "admin",
        f"https://127.0.0.1:{recorded.read_text()}",
        cluster.kubeconfig,
    )
    return find_client(cluster)


def find_client(cluster: Cluster) -> Client:
    """Return the access to a cluster that was started.

    Raises DevclusterError if none was.
    """
    try:
        return Client(cluster, int((cluster.state / "port").read_text()))
    except FileNotFoundError:
        message = f"Cluster {cluster.name} is not running: start it with python -m devcluster up"
        raise DevclusterError(message) from None


def wait_ready(cluster: Cluster, client: Client) -> None:
    """Return once the API server is ready.

    Raises DevclusterError if it ends or takes a minute.
    """
    with reporting.step("waiting for the API server"):
        wait_until(
            lambda: client.is_ready() or not processes.find(cluster, "apiserver"),
            seconds=_READY_SECONDS,
        )
    if not client.is_ready():
        logs = [processes.find_log(cluster, name) for name in ("apiserver", "etcd")]
        message = f"The API server is not ready: see {logs[0]} and {logs[1]}, then run up again."
        raise DevclusterError(message)


def start_controllers(cluster: Cluster, kube: Path) -> None:
    """Start the controller manager and the scheduler unless they run."""
    folder, rate = cluster.certificates, find_request_rate()
    arguments = {
        "kubeconfig": folder / "controller-manager.conf",
        "leader-elect": "false",
        "use-service-account-credentials": "true",
        "service-account-private-key-file": folder / "service-accounts.key",
        "root-ca-file": folder / "ca.crt",
        "cluster-signing-cert-file": folder / "ca.crt",
        "cluster-signing-key-file": folder / "ca.key",
        "node-monitor-grace-period": "20s",
        "node-monitor-period": "2s",
        "horizontal-pod-autoscaler-sync-period": "2s",
        "feature-gates": cluster.release.gates,
        "kube-api-qps": rate,
        "kube-api-burst": 2 * rate,
    }
    _start(cluster, kube, "controller-manager", _write_flags(arguments))
    configuration = cluster.state / "scheduler.json"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(folder / "scheduler.conf"),
            "qps": rate,
            "burst": 2 * rate,
        },
        "leaderElection": {"leaderElect": False},
    }
    configuration.write_text(json.dumps(content))
    arguments = {"config": configuration, "feature-gates": cluster.release.gates}
    _start(cluster, kube, "scheduler", _write_flags(arguments))


def _start(cluster: Cluster, kube: Path, name: str, arguments: list[str]) -> None:
    processes.start(cluster, name, [*networks.enter(cluster.namespace), kube, name, *arguments])


def _write_flags(arguments: dict[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in arguments.items() if value != ""]
