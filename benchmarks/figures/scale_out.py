"""From the creation of a ScaleOut to both hosts in the list of the discovery script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from benchmarks import quotes
from benchmarks.apis import Sightings, build_path
from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Series, Side
from benchmarks.manifests import build_bare_pod
from benchmarks.namespaces import clear_pods
from benchmarks.podwatching import wait_running, watch_pods
from benchmarks.scalings import JOB, STEP, ElasticJob, Round, run_elastic_job, scale_out_and_in
from benchmarks.spreads import measure_spread

SAMPLES = 20
LIMIT = 1.0
OWN_LIMIT = 100.0


async def measure(bench: Bench) -> Finding:
    """Rounds of ScaleOut and ScaleIn, bare pods after each; the first only warms things up."""
    rounds, bare = [], []
    async with run_elastic_job(bench.get_site(), "scale-out") as job:
        for number in range(bench.count_samples(SAMPLES) + 1):
            done = await scale_out_and_in(job)
            seconds = await start_bare_workers(job)
            if number:
                rounds.append(done)
                bare.append(seconds)
    whole = tuple(r.visible - r.out_created for r in rounds)
    own = tuple(1000 * (r.members_asked - r.pods_running) for r in rounds)
    goals = (
        Goal("ScaleOut +2 to visible, median", measure_spread(whole).median, LIMIT, "s"),
        Goal("operator's own share, median", measure_spread(own).median, OWN_LIMIT, "ms"),
    )
    series = (
        Series("ScaleOut +2 to visible", "s", whole),
        *list_parts(rounds),
        Series("operator's own share: pods run -> named to the broker", "ms", own),
        Series(f"{STEP} bare pods: created to seen running", "s", tuple(bare), Side.BARE),
        Series("et-operator", "s", (quotes.SCALE_OUT_SECONDS,), Side.PEER, quotes.ORIGIN),
        Series(
            "mpi-operator, at most",
            "s",
            (quotes.MPI_OPERATOR_SECONDS,),
            Side.PEER,
            quotes.MPI_OPERATOR_ORIGIN,
        ),
    )
    return Finding(series, goals)


def list_parts(rounds: Sequence[Round]) -> list[Series]:
    """Milestones on the way, from the creation of the ScaleOut."""
    parts: dict[str, Callable[[Round], float]] = {
        "pods asked for": lambda r: r.pods_asked,
        "kubelets have said that the pods run": lambda r: r.pods_running,
        "operator names them to the broker": lambda r: r.members_asked,
    }
    return [
        Series(f"... until: {title}", "s", tuple(pick(r) - r.out_created for r in rounds))
        for title, pick in parts.items()
    ]


async def start_bare_workers(job: ElasticJob) -> float:
    """As many pods like a worker, by themselves: seconds until they are seen running."""
    site, namespace = job.site, job.namespace
    path = build_path("pods", namespace)
    worker = await site.api.get(build_path("pods", namespace, f"{JOB}-worker-0"))
    manifests = [build_bare_pod(worker, f"bare-{number}") for number in range(STEP)]
    seen = Sightings(site.clock)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watch_pods(site, seen, namespace, "benchmark=bare"))
        created = site.clock.now().timestamp()
        async with asyncio.TaskGroup() as creations:
            for manifest in manifests:
                creations.create_task(site.api.create(path, manifest))
        times = [await wait_running(seen, item["metadata"]["name"]) for item in manifests]
        watch.cancel()
    await clear_pods(site, namespace, "benchmark=bare")
    return max(times) - created


FIGURE = Figure(
    title="From a ScaleOut to hosts in the list",
    explanation=(
        "A running job of 2 workers on real nodes gets 2 more: from just before the ScaleOut's "
        "creation is sent until the list that discover_hosts.sh prints has both. A stand-in for "
        "horovodrun asks the broker for that list every 20 ms, so Horovod's own second of polling "
        "is not in it. The operator's own share begins when the kubelet's word that the pods run "
        "reaches the API server. Beside it two pods like those workers, created by a script."
    ),
    measure=measure,
)
