"""The operator that is measured: its process, its own metrics, and the processes around it.

Read from outside, from /proc and its /metrics: the operator does not know that it is measured.
Exactly one has to run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.apis import build_path, wait_for
from benchmarks.benches import Site
from benchmarks.machines import Usage, read_usage
from devcluster import cgroups, processes

NAMESPACE = "et-operator"
SELECTOR = "app.kubernetes.io/name=et-operator"
CONTROL_PLANE = ("apiserver", "etcd", "scheduler", "controller-manager", "kwok")
_PROGRAM, _SCHEDULER = b"et_operator", b"et_scheduler"
_PORT = 8080


@dataclass(frozen=True, slots=True)
class Operator:
    """One running operator."""

    pid: int
    address: str

    @property
    def usage(self) -> Usage:
        """What it has used so far."""
        return read_usage(self.pid)


async def find_operator(site: Site) -> Operator:
    """The operator of the cluster; LookupError unless exactly one runs."""
    pods = await _list_pods(site)
    pids = [pid for pid in cgroups.list_processes(site.cluster) if _runs(pid, _PROGRAM)]
    if len(pods) != 1 or len(pids) != 1:
        raise LookupError(f"one operator is to be measured, found {len(pods)} with {len(pids)}")
    return Operator(pids[0], pods[0]["status"]["podIP"])


async def find_node(site: Site) -> str:
    """The name of the node that it runs on."""
    return str((await _list_pods(site))[0]["spec"]["nodeName"])


async def restart_operator(site: Site) -> Operator:
    """A fresh one, which leads."""
    before = {pod["metadata"]["uid"] for pod in await _list_pods(site)}
    path = build_path("pods", NAMESPACE)
    await site.api.delete(path, grace_seconds=1, labelSelector=SELECTOR)

    async def is_fresh() -> bool:
        pods = await _list_pods(site)
        uids = {pod["metadata"]["uid"] for pod in pods}
        return len(pods) == 1 and not uids & before and await _is_leading(site, pods[0])

    await wait_for(is_fresh, "the operator leads again")
    return await find_operator(site)


async def count_passes(site: Site, operator: Operator) -> Counter[str]:
    """Reconcile passes so far, by result."""
    found: Counter[str] = Counter()
    for name, labels, value in await _read_metrics(site, operator.address):
        if name == "et_operator_reconciles_total":
            found[labels["result"]] = int(value)
    return found


def read_cpu(site: Site, operator: Operator) -> dict[str, float]:
    """Seconds of CPU used so far by the operator, et-scheduler, the control plane and KWOK."""
    schedulers = [pid for pid in cgroups.list_processes(site.cluster) if _runs(pid, _SCHEDULER)]
    pids = {name: processes.find(site.cluster, name) for name in CONTROL_PLANE}
    used = {name: read_usage(pid).cpu_seconds for name, pid in pids.items() if pid}
    sharing = sum(read_usage(pid).cpu_seconds for pid in schedulers)
    return {"operator": operator.usage.cpu_seconds, "et-scheduler": sharing, **used}


async def _list_pods(site: Site) -> list[dict[str, dict[str, str]]]:
    found = await site.api.get(build_path("pods", NAMESPACE), labelSelector=SELECTOR)
    return list(found["items"])


async def _is_leading(site: Site, pod: dict[str, dict[str, str]]) -> bool:
    address = pod["status"].get("podIP")
    if not address or pod["status"].get("phase") != "Running":
        return False
    try:
        metrics = await _read_metrics(site, address)
    except OSError:
        return False
    return ("et_operator_leader", {}, 1.0) in metrics


async def _read_metrics(site: Site, address: str) -> list[tuple[str, dict[str, str], float]]:
    text = await site.api.read_text(f"http://{address}:{_PORT}/metrics")
    families = text_string_to_metric_families(text)
    return [
        (sample.name, dict(sample.labels), sample.value)
        for family in families
        for sample in family.samples
    ]


def _runs(pid: int, program: bytes) -> bool:
    try:
        words = (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return program in words
