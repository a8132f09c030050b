"""From the creation of a job to the first moment of its user's command, beside bare pods.

Needs two real nodes. Each job is followed by the same pods from a script; milestones are read from
the audit log and containerd, never from the operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks import quotes
from benchmarks.apis import Sightings, build_path
from benchmarks.audits import read_audit
from benchmarks.benches import Bench, Site
from benchmarks.containers import Beginnings, follow_beginnings
from benchmarks.findings import Figure, Finding, Goal, Series, Side, Waterfall
from benchmarks.manifests import build_bare_pod, build_job, read_command
from benchmarks.milestones import BROKER, OPERATOR, PLATFORM, Marks, Times, list_bars, list_parts
from benchmarks.namespaces import clear_pods, make_namespace
from benchmarks.podwatching import find_ended, read_stamp, wait_running, watch_pods
from benchmarks.spreads import measure_spread
from et_contract.names import BROKER_CONTAINER

WORKERS = 2
SAMPLES = 20
LIMIT = 1.1
ASIDE = "import time; time.sleep(3600)"
"""What a bare pod's sidecar runs in place of the broker."""

LAUNCHER_WAY = (
    ("launcher's pod asked for", OPERATOR),
    ("launcher's pod bound to a node", PLATFORM),
    ("broker's container begun", PLATFORM),
    ("broker asks for its config", BROKER),
    ("last stream to a worker asked for", BROKER),
    ("user's command began", BROKER),
)
WORKERS_WAY = (
    ("last worker's pod asked for", OPERATOR),
    ("last worker's pod bound", PLATFORM),
    ("last worker's container begun", PLATFORM),
    ("workers seen running", PLATFORM),
    ("workers named to the broker", OPERATOR),
)
SHIM_WAY = (("launcher's container begun", PLATFORM),)
BARE_WAY = (
    ("its pod bound", PLATFORM),
    ("its sidecar begun", PLATFORM),
    ("its container begun", PLATFORM),
    ("its command began", PLATFORM),
)
"""What each of them ends with, and who was at it until then."""


@dataclass(frozen=True, slots=True)
class Start:
    """One job's milestones, in seconds since just before its creation was asked for."""

    launcher: Times
    workers: Times
    shim: Times
    pods: tuple[dict[str, Any], ...]


async def measure(bench: Bench) -> Finding:
    """A job, then the same pods by themselves, and again; the first pair only warms things up."""
    site = bench.get_site()
    ours: list[Start] = []
    bare: list[Times] = []
    async with (
        make_namespace(site, "start") as namespace,
        follow_beginnings(site.cluster) as beginnings,
    ):
        for number in range(bench.count_samples(SAMPLES) + 1):
            start = await start_job(site, beginnings, namespace, f"job-{number}")
            times = await start_bare(site, beginnings, namespace, start.pods)
            if number:
                ours.append(start)
                bare.append(times)
    whole = tuple(start.launcher[-1] for start in ours)
    ways = (
        ("", LAUNCHER_WAY, [start.launcher for start in ours]),
        ("", WORKERS_WAY, [start.workers for start in ours]),
        ("", SHIM_WAY, [start.shim for start in ours]),
        ("bare pods: ", BARE_WAY, bare),
    )
    goal = Goal("created to command, median", measure_spread(whole).median, LIMIT, "s")
    parts = [series for title, way, times in ways for series in list_parts(title, way, times)]
    bars = tuple(bar for title, way, times in ways for bar in list_bars(title, way, times))
    return Finding(
        series=(
            Series("created to command", "s", whole),
            *parts,
            Series("et-operator", "s", (quotes.START_SECONDS,), Side.PEER, quotes.ORIGIN),
        ),
        goals=(goal,),
        waterfalls=(
            Waterfall("created-to-command", "A start of 2 workers, medians, and bare pods", bars),
        ),
    )


async def start_job(site: Site, beginnings: Beginnings, namespace: str, name: str) -> Start:
    """Create a job, wait for its command, and find out when each part of it was done."""
    selector = f"training-job-name={name}"
    launcher, workers = f"{name}-launcher", [f"{name}-worker-{n}" for n in range(WORKERS)]
    seen = Sightings(site.clock)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watch_pods(site, seen, namespace, selector))
        created = site.clock.now().timestamp()
        manifest = build_job(name, workers=WORKERS, command=read_command("stamp"))
        await site.api.create(build_path("trainingjobs", namespace), manifest)
        await seen.wait(lambda: find_ended(seen.lines, launcher), f"{launcher} has ended")
        running = [await wait_running(seen, worker) for worker in workers]
        watch.cancel()
    listed = await site.api.get(build_path("pods", namespace), labelSelector=selector)
    pods = {pod["metadata"]["name"]: pod for pod in listed["items"]}
    began = await read_stamp(site.api, namespace, launcher)
    marks = Marks(read_audit(site.cluster.audit_log, namespace))
    await site.api.delete(build_path("trainingjobs", namespace, name))
    await clear_pods(site, namespace, selector)
    account = f":{launcher}"

    def since(*marks: float) -> Times:
        return tuple(mark - created for mark in marks)

    return Start(
        launcher=since(
            marks.find_asked(launcher),
            marks.find_bound(launcher),
            beginnings.find(pods[launcher], BROKER_CONTAINER),
            marks.find_config_asked(account),
            marks.find_last_stream(account, began),
            began,
        ),
        workers=since(
            max(map(marks.find_asked, workers)),
            max(map(marks.find_bound, workers)),
            max(beginnings.find(pods[worker], "worker") for worker in workers),
            max(running),
            marks.find_named(f"{name}-config", began),
        ),
        shim=since(beginnings.find(pods[launcher], "launcher")),
        pods=tuple(pods.values()),
    )


async def start_bare(
    site: Site, beginnings: Beginnings, namespace: str, pods: Iterable[Mapping[str, Any]]
) -> Times:
    """The job's pods at once, none waits for another: what BARE_WAY names, in seconds."""
    manifests = [build_bare_pod(pod, f"bare-{pod['metadata']['name']}") for pod in pods]
    launcher = next(item for item in manifests if item["spec"].get("initContainers"))
    launcher["spec"]["initContainers"][0]["command"] = ["python3", "-c", ASIDE]
    launcher["spec"]["containers"][0]["command"] = read_command("stamp")
    name = launcher["metadata"]["name"]
    others = [item["metadata"]["name"] for item in manifests if item is not launcher]
    seen = Sightings(site.clock)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watch_pods(site, seen, namespace, "benchmark=bare"))
        created = site.clock.now().timestamp()
        async with asyncio.TaskGroup() as creations:
            for manifest in manifests:
                creations.create_task(site.api.create(build_path("pods", namespace), manifest))
        await seen.wait(lambda: find_ended(seen.lines, name), f"{name} has ended")
        for other in others:
            await wait_running(seen, other)
        watch.cancel()
    began = await read_stamp(site.api, namespace, name)
    pod = await site.api.get(build_path("pods", namespace, name))
    bound = Marks(read_audit(site.cluster.audit_log, namespace)).find_bound(name)
    await clear_pods(site, namespace, "benchmark=bare")
    sidecar, own = (beginnings.find(pod, each) for each in (BROKER_CONTAINER, "launcher"))
    return tuple(mark - created for mark in (bound, sidecar, own, began))


FIGURE = Figure(
    title="From created to the user's command",
    explanation=(
        f"A job of {WORKERS} workers on two real nodes, images present: from just before its "
        "creation is sent until the user's command runs, by the command's own word. The image is "
        "the operator's own: small, with python3, nothing in it needs warming. The rows below it "
        "are milestones of the same starts, each counted from the creation; times of requests are "
        "the API server's (audit log), those of containers containerd's, `seen` is a watch. "
        "Beside it the same pods with the same images, containers and volumes, created at once by "
        "a script; there nothing waits for anything: the sidecar sleeps, the command is the "
        "container's own. The picture has the medians of all, and who was at each piece."
    ),
    measure=measure,
)
