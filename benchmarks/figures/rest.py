"""What the operator does while nothing happens.

No cluster: reports of nodes go through Ingest into a store, and nothing else of the operator runs.
No pass may follow from them.
"""

from __future__ import annotations

import json
import time
from typing import Any

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Series
from benchmarks.spreads import measure_spread
from benchmarks.standing import StandingJob
from et_kube.resources import NODES, PODS, Resource
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store

NAME = "resting-job"
JOBS = 1111
WORKERS = 8
NODE_COUNT = 500
PERIOD = 10.0
"""Seconds between two reports of a node. A kubelet that has no news takes 300 s."""
SAMPLES = 5
LIMIT = 1.0


async def measure(bench: Bench) -> Finding:
    """10,000 pods of 1,111 jobs, and nodes that say again and again that they are well."""
    standing = StandingJob(WORKERS, bench.clock.now(), NAME)
    ingest = Ingest(Store())
    for number in range(JOBS):
        for (resource, _), obj in standing.objects.items():
            if resource != NODES:
                ingest.upsert(resource, rename(resource, obj, number))
    shares, woken = [], 0
    version = 10**6
    ingest_nodes(ingest, version)
    for _ in range(bench.count_samples(SAMPLES)):
        version += 1
        lines = [json.dumps(build_node(number, version)) for number in range(NODE_COUNT)]
        started = time.process_time()
        for line in lines:
            woken += len(ingest.upsert(NODES, json.loads(line)))
        shares.append(100 * (time.process_time() - started) / PERIOD)
    series = (
        Series("CPU at rest", "% of a core", tuple(shares)),
        Series("passes at rest", "", (float(woken),)),
    )
    goals = (
        Goal("CPU at rest, median", measure_spread(tuple(shares)).median, LIMIT, "% of a core"),
        Goal("passes at rest", float(woken), 0.0, ""),
    )
    return Finding(series=series, goals=goals)


def rename(resource: Resource, obj: dict[str, Any], number: int) -> dict[str, Any]:
    """An object as another job would have it, its pods on one node after the other."""
    body: dict[str, Any] = json.loads(json.dumps(obj).replace(NAME, f"{NAME}-{number}"))
    if resource == PODS:
        body["spec"]["nodeName"] = f"node-{number % NODE_COUNT}"
    return body


def ingest_nodes(ingest: Ingest, version: int) -> None:
    """All nodes for the first time, with the jobs that have pods on them already there."""
    for number in range(NODE_COUNT):
        ingest.upsert(NODES, build_node(number, version))


def build_node(number: int, version: int) -> dict[str, Any]:
    """A node as it reports itself, of the usual size; each report has another time in it."""
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": f"2026-01-01T00:00:{version % 60:02}Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": f"KubeletHas{kind}",
            "message": f"kubelet says of {kind} what it always says",
        }
        for kind in kinds
    ]
    image = {"names": ["registry.example/team/image@sha256:" + 64 * "0"], "sizeBytes": 123456789}
    metadata = {"name": f"node-{number}", "uid": f"n{number}", "resourceVersion": str(version)}
    return {"metadata": metadata, "status": {"conditions": conditions, "images": [image] * 50}}


FIGURE = Figure(
    title="The operator at rest",
    explanation=(
        f"{JOBS:,} jobs that run, with {JOBS * (WORKERS + 1):,} pods, in the store of the operator "
        f"itself, without a cluster. Each of {NODE_COUNT} nodes reports itself once in "
        f"{PERIOD:.0f} s, thirty times as often as kubelets do that have no news; what reading "
        "these reports costs is the CPU, what follows from them are the passes."
    ),
    measure=measure,
    place=Place.NOTHING,
)
