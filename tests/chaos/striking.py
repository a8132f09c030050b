"""Each fault of a schedule, done to a job that trains and to the cluster under it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from devcluster.cgroups import find_parent
from devcluster.processes import find
from devcluster.settings import find_cluster
from et_kube.clock import SystemClock
from et_kube.notices import LEAVING_AT
from et_kube.times import format_time
from tests.chaos.records import Strike
from tests.chaos.schedules import Fault, Kind
from tests.e2e.faults import broken, find_processes, kill
from tests.e2e.operators import Operators, send
from tests.e2e.test_launchers import run_in
from tests.e2e.test_troubles import set_quota
from tests.e2e.world import PAUSE, RealWorld, devcluster, scale_in, scale_out

PLENTY = 50
"""Pods that a quota allows when it refuses nothing."""
AHEAD, LONG = 4, 120
"""A notice comes so many times as long before its moment as other faults last, or so many seconds
where it is withdrawn."""
AGENT, BRIDGE, BROKER, RANK = (
    "boot.py agent",
    "agent..bridge.py",
    "-m launcher.broker",
    "[t]rain.py",
)


class Striker:
    """Breaks one job, and what it stands on; returns when what comes back has come back."""

    def __init__(self, world: RealWorld, job: str) -> None:
        self.world = world
        self.job = job
        self._uid = world.get("trainingjobs", job)["metadata"]["uid"]
        self._count = 0
        self._ways: dict[Kind, Callable[[Fault], Strike]] = {
            Kind.WORKER: self._kill_worker,
            Kind.CONTAINERD_SHIM: self._kill_containerd_shim,
            Kind.EVICTION: self._delete_worker,
            Kind.RANK: self._kill_rank,
            Kind.BRIDGE: self._kill_bridges,
            Kind.BROKER: self._kill_broker,
            Kind.LAUNCHER: self._lose_launcher,
            Kind.QUOTA: self._fill_quota,
            Kind.NOTICE: self._give_notice,
            Kind.WITHDRAWN: self._give_notice_and_withdraw_it,
            Kind.LAUNCHER_NOTICE: self._give_notice_of_launcher,
            Kind.OBJECT: self._scale_by_object,
            Kind.SCALE: self._scale_by_number,
            Kind.EDIT: self._scale_by_edit,
            Kind.OPERATOR: self._kill_operator,
            Kind.API_SERVER: self._take_api_server,
            Kind.FROZEN_API_SERVER: self._freeze_api_server,
            Kind.KUBELET: self._take_kubelet,
            Kind.FROZEN_KUBELET: self._freeze_kubelet,
            Kind.CUT: self._cut_node,
        }

    def strike(self, fault: Fault) -> Strike:
        """Do it."""
        return self._ways[fault.kind](fault)

    # ---- the job's own pods
    def _kill_worker(self, fault: Fault) -> Strike:
        pod = self._choose_worker(fault)
        kill(find_processes(pod.metadata.uid, AGENT))
        return note(fault, pod)

    def _kill_containerd_shim(self, fault: Fault) -> Strike:
        pod = self._choose_worker(fault)
        kill([find_parent(pid) for pid in find_processes(pod.metadata.uid, f"{AGENT} --")])
        return note(fault, pod)

    def _delete_worker(self, fault: Fault) -> Strike:
        pod = self._choose_worker(fault)
        self.world.core.delete_namespaced_pod(pod.metadata.name, self.world.namespace)
        return note(fault, pod)

    def _kill_rank(self, fault: Fault) -> Strike:
        pod = self._choose_worker(fault)
        run_in(self.world, pod.metadata.name, f"pkill -KILL -f '{RANK}'")
        return note(fault, pod)

    def _kill_bridges(self, fault: Fault) -> Strike:
        kill(find_processes(self._uid, BRIDGE))
        return note(fault)

    def _kill_broker(self, fault: Fault) -> Strike:
        kill(find_processes(self._uid, BROKER))
        return note(fault)

    def _lose_launcher(self, fault: Fault) -> Strike:
        [*_, pod] = self.world.pods("launcher")
        self.world.core.delete_namespaced_pod(
            pod.metadata.name, self.world.namespace, grace_period_seconds=0
        )
        return note(fault, pod)

    def _fill_quota(self, fault: Fault) -> Strike:
        set_quota(self.world, len(self.world.pods()) - 1)
        try:
            strike = self._kill_worker(fault)
            PAUSE.wait(fault.seconds)
        finally:
            set_quota(self.world, PLENTY)
        return strike

    # ---- what is said of them
    def _give_notice(self, fault: Fault) -> Strike:
        pod = self._choose_worker(fault)
        self._say(pod, AHEAD * fault.seconds)
        return note(fault, pod)

    def _give_notice_and_withdraw_it(self, fault: Fault) -> Strike:
        pod = self._choose_worker(fault)
        strike = note(fault, said=pod.metadata.name)
        self._say(pod, LONG)
        PAUSE.wait(fault.seconds)
        self._say(pod, None)
        return strike

    def _give_notice_of_launcher(self, fault: Fault) -> Strike:
        [*_, pod] = self.world.pods("launcher")
        self._say(pod, AHEAD * fault.seconds)
        return note(fault, pod)

    def _say(self, pod: client.V1Pod, seconds: float | None) -> None:
        """That it ends so soon; that it stays, where it is there still."""
        now = SystemClock().now().replace(microsecond=0)
        moment = None if seconds is None else format_time(now + timedelta(seconds=int(seconds)))
        body = {"metadata": {"annotations": {LEAVING_AT: moment}}}
        try:
            self.world.core.patch_namespaced_pod(pod.metadata.name, self.world.namespace, body)
        except ApiException as refusal:
            if seconds is not None or refusal.status != HTTPStatus.NOT_FOUND:
                raise

    # ---- its number of workers
    def _scale_by_object(self, fault: Fault) -> Strike:
        found = self.world.get("trainingjobs", self.job)["spec"]["etReplicaSpecs"]["worker"]
        by = fault.wanted - found["replicas"]
        self._count += 1
        name = f"scaling-{self._count}"
        out, into = scale_out(name, self.job, by), scale_in(name, self.job, count=-by)
        made = self.world.create(out if by > 0 else into)
        place = f"{made['kind'].lower()}s/{name}"
        return Strike(fault.kind, time.monotonic(), objects=(place,), said=f"{by:+d}")

    def _scale_by_number(self, fault: Fault) -> Strike:
        self.world.scale(self.job, fault.wanted)
        return Strike(fault.kind, time.monotonic(), said=f"to {fault.wanted}")

    def _scale_by_edit(self, fault: Fault) -> Strike:
        worker = {"replicas": fault.wanted}
        self.world.patch_job(self.job, {"spec": {"etReplicaSpecs": {"worker": worker}}})
        return Strike(fault.kind, time.monotonic(), said=f"to {fault.wanted}")

    # ---- what it stands on
    def _kill_operator(self, fault: Fault) -> Strike:
        operators = Operators()
        before = operators.wait_for_leader().metadata.name
        operators.renew()
        leader = operators.wait_for_leader()
        send(leader, signal.SIGKILL)
        renewed = leader.metadata.name != before
        return Strike(fault.kind, time.monotonic(), operators=1 + renewed)

    def _take_api_server(self, fault: Fault) -> Strike:
        strike = note(fault)
        devcluster("fault", "kill-apiserver")
        PAUSE.wait(fault.seconds)
        devcluster("fault", "restart-apiserver")
        return strike

    def _freeze_api_server(self, fault: Fault) -> Strike:
        return freeze(fault, "apiserver")

    def _take_kubelet(self, fault: Fault) -> Strike:
        node = self._choose_node(fault)
        strike = note(fault, said=node)
        with broken(node, "stop-kubelet", "start-kubelet"):
            PAUSE.wait(fault.seconds)
        return strike

    def _freeze_kubelet(self, fault: Fault) -> Strike:
        return freeze(fault, f"{self._choose_node(fault)}-kubelet")

    def _cut_node(self, fault: Fault) -> Strike:
        node = self._choose_node(fault)
        strike = note(fault, said=node)
        with broken(node, "cut", "heal"):
            PAUSE.wait(fault.seconds)
        return strike

    # ---- whom it strikes
    def _choose_worker(self, fault: Fault) -> client.V1Pod:
        """One that runs and stays."""
        pods = [
            pod
            for pod in self.world.pods("worker")
            if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
        ]
        found: client.V1Pod = pods[fault.die % len(pods)]
        return found

    def _choose_node(self, fault: Fault) -> str:
        """Not the operator's: cut off from the API server it would do nothing at all."""
        home = Operators().wait_for_leader().spec.node_name
        names = [node.metadata.name for node in self.world.core.list_node().items]
        away: list[str] = sorted(name for name in names if name != home)
        return away[fault.die % len(away)]


def note(fault: Fault, *pods: client.V1Pod, said: str = "") -> Strike:
    """That it was done, now."""
    names = ", ".join(pod.metadata.name for pod in pods)
    uids = frozenset(pod.metadata.uid for pod in pods)
    return Strike(fault.kind, time.monotonic(), uids, said=names or said)


def freeze(fault: Fault, name: str) -> Strike:
    """A process of the cluster does nothing for so long."""
    strike = note(fault, said=name)
    with stopped(name):
        PAUSE.wait(fault.seconds)
    return strike


@contextmanager
def stopped(name: str) -> Iterator[None]:
    """Inside, the cluster's process of this name stands still."""
    pid = find(find_cluster(), name)
    assert pid is not None, f"{name} does not run"
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
