"""The operator's own pods and processes, as somebody with root on the node sees them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from devcluster import cgroups
from devcluster.settings import find_cluster
from tests.e2e.world import RealWorld

NAMESPACE = "et-operator"
PROGRAM = b"et_operator"


class Operators:
    """All replicas of the operator."""

    def __init__(self) -> None:
        self.world = RealWorld(NAMESPACE)
        self._leases = client.CoordinationV1Api(self.world.core.api_client)

    def pods(self) -> list[client.V1Pod]:
        """Those that are not being deleted, oldest first."""
        selector = "app.kubernetes.io/name=et-operator"
        found = self.world.core.list_namespaced_pod(NAMESPACE, label_selector=selector).items
        alive = [pod for pod in found if not pod.metadata.deletion_timestamp]
        return sorted(alive, key=lambda pod: pod.metadata.creation_timestamp)

    def find_holder(self) -> str:
        """The name of the pod that holds the lease, "" while none does."""
        try:
            lease = self._leases.read_namespaced_lease("et-operator", NAMESPACE)
        except ApiException as error:
            if error.status == 404:
                return ""
            raise
        return lease.spec.holder_identity or ""

    def find_leader(self) -> client.V1Pod | None:
        """The pod that holds the lease and is ready."""
        holder = self.find_holder()
        pods = (pod for pod in self.pods() if pod.metadata.name == holder)
        return next((pod for pod in pods if is_ready(pod)), None)

    def wait_for_leader(self, *, but: str = "", timeout: float = 60) -> client.V1Pod:
        """Until some pod (other than `but`) leads."""

        def look() -> client.V1Pod | None:
            leader = self.find_leader()
            return leader if leader and leader.metadata.name != but else None

        found = self.world.wait(look, f"a leader other than {but or 'nobody'}", timeout)
        assert found is not None
        return found

    def renew(self) -> None:
        """A pod without restarts: the kubelet restarts it at once, not after a back-off."""
        leader = self.wait_for_leader()
        if leader.status.container_statuses[0].restart_count:
            self.world.core.delete_namespaced_pod(leader.metadata.name, NAMESPACE)
            self.wait_for_leader(but=leader.metadata.name)


def send(pod: client.V1Pod, number: signal.Signals) -> None:
    """A signal to the operator's process in this pod, from outside its container."""
    for pid in find_processes(pod):
        os.kill(pid, number)


def find_processes(pod: client.V1Pod) -> list[int]:
    """The operator's processes in the control group of this very pod."""
    cluster = find_cluster()
    group = cgroups.find_join_file(cluster).parent.parent / pod.spec.node_name
    pids = [
        int(line)
        for folder in group.rglob(f"pod{pod.metadata.uid}")
        for file in folder.rglob("cgroup.procs")
        for line in file.read_text().split()
    ]
    found = [pid for pid in pids if PROGRAM in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert found, f"no process of {pod.metadata.name} below {group}"
    return found


def is_ready(pod: client.V1Pod) -> bool:
    """Whether the pod says so."""
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or [])
