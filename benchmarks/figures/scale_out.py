"""From the creation of a ScaleOut to both hosts in the list of the discovery script.

Needs two real nodes. Rounds are scalings.py's, shared with scale_in.py; beside each there are two
pods like the workers, from a script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks import quotes
from benchmarks.apis import Transcript, build_path
from benchmarks.attributing import share_out, tabulate
from benchmarks.audits import read_audit
from benchmarks.benches import Bench
from benchmarks.containers import Beginnings, follow_beginnings
from benchmarks.findings import Figure, Finding, Goal, Series, Side, Waterfall
from benchmarks.manifests import build_bare_pod
from benchmarks.milestones import (
    AGENTS,
    API_SERVER,
    BROKER,
    NODES,
    OPERATOR,
    SCHEDULER,
    Marks,
    Steps,
    Waits,
    chain,
    list_bars,
    list_parts,
)
from benchmarks.namespaces import clear_pods
from benchmarks.podwatching import wait_running, watch_pods
from benchmarks.scalings import JOB, STEP, ElasticJob, Round, run_elastic_job, scale_out_and_in
from benchmarks.spreads import measure_spread

SAMPLES = 20
LIMIT = 1.0
OWN_LIMIT = 100.0
STORED = "ScaleOut stored"
ASKED = "pods asked for"
BOUND = "pods bound to nodes"
BEGUN = "last container begun"
RUN = "kubelets have said that the pods run"
NAMED = "operator has named them to the broker"
TOLD = "config with their names stored"
STREAM_ASKED = "last stream to them asked for"
STREAM_BEGUN = "last stream's process begun"
LISTED = "both in the broker's list"
VISIBLE = "both in the list that is read"
WAY = (
    STORED,
    ASKED,
    BOUND,
    BEGUN,
    RUN,
    NAMED,
    TOLD,
    STREAM_ASKED,
    STREAM_BEGUN,
    LISTED,
    VISIBLE,
)
BARE_STORED, BARE_BOUND, BARE_RUN = "pods stored", "pods bound", "pods seen running"
BARE_WAY = (BARE_STORED, BARE_BOUND, BEGUN, BARE_RUN)


@dataclass(frozen=True, slots=True)
class Growth:
    """Two pods more, of a job or bare; in seconds since just before they were asked for."""

    steps: Steps
    waits: Waits


async def measure(bench: Bench) -> Finding:
    """Rounds of ScaleOut and ScaleIn, bare pods after each; the first only warms things up."""
    ours: list[Growth] = []
    bare: list[Growth] = []
    own: list[float] = []
    site = bench.get_site()
    async with (
        follow_beginnings(site.cluster) as beginnings,
        run_elastic_job(site, "scale-out") as job,
    ):
        for number in range(bench.count_samples(SAMPLES) + 1):
            done = await scale_out_and_in(job)
            other = await start_bare_workers(job, beginnings)
            if number:
                growth = read_growth(done, beginnings)
                ours.append(growth)
                bare.append(other)
                own.append(1000 * (growth.steps[NAMED].at - growth.steps[RUN].at))
    whole = tuple(growth.steps[VISIBLE].at for growth in ours)
    goals = (
        Goal("ScaleOut +2 to visible, median", measure_spread(whole).median, LIMIT, "s"),
        Goal("operator's own share, median", measure_spread(own).median, OWN_LIMIT, "ms"),
    )
    steps, bare_steps = [growth.steps for growth in ours], [growth.steps for growth in bare]
    ways = (("", WAY, steps), (f"{STEP} bare pods: ", BARE_WAY, bare_steps))
    parts = [series for title, way, times in ways for series in list_parts(title, way, times)]
    bars = tuple(bar for title, way, times in ways for bar in list_bars(title, way, times))
    series = (
        Series("ScaleOut +2 to visible", "s", whole),
        *parts,
        Series("operator's own share: pods run -> named to the broker", "ms", tuple(own)),
        Series("et-operator", "s", (quotes.SCALE_OUT_SECONDS,), Side.PEER, quotes.ORIGIN),
        Series(
            "mpi-operator, at most",
            "s",
            (quotes.MPI_OPERATOR_SECONDS,),
            Side.PEER,
            quotes.MPI_OPERATOR_ORIGIN,
        ),
    )
    waterfall = Waterfall("scale-out", f"A ScaleOut by {STEP}, medians, and bare pods", bars)
    table = tabulate(
        "Whose the time is until both are listed",
        [share_out(growth.steps, VISIBLE, growth.waits) for growth in ours],
        [share_out(growth.steps, BARE_RUN, growth.waits) for growth in bare],
    )
    return Finding(series, goals, tables=(table,), waterfalls=(waterfall,))


def read_growth(done: Round, beginnings: Beginnings) -> Growth:
    """What a round tells of its ScaleOut."""
    marks, pods = Marks(done.audit), {pod["metadata"]["name"]: pod for pod in done.pods}
    stream = marks.find_last_stream(pods, done.visible)
    named = marks.find_named(f"{JOB}-config", stream.received)
    times = {
        STORED: marks.find_stored(done.out_name, "scaleouts"),
        ASKED: max(map(marks.find_asked, pods)),
        BOUND: max(map(marks.find_bound, pods)),
        BEGUN: max(beginnings.find(pod, "worker") for pod in done.pods),
        RUN: marks.find_told_running(pods, named.received),
        NAMED: named.received,
        TOLD: named.done,
        STREAM_ASKED: stream.received,
        STREAM_BEGUN: beginnings.find_execution(pods[stream.name], "worker", stream.received),
        LISTED: done.listed,
        VISIBLE: done.visible,
    }
    since = {name: at - done.out_created for name, at in times.items()}
    return Growth(list_steps(since), marks.list_waits(done.out_created))


def list_steps(times: Mapping[str, float]) -> Steps:
    """One after the other; whose time it is until each."""
    parties = (
        (STORED, API_SERVER),
        (ASKED, OPERATOR),
        (BOUND, SCHEDULER),
        (BEGUN, NODES),
        (RUN, NODES),
        (NAMED, OPERATOR),
        (TOLD, API_SERVER),
        (STREAM_ASKED, BROKER),
        (STREAM_BEGUN, NODES),
        (LISTED, AGENTS),
        (VISIBLE, BROKER),
    )
    return chain(times, parties)


async def start_bare_workers(job: ElasticJob, beginnings: Beginnings) -> Growth:
    """As many pods like a worker, by themselves."""
    site, namespace = job.site, job.namespace
    path = build_path("pods", namespace)
    worker = await site.api.get(build_path("pods", namespace, f"{JOB}-worker-0"))
    names = [f"bare-{number}" for number in range(STEP)]
    manifests = [build_bare_pod(worker, name) for name in names]
    seen = Transcript(site.clock)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watch_pods(site, seen, namespace, "benchmark=bare"))
        created = site.clock.now().timestamp()
        async with asyncio.TaskGroup() as creations:
            for manifest in manifests:
                creations.create_task(site.api.create(path, manifest))
        times = [await wait_running(seen, name) for name in names]
        watch.cancel()
    pods = [await site.api.get(build_path("pods", namespace, name)) for name in names]
    audit = read_audit(site.cluster.audit_log, namespace)
    marks = Marks([request for request in audit if request.received >= created])
    marked = {
        BARE_STORED: max(marks.find_stored(name, "pods") for name in names),
        BARE_BOUND: max(map(marks.find_bound, names)),
        BEGUN: max(beginnings.find(pod, "worker") for pod in pods),
        BARE_RUN: max(times),
    }
    await clear_pods(site, namespace, "benchmark=bare")
    since = {name: at - created for name, at in marked.items()}
    parties = (BARE_STORED, API_SERVER), (BARE_BOUND, SCHEDULER), (BEGUN, NODES), (BARE_RUN, NODES)
    return Growth(chain(since, parties), marks.list_waits(created))


FIGURE = Figure(
    title="From a ScaleOut to hosts in the list",
    explanation=(
        "A running job of 2 workers on real nodes gets 2 more: from just before the ScaleOut's "
        "creation is sent until the list that discover_hosts.sh prints has both. A stand-in for "
        "horovodrun asks the broker for that list every 20 ms, so Horovod's own second of polling "
        "is not in it. The operator's own share begins when the kubelet's word that the pods run "
        "reaches the API server. Beside it two pods like those workers, created by a script. "
        "Times of requests are the API server's (audit log), those of containers and of what is "
        "executed in them containerd's, that of the broker's list its log; the picture has the "
        "medians of all, and who was at each piece. The table sums up, as that of "
        "[created-to-command](#created-to-command) does."
    ),
    measure=measure,
)
