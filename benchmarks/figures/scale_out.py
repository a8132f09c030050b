"""From the creation of a ScaleOut to both hosts in the list of the discovery script.

Needs two real nodes. Rounds are scalings.py's, shared with scale_in.py; beside each there are two
pods like the workers, from a script.
"""

from __future__ import annotations

import asyncio

from benchmarks import quotes
from benchmarks.apis import Sightings, build_path
from benchmarks.audits import read_audit
from benchmarks.benches import Bench
from benchmarks.containers import Beginnings, follow_beginnings
from benchmarks.findings import Figure, Finding, Goal, Series, Side, Waterfall
from benchmarks.manifests import build_bare_pod
from benchmarks.milestones import BROKER, OPERATOR, PLATFORM, Marks, Times, list_bars, list_parts
from benchmarks.namespaces import clear_pods
from benchmarks.podwatching import wait_running, watch_pods
from benchmarks.scalings import JOB, STEP, ElasticJob, Round, run_elastic_job, scale_out_and_in
from benchmarks.spreads import measure_spread

SAMPLES = 20
LIMIT = 1.0
OWN_LIMIT = 100.0
WAY = (
    ("pods asked for", OPERATOR),
    ("pods bound to nodes", PLATFORM),
    ("last container begun", PLATFORM),
    ("kubelets have said that the pods run", PLATFORM),
    ("operator has named them to the broker", OPERATOR),
    ("both in the list", BROKER),
)
BARE_WAY = (
    ("pods bound", PLATFORM),
    ("last container begun", PLATFORM),
    ("pods seen running", PLATFORM),
)
"""What each piece ends with, and who was at it until then."""


async def measure(bench: Bench) -> Finding:
    """Rounds of ScaleOut and ScaleIn, bare pods after each; the first only warms things up."""
    rounds: list[Round] = []
    ours: list[Times] = []
    bare: list[Times] = []
    site = bench.get_site()
    async with (
        follow_beginnings(site.cluster) as beginnings,
        run_elastic_job(site, "scale-out") as job,
    ):
        for number in range(bench.count_samples(SAMPLES) + 1):
            done = await scale_out_and_in(job)
            times = await start_bare_workers(job, beginnings)
            if number:
                rounds.append(done)
                ours.append(list_times(done, beginnings))
                bare.append(times)
    whole = tuple(times[-1] for times in ours)
    own = tuple(1000 * (r.members_asked - r.pods_running) for r in rounds)
    goals = (
        Goal("ScaleOut +2 to visible, median", measure_spread(whole).median, LIMIT, "s"),
        Goal("operator's own share, median", measure_spread(own).median, OWN_LIMIT, "ms"),
    )
    ways = (("", WAY, ours), (f"{STEP} bare pods: ", BARE_WAY, bare))
    parts = [series for title, way, times in ways for series in list_parts(title, way, times)]
    bars = tuple(bar for title, way, times in ways for bar in list_bars(title, way, times))
    series = (
        Series("ScaleOut +2 to visible", "s", whole),
        *parts,
        Series("operator's own share: pods run -> named to the broker", "ms", own),
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
    return Finding(series, goals, waterfalls=(waterfall,))


def list_times(done: Round, beginnings: Beginnings) -> Times:
    """What WAY names, in seconds from the creation of the ScaleOut."""
    marks = (
        done.pods_asked,
        done.pods_bound,
        max(beginnings.find(pod, "worker") for pod in done.pods),
        done.pods_running,
        done.members_asked,
        done.visible,
    )
    return tuple(mark - done.out_created for mark in marks)


async def start_bare_workers(job: ElasticJob, beginnings: Beginnings) -> Times:
    """As many pods like a worker, by themselves: what BARE_WAY names, in seconds."""
    site, namespace = job.site, job.namespace
    path = build_path("pods", namespace)
    worker = await site.api.get(build_path("pods", namespace, f"{JOB}-worker-0"))
    names = [f"bare-{number}" for number in range(STEP)]
    manifests = [build_bare_pod(worker, name) for name in names]
    seen = Sightings(site.clock)
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
    bound = max(map(marks.find_bound, names))
    begun = max(beginnings.find(pod, "worker") for pod in pods)
    await clear_pods(site, namespace, "benchmark=bare")
    return tuple(mark - created for mark in (bound, begun, max(times)))


FIGURE = Figure(
    title="From a ScaleOut to hosts in the list",
    explanation=(
        "A running job of 2 workers on real nodes gets 2 more: from just before the ScaleOut's "
        "creation is sent until the list that discover_hosts.sh prints has both. A stand-in for "
        "horovodrun asks the broker for that list every 20 ms, so Horovod's own second of polling "
        "is not in it. The operator's own share begins when the kubelet's word that the pods run "
        "reaches the API server. Beside it two pods like those workers, created by a script. "
        "Times of requests are the API server's (audit log), those of containers containerd's; "
        "the picture has the medians of all, and who was at each piece."
    ),
    measure=measure,
)
