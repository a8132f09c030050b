"""A large cluster as an API server lists it, page by page: no object of it is kept here.

Pods and jobs have the size of those that the operator makes (standing.py); names, places and who
runs follow from their numbers. Nothing is watched and nothing can be written.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any

from aiohttp import web

from benchmarks.standing import StandingJob
from et_contract.admissions import AdmissionState, Placement
from et_contract.pods import LABEL_JOB
from et_kube.resources import NODES, PODS, PRIORITY_CLASSES, TRAINING_JOBS, TRAINING_QUEUES
from et_kube.times import format_time
from et_scheduler.codec.admissions import encode_admission
from et_scheduler.model.jobs import Admission

Document = dict[str, Any]
WORKERS = 9
"""Of each job that runs, beside its launcher."""
OF_JOBS = 0.4
"""Of all pods."""
QUEUES, TEAMS = 10, 500
GPU = "nvidia.com/gpu"
ALLOCATABLE = {"cpu": "64", "memory": "512Gi", GPU: "8", "pods": "110"}
WORKER = {"cpu": 4000, "memory": 32 * 2**30, GPU: 1}
REQUESTS = {"cpu": "4", "memory": "32Gi", GPU: "1"}
OTHERS = {"cpu": "1", "memory": "2Gi"}
_IMAGES = 20


class LargeCluster:
    """So many nodes, jobs and pods. Jobs that run come first, and their pods do."""

    def __init__(self, nodes: int, jobs: int, pods: int, now: datetime) -> None:
        self._nodes, self._now = nodes, now
        standing = StandingJob(WORKERS, now)
        own = {pod["metadata"]["name"]: pod for pod in map(json.loads, standing.list_pods())}
        self._pods = [own["job-launcher"], *(own[f"job-worker-{n}"] for n in range(WORKERS))]
        for pod in self._pods[1:]:
            pod["spec"]["containers"][0]["resources"] = {"requests": REQUESTS}
        self._job = json.loads(json.dumps(standing.objects[(TRAINING_JOBS, "job")]))
        self.running = int(pods * OF_JOBS) // len(self._pods)
        self._makers: Mapping[str, Callable[[int], Document]] = {
            NODES.plural: self._make_node,
            PODS.plural: self._make_pod,
            TRAINING_JOBS.plural: self._make_job,
            TRAINING_QUEUES.plural: lambda number: {"metadata": {"name": f"queue-{number}"}},
        }
        totals = (nodes, pods, jobs, QUEUES)
        self._counts: Mapping[str, int] = dict(zip(self._makers, totals, strict=True))

    def write_page(self, plural: str, begin: int, count: int) -> str:
        """The answer to who asks for so many, from this one on. Of other kinds there are none."""
        total = self._counts.get(plural, 0)
        end = min(begin + count, total)
        metadata = {"resourceVersion": "1000000", "continue": str(end) if end < total else ""}
        make = self._makers.get(plural)
        items = [] if make is None else [_stamp(make(n), plural, n) for n in range(begin, end)]
        return json.dumps({"metadata": metadata, "items": items})

    def _make_node(self, number: int) -> Document:
        name = _name_node(number)
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "zone": "a"}
        images = [
            {"names": [f"registry.example/team/image-{n}:v1"], "sizeBytes": n * 10**7}
            for n in range(_IMAGES)
        ]
        status = {
            "allocatable": ALLOCATABLE,
            "capacity": ALLOCATABLE,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": images,
        }
        return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}

    def _make_pod(self, number: int) -> Document:
        """First those of jobs that run, then those of others."""
        job, role = divmod(number, len(self._pods))
        node = _name_node((number + number // self._nodes) % self._nodes)
        if job < self.running:
            return self._make_own(self._pods[role], job, node)
        container = {"name": "main", "image": "service", "resources": {"requests": OTHERS}}
        return {
            "metadata": {"name": f"service-{number}", "namespace": _name_team(number)},
            "spec": {"containers": [container], "nodeName": node, "priority": 0},
            "status": {"phase": "Running"},
        }

    def _make_own(self, pod: Document, job: int, node: str) -> Document:
        name, given = _name_job(job), pod["metadata"]
        owner = {**given["ownerReferences"][0], "name": name, "uid": _write_uid(_JOBS, job)}
        metadata = {
            **given,
            "name": given["name"].replace("job", name, 1),
            "namespace": _name_team(job),
            "labels": {**given["labels"], LABEL_JOB: name},
            "ownerReferences": [owner],
        }
        return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}}

    def _make_job(self, number: int) -> Document:
        roles = self._job["spec"]["etReplicaSpecs"]
        worker = {**roles["worker"], "minReplicas": 3, "maxReplicas": 2 * WORKERS}
        queue = f"queue-{number % QUEUES}"
        spec = {**self._job["spec"], "queue": queue}
        spec["etReplicaSpecs"] = {**roles, "worker": worker}
        shapes = [
            {"role": "launcher", "requests": {"cpu": 500}, "priority": 0},
            {"role": "worker", "requests": WORKER, "priority": 0},
        ]
        status = {**self._job["status"], "shapes": {"pods": shapes, "elastic": True}}
        status |= self._admit(number, queue) if number < self.running else self._hold()
        place = {"name": _name_job(number), "namespace": _name_team(number)}
        metadata = {**self._job["metadata"], **place}
        return {**self._job, "metadata": metadata, "spec": spec, "status": status}

    def _admit(self, number: int, queue: str) -> Document:
        first = number * len(self._pods)
        numbers = range(first, first + len(self._pods))
        names = [_name_node((n + n // self._nodes) % self._nodes) for n in numbers]
        since = int(self._now.timestamp() * 1000)
        admission = Admission(
            number=1,
            state=AdmissionState.ADMITTED,
            queue=queue,
            workers=WORKERS,
            placement=Placement(names[0], tuple(sorted(set(names[1:])))),
            queued_at=since,
            since=since,
            bound_at=since,
        )
        told = {key: value for key, value in encode_admission(admission).items() if value}
        return {"admission": told, "admittedNumber": 1, "conditions": [self._answer("True")]}

    def _hold(self) -> Document:
        return {"workers": [], "conditions": [self._answer("False")]}

    def _answer(self, status: str) -> Document:
        reason = "Admitted" if status == "True" else "Waiting"
        at = format_time(self._now)
        return {"type": "Admitted", "status": status, "reason": reason, "lastTransitionTime": at}


@asynccontextmanager
async def serving(cluster: LargeCluster) -> AsyncIterator[str]:
    """The URL where it is listed, as long as the body runs."""
    app = web.Application()
    roots = (NODES, PRIORITY_CLASSES, TRAINING_JOBS)
    for root in ("/api/v1", *(f"/apis/{one.api_version}" for one in roots[1:])):
        app.router.add_get(root + "/{plural}", partial(_answer_list, cluster))
    runner = web.AppRunner(app, shutdown_timeout=0.1, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


async def _answer_list(cluster: LargeCluster, request: web.Request) -> web.Response:
    begin, count = int(request.query.get("continue") or 0), int(request.query.get("limit") or 500)
    page = cluster.write_page(request.match_info["plural"], begin, count)
    return web.Response(text=page, content_type="application/json")


_JOBS, _OTHERS = "1111", "2222"


def _stamp(obj: Document, plural: str, number: int) -> Document:
    """With what every stored object has."""
    uid = _write_uid(_JOBS if plural == TRAINING_JOBS.plural else _OTHERS, number)
    obj["metadata"] |= {"uid": uid, "resourceVersion": str(number + 1)}
    return obj


def _write_uid(kind: str, number: int) -> str:
    return f"12345678-{kind}-1234-1234-{number:012}"


def _name_node(number: int) -> str:
    return f"node-{number:05}"


def _name_job(number: int) -> str:
    return f"job-{number:05}"


def _name_team(number: int) -> str:
    return f"team-{number % TEAMS}"
