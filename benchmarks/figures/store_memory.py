"""What the operator's store keeps of each object.

No cluster: objects go through Ingest as the API server would send them; counted is what Python
keeps allocated (tracemalloc), not a process's memory.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Series, Side
from benchmarks.standing import StandingJob
from et_kube.resources import CONFIG_MAPS, PODS, TRAINING_JOBS, Resource
from et_operator.assembly import read_runtime
from et_operator.codec.decoding import decode_job
from et_operator.codec.templates import MAX_TEMPLATE
from et_operator.planning.manifests.runtimes import build_runtime
from et_operator.settings import Settings
from et_operator.state.ingesting import Ingest
from et_operator.state.store import Store

PODS_IN_ALL = 10_000
NAMESPACES = 500
JOBS = 100
MEBIBYTE = 2**20
LIMIT = 256.0
"""MiB: half of what the Deployment allows, for there is a process around it."""


async def measure(bench: Bench) -> Finding:
    """Of pods, of runtimes, and of jobs with templates as large as they may be."""
    job = StandingJob(8, bench.clock.now())
    pod = job.list_pods()[0]
    runtime = json.dumps(build_runtime("ns", read_runtime(Settings(broker_image="broker"))))
    manifest = fill(job.objects[(TRAINING_JOBS, "job")])
    if invalid := decode_job(json.loads(manifest)).invalid:
        raise ValueError(f"this is no job: {invalid}")
    ingest = Ingest(Store())
    kept = {
        "a pod": keep(ingest, PODS, pod, 1000),
        "a namespace's runtime": keep(ingest, CONFIG_MAPS, runtime, 20),
        "a job with the largest templates": keep(ingest, TRAINING_JOBS, manifest, 10),
    }
    texts = {"a pod": pod, "a namespace's runtime": runtime}
    texts["a job with the largest templates"] = manifest
    series = [Series(label, "B", (size[0],)) for label, size in kept.items()]
    series += [
        Series(f"{label}, its JSON", "B", (float(len(text)),), Side.BARE)
        for label, text in texts.items()
    ]
    counts = (PODS_IN_ALL, NAMESPACES, JOBS)
    total = sum(size[0] * n for size, n in zip(kept.values(), counts, strict=True)) / MEBIBYTE
    peak = max(size[1] for size in kept.values()) / MEBIBYTE
    series.append(Series("the largest object while it is read", "MiB", (peak,)))
    what = f"{PODS_IN_ALL:,} pods, {NAMESPACES} namespaces and {JOBS} jobs"
    return Finding(
        series=tuple(series), goals=(Goal(f"{what} together", total + peak, LIMIT, "MiB"),)
    )


def fill(manifest: dict[str, Any]) -> str:
    """A job's JSON with both templates as large as they may be, of as many objects as that has."""
    spec = manifest["spec"]["etReplicaSpecs"]
    for role in spec.values():
        container = role["template"]["spec"]["containers"][0]
        room = MAX_TEMPLATE - len(json.dumps(role["template"], separators=(",", ":"))) - 64
        container["x"] = [{"a": n % 10} for n in range(room // len('{"a":1},'))]
    return json.dumps(manifest)


def keep(ingest: Ingest, resource: Resource, text: str, count: int) -> tuple[float, float]:
    """(bytes kept of each of so many such objects, bytes at the peak beyond what was kept)."""
    gc.collect()
    tracemalloc.start()
    for obj in make(text, count):
        ingest.upsert(resource, obj)
    del obj
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    for obj in make(text, 1):
        ingest.upsert(resource, obj)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept / count, float(peak - kept)


def make(text: str, count: int) -> Iterator[dict[str, Any]]:
    """So many objects as the API server would send them, each of another name."""
    for number in range(count):
        obj = json.loads(text)
        name, uid = f"object-{number:06}", f"12345678-1234-1234-1234-{number:012}"
        place = {"namespace": f"team-{number % NAMESPACES}", "name": name, "uid": uid}
        obj["metadata"] |= place | {"resourceVersion": str(1_000_000 + number)}
        yield obj


FIGURE = Figure(
    title="What the store keeps",
    explanation=(
        "Bytes that stay allocated (tracemalloc) for each object that the operator knows: a "
        "running worker's pod, the ConfigMap with the runtime that each namespace has, and a job "
        f"whose two templates have {MAX_TEMPLATE // 1024} KiB each, of small objects, which cost "
        "most in memory. Beside each the length of its JSON. The store keeps what decisions read."
    ),
    measure=measure,
    place=Place.NOTHING,
)
