"""From the end of a worker's process to the deletion of its pod.

Needs two real nodes. Rounds are scalings.py's, shared with scale_out.py; the end of a process is
its own last word, the deletion the audit log's.
"""

from __future__ import annotations

import asyncio

from benchmarks import quotes
from benchmarks.apis import USER_AGENT, Transcript, build_path
from benchmarks.audits import find_writer, read_audit
from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Series, Side
from benchmarks.manifests import build_bare_pod
from benchmarks.podwatching import find_ended, read_pods, watch_pods
from benchmarks.scalings import JOB, ElasticJob, run_elastic_job, scale_out_and_in
from benchmarks.spreads import measure_spread

SAMPLES = 10
"""Rounds; two workers leave in each."""
LIMIT = 200.0
NAME = "bare"
COMMAND = ["sh", "-c", "sleep 1; date +%s.%N > /dev/termination-log"]


async def measure(bench: Bench) -> Finding:
    """Rounds of ScaleOut and ScaleIn, a bare pod after each; the first only warms things up."""
    rounds, bare = [], []
    async with run_elastic_job(bench.get_site(), "scale-in") as job:
        for number in range(bench.count_samples(SAMPLES) + 1):
            done = await scale_out_and_in(job)
            seconds = await end_bare_pod(job)
            if number:
                rounds.append(done)
                bare.append(1000 * seconds)
    waits = tuple(
        1000 * (deleted - left)
        for r in rounds
        for left, deleted in zip(r.left, r.deletions, strict=True)
    )
    whole = tuple(max(r.deletions) - r.in_created for r in rounds)
    goal = Goal("process left to deletion, median", measure_spread(waits).median, LIMIT, "ms")
    return Finding(
        series=(
            Series("process left to deletion requested", "ms", waits),
            Series("ScaleIn -2 created to last deletion requested", "s", whole),
            Series("a script that watches its pod's end", "ms", tuple(bare), Side.BARE),
        ),
        goals=(goal,),
        notes=(quotes.SCALE_IN,),
    )


async def end_bare_pod(job: ElasticJob) -> float:
    """Seconds from the end of a pod's only process to its deletion by whoever watches the pod."""
    site, namespace = job.site, job.namespace
    path = build_path("pods", namespace)
    manifest = build_bare_pod(await site.api.get(f"{path}/{JOB}-worker-0"), NAME)
    manifest["spec"]["containers"][0]["command"] = COMMAND
    seen = Transcript(site.clock)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watch_pods(site, seen, namespace, "benchmark=bare"))
        await site.api.create(path, manifest)
        await seen.wait(lambda: find_ended(seen.lines, NAME), f"{NAME} has ended")
        await site.api.delete(f"{path}/{NAME}", grace_seconds=0)
        watch.cancel()
    *_, (_, pod) = read_pods(seen.lines, NAME)
    left = float(pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"])
    audit = read_audit(site.cluster.audit_log, namespace)
    ours = [
        r for r in audit if r.name == NAME and r.verb == "delete" and find_writer(r) == USER_AGENT
    ]
    return ours[-1].received - left


FIGURE = Figure(
    title="From a worker's end to the deletion of its pod",
    explanation=(
        "A ScaleIn of 2 of 4 workers: from when a victim's process has ended, by that process' own "
        "last word, until the deletion of its pod reaches the API server (audit log). The process "
        "is ended by a stand-in for horovodrun as soon as the list has no such host. Beside it a "
        "script without agent and broker: it watches the pod and deletes it when the pod itself "
        "says that its process has ended."
    ),
    measure=measure,
)
