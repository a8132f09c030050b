"""EDL's autoscaler (paddlepaddle/edl, pkg/autoscaler.go), as far as it decides sizes.

Jobs are made at once with their least size, no gang. Each five seconds sizes are planned anew:
up for those who have least of their range, one trainer a round, as long as a node has room and
the whole cluster is below 97 %; down, from those who have most, while requests exceed that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Change, Decision, Step
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import CPU, SECOND
from et_scheduler.planning.rooms import Room

PERIOD = 5 * SECOND
MOST = 97
"""Percent of the cluster that may be requested."""


@dataclass(slots=True)
class _Plan:
    """Requests of all pods, pending ones among them, and what is idle on nodes."""

    room: Room
    total: int
    requested: int
    jobs: list[Job]
    sizes: dict[str, int]


def decide_as_edl(cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int) -> Decision:
    """Starts are answered at once, sizes at each full period."""
    found = sorted(jobs, key=lambda job: (job.created, job.uid))
    changes = [_start(job, now) for job in found if job.is_waiting]
    running = [job for job in found if not job.is_waiting]
    if now % PERIOD >= SECOND:
        return Decision(tuple(changes), wake_at=now + PERIOD - now % PERIOD)
    # Where nothing has happened the next period finds what this one has: whatever does asks anew.
    return Decision((*changes, *_rescale(cluster, running, now)))


def _start(job: Job, now: int) -> Change:
    size = job.minimum
    admission = Admission(1, AdmissionState.ADMITTED, job.queue, workers=size, since=now)
    return Change(job.uid, Step.TAKE, admission)


def _rescale(cluster: Cluster, jobs: list[Job], now: int) -> list[Change]:
    plan = _look(cluster, jobs)
    is_stable = False
    while not is_stable:
        is_stable = True
        for job in plan.jobs:
            is_stable &= not _grow(plan, job)
        for job in reversed(plan.jobs):
            is_stable &= not _shrink(plan, job)
    changes = []
    for job in jobs:
        admission = job.admission
        size = plan.sizes[job.uid]
        if admission is not None and size != admission.workers:
            # Kubernetes ends pods without a node first, then the newest.
            workers = [pod for pod in job.pods if not pod.is_launcher and pod.node]
            workers.sort(key=lambda pod: (-pod.created, pod.name))
            leaving = tuple(pod.name for pod in workers[: max(len(workers) - size, 0)])
            after = replace(admission, workers=size, leaving=leaving, resized_at=now)
            changes.append(Change(job.uid, Step.GIVE, after))
    return changes


def _look(cluster: Cluster, jobs: list[Job]) -> _Plan:
    room = Room(cluster.nodes, {job.worker for job in jobs})
    total = sum(node.allocatable.get(CPU, 0) for node in cluster.nodes)
    requested = sum(node.taken.get(CPU, 0) for node in cluster.nodes)
    requested += sum(dict(pod.shape.requests).get(CPU, 0) for pod in cluster.pending)
    sizes = {}
    for job in jobs:
        sizes[job.uid] = job.admission.workers if job.admission else 0
        requested += sizes[job.uid] * _get_cpu(job)
        for pod in job.pods:
            if pod.node and not pod.is_launcher:
                room.take((room.places[pod.node],), (1,), job.worker)
    ordered = sorted(jobs, key=lambda job: (_get_fulfilment(job, sizes[job.uid]), job.uid))
    return _Plan(room, total, requested, ordered, sizes)


def _grow(plan: _Plan, job: Job) -> bool:
    size = plan.sizes[job.uid]
    if size >= job.maximum or (plan.requested + _get_cpu(job)) * 100 > plan.total * MOST:
        return False
    fits = plan.room.count_fits(job.worker)
    if not fits.any():
        return False
    plan.room.take((int(fits.argmax()),), (1,), job.worker)
    plan.requested += _get_cpu(job)
    plan.sizes[job.uid] = size + 1
    return True


def _shrink(plan: _Plan, job: Job) -> bool:
    size = plan.sizes[job.uid]
    if size <= job.minimum or plan.requested * 100 <= plan.total * MOST:
        return False
    plan.requested -= _get_cpu(job)
    plan.sizes[job.uid] = size - 1
    return True


def _get_cpu(job: Job) -> int:
    return dict(job.worker.requests).get(CPU, 0)


def _get_fulfilment(job: Job, size: int) -> int:
    return (size - job.minimum) * 10**6 // max(job.maximum - job.minimum, 1)
