"""The cluster, its queues and jobs as a pass is given them: built anew where something changed.

deciding.py asks for one before each pass, and a thread decides on it: so what is given is frozen.
Pods of jobs with a queue come with their jobs, all others as sums of their nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from et_contract.admissions import AdmissionState
from et_kube.tables import Entry
from et_scheduler.codec.jobs import StoredJob
from et_scheduler.codec.pods import Tenant
from et_scheduler.codec.queues import Demand, open_queue
from et_scheduler.model.cluster import Cluster, Headroom, Leaving, Node, PendingPod
from et_scheduler.model.jobs import Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import PODS
from et_scheduler.state.store import NODE, PENDING, Store


@dataclass(frozen=True, slots=True)
class Survey:
    """What a pass decides on, and the versions of the jobs that its writes are pinned to.

    `troubled` are jobs of which something cannot be read.
    """

    cluster: Cluster
    queues: tuple[Queue, ...]
    jobs: tuple[Job, ...]
    entries: dict[str, Entry[StoredJob]]
    troubled: tuple[Entry[StoredJob], ...] = ()


class Surveyor:
    """Looks at a store, and remembers what it has looked at until that changes."""

    def __init__(
        self, store: Store, pool_label: str = "", headroom: Headroom | None = None
    ) -> None:
        self._store = store
        self._pool_label = pool_label
        self._headroom = headroom
        self._nodes: dict[str, Node] = {}
        self._jobs: dict[str, Job] = {}
        self._given: dict[str, str] = {}  # namespaces of jobs by their uids
        self._opened: dict[tuple[Demand, ...], frozenset[str] | None] = {}

    def survey(
        self,
        frozen: Mapping[str, int] = MappingProxyType({}),
        kept_off: Mapping[str, int] = MappingProxyType({}),
    ) -> Survey:
        """Everything as it is believed now.

        Jobs with the uids of `frozen` are so since then, and those of the namespaces of `kept_off`
        that are not admitted.
        """
        entries = {
            entry.value.job.uid: entry for entry in self._store.jobs if entry.value.job is not None
        }
        given = {uid: entry.place[0] for uid, entry in entries.items()}
        for uid in given.keys() ^ self._given.keys():
            self._store.dirty_nodes.update(pod.node for pod in self._store.pods.select(uid))
        self._given = given
        self._renew_nodes()
        self._renew_jobs(entries)
        nodes = tuple(self._nodes.values())
        cluster = Cluster(nodes, tuple(self._list_pending()), self._headroom)
        queues = tuple(self._list_queues())
        jobs = tuple(_freeze(job, frozen, kept_off) for job in self._jobs.values())
        troubled = tuple(entry for entry in self._store.jobs if entry.value.trouble)
        return Survey(cluster, queues, jobs, entries, troubled)

    def _renew_nodes(self) -> None:
        for name in self._store.dirty_nodes:
            node = self._store.nodes.find(("", name))
            if node is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = self._fill(node)
        self._store.dirty_nodes.clear()

    def _fill(self, node: Node) -> Node:
        """The node with the sums of what others have on it."""
        taken: Counter[str] = Counter()
        leaving: dict[int, Counter[str]] = defaultdict(Counter)
        ports: dict[frozenset[str], None] = {}
        for entry in self._store.pods.select_entries(node.name, NODE):
            pod = entry.value
            if self._is_given(entry):
                continue
            if pod.shape.host_ports:
                ports.setdefault(pod.shape.host_ports)
            amounts = {**dict(pod.shape.requests), PODS: 1}
            taken.update(amounts)
            if pod.is_terminating:
                leaving[pod.deletion_asked].update(amounts)
        return replace(
            node,
            taken=dict(taken),
            leaving=tuple(Leaving(at, dict(sums)) for at, sums in sorted(leaving.items())),
            ports=tuple(ports),
            pool=node.labels.get(self._pool_label, ""),
        )

    def _is_given(self, entry: Entry[Tenant]) -> bool:
        """Whether the pod comes with its job. An owner in another namespace is none.

        The pods of jobs without a queue are as all others.
        """
        owner = entry.value.owner
        return bool(owner) and self._given.get(owner) == entry.place[0]

    def _renew_jobs(self, entries: dict[str, Entry[StoredJob]]) -> None:
        for uid in self._jobs.keys() - entries.keys():
            del self._jobs[uid]
        for uid, entry in entries.items():
            if uid not in self._jobs or uid in self._store.dirty_jobs:
                self._jobs[uid] = self._complete(entry)
        self._store.dirty_jobs.clear()

    def _complete(self, entry: Entry[StoredJob]) -> Job:
        """The job with its pods."""
        stored = entry.value
        assert stored.job is not None  # noqa: S101 (only such jobs are given)
        namespace = entry.place[0]
        tenants = [
            one
            for one in self._store.pods.select_entries(stored.job.uid)
            if one.place[0] == namespace
        ]
        pods = tuple(build_pod(one.place[1], one.value, stored) for one in tenants)
        job = replace(stored.job, pods=pods)
        own = [one.value for one in tenants if not one.value.is_launcher]
        # An edit of its template changes nothing of what runs; and what stays of its last life,
        # with a job that waits, does not say what the next one would have.
        if own and not job.is_waiting:
            least = min(one.priority for one in own)
            return replace(job, priority=least, preempts=all(one.preempts for one in own))
        if not stored.priority_classes:
            return job
        known = map(self._store.find_priority_class, stored.priority_classes)
        found = next((one for one in known if one is not None), None)
        if found is None:
            return replace(job, priority=0, preempts=False)
        # Until somebody has said that its namespace may have such pods, a place in line is all it
        # has; and a class may be another one by now than that with which its pods were tried.
        preempts = found.preempts and stored.is_proven
        return replace(job, priority=found.value, preempts=preempts)

    def _list_pending(self) -> Iterable[PendingPod]:
        """Pods of others. What a job leaves behind that has ended, or is no more, never starts."""
        free = {(entry.place[0], entry.uid) for entry in self._store.jobs if entry.value.is_free}
        for entry in self._store.pods.select_entries(True, PENDING):  # noqa: FBT003 (the key)
            pod = entry.value
            namespace = entry.place[0]
            if not pod.owner or (namespace, pod.owner) in free:
                yield PendingPod(
                    entry.uid, pod.shape, pod.priority, pod.since, pod.preempts, namespace
                )

    def _list_queues(self) -> Iterable[Queue]:
        """Whom they are for is found anew where a namespace has changed: there are thousands."""
        known = {} if self._store.are_namespaces_dirty else self._opened
        self._store.are_namespaces_dirty = False
        self._opened, namespaces = {}, self._store.namespaces
        for entry in self._store.queues:
            stored, demands = entry.value, entry.value.demands
            if demands is None:
                yield stored.queue
                continue
            if demands not in known:
                labels = ((one.place[1], one.value) for one in namespaces)
                known[demands] = open_queue(stored, labels).namespaces
            self._opened[demands] = known[demands]
            yield replace(stored.queue, namespaces=known[demands])


def build_pod(name: str, tenant: Tenant, stored: StoredJob) -> Pod:
    """A job's pod; with a shape of its own where it takes something else than new ones would."""
    assert stored.job is not None  # noqa: S101 (only such jobs are given)
    usual = stored.job.launcher if tenant.is_launcher else stored.job.worker
    own = tenant.shape
    is_usual = (own.requests, own.host_ports) == (usual.requests, usual.host_ports)
    return Pod(
        name,
        tenant.node,
        tenant.since,
        is_launcher=tenant.is_launcher,
        is_draining=name in stored.leaving,
        is_terminating=tenant.is_terminating,
        shape=own if tenant.node and not is_usual else None,
        leaving_since=stored.leaving.get(name) or tenant.deletion_asked,
    )


def _freeze(job: Job, frozen: Mapping[str, int], kept_off: Mapping[str, int]) -> Job:
    since = frozen.get(job.uid)
    told = job.admission
    if since is None and (told is None or told.state is not AdmissionState.ADMITTED):
        since = kept_off.get(job.namespace)
    return job if since is None else replace(job, frozen_since=since)
