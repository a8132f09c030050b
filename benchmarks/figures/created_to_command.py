"""From the creation of a job to the first moment of its user's command, beside bare pods.

Needs two real nodes. Each job is followed by the same pods from a script; milestones are read from
the audit log and containerd, never from the operator; that hosts are listed is the broker's word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks import quotes
from benchmarks.apis import Transcript, build_path
from benchmarks.attributing import share_out, tabulate
from benchmarks.audits import read_audit
from benchmarks.benches import Bench, Site
from benchmarks.containers import Beginnings, follow_beginnings
from benchmarks.findings import Figure, Finding, Goal, Series, Side, Waterfall
from benchmarks.manifests import build_bare_pod, build_job, read_command
from benchmarks.milestones import (
    AGENTS,
    API_SERVER,
    BROKER,
    COMMAND,
    NODES,
    OPERATOR,
    SCHEDULER,
    Marks,
    Step,
    Steps,
    Waits,
    list_bars,
    list_parts,
)
from benchmarks.namespaces import clear_pods, make_namespace
from benchmarks.podwatching import (
    find_ended,
    read_listed,
    read_stamp,
    wait_running,
    watch_pods,
)
from benchmarks.spreads import measure_spread
from et_contract.names import BROKER_CONTAINER

WORKERS = 2
SAMPLES = 20
LIMIT = 1.1
ASIDE = "import time; time.sleep(3600)"
"""What a bare pod's sidecar runs in place of the broker."""

STORED = "job stored"
LAUNCHER_ASKED = "launcher's pod asked for"
LAUNCHER_BOUND = "launcher's pod bound to a node"
BROKER_BEGUN = "broker's container begun"
CONFIG_ASKED = "broker asks for its config"
STREAM_ASKED = "last stream to a worker asked for"
STREAM_BEGUN = "last stream's process begun"
LISTED = "all workers in the list"
STARTED = "process of the command started"
BEGAN = "user's command began"
WORKERS_ASKED = "last worker's pod asked for"
WORKERS_BOUND = "last worker's pod bound"
WORKERS_BEGUN = "last worker's container begun"
WORKERS_RUN = "workers told to run"
NAMED = "workers named to the broker"
SHIM_BEGUN = "launcher's container begun"
LAUNCHER_WAY = (
    STORED,
    LAUNCHER_ASKED,
    LAUNCHER_BOUND,
    BROKER_BEGUN,
    CONFIG_ASKED,
    STREAM_ASKED,
    STREAM_BEGUN,
    LISTED,
    STARTED,
    BEGAN,
)
WORKERS_WAY = (WORKERS_ASKED, WORKERS_BOUND, WORKERS_BEGUN, WORKERS_RUN, NAMED)
BARE_STORED, BARE_BOUND = "its pod stored", "its pod bound"
BARE_SIDECAR, BARE_BEGUN = "its sidecar begun", "its container begun"
BARE_BEGAN = "its command began"
BARE_WAY = (BARE_STORED, BARE_BOUND, BARE_SIDECAR, BARE_BEGUN, BARE_BEGAN)


@dataclass(frozen=True, slots=True)
class Start:
    """One start, of a job or of bare pods; in seconds since just before it was asked for."""

    steps: Steps
    waits: Waits
    pods: tuple[dict[str, Any], ...] = ()


async def measure(bench: Bench) -> Finding:
    """A job, then the same pods by themselves, and again; the first pair only warms things up."""
    site = bench.get_site()
    ours: list[Start] = []
    bare: list[Start] = []
    async with (
        make_namespace(site, "start") as namespace,
        follow_beginnings(site.cluster) as beginnings,
    ):
        for number in range(bench.count_samples(SAMPLES) + 1):
            start = await start_job(site, beginnings, namespace, f"job-{number}")
            other = await start_bare(site, beginnings, namespace, start.pods)
            if number:
                ours.append(start)
                bare.append(other)
    whole = tuple(start.steps[BEGAN].at for start in ours)
    steps, bare_steps = [start.steps for start in ours], [start.steps for start in bare]
    ways = (
        ("", LAUNCHER_WAY, steps),
        ("", WORKERS_WAY, steps),
        ("", (SHIM_BEGUN,), steps),
        ("bare pods: ", BARE_WAY, bare_steps),
    )
    goal = Goal("created to command, median", measure_spread(whole).median, LIMIT, "s")
    parts = [series for title, way, times in ways for series in list_parts(title, way, times)]
    bars = tuple(bar for title, way, times in ways for bar in list_bars(title, way, times))
    shares = [share_out(start.steps, BEGAN, start.waits) for start in ours]
    bare_shares = [share_out(start.steps, BARE_BEGAN, start.waits) for start in bare]
    return Finding(
        series=(
            Series("created to command", "s", whole),
            *parts,
            Series("et-operator", "s", (quotes.START_SECONDS,), Side.PEER, quotes.ORIGIN),
        ),
        goals=(goal,),
        tables=(tabulate("Whose the time is until the command begins", shares, bare_shares),),
        waterfalls=(
            Waterfall("created-to-command", "A start of 2 workers, medians, and bare pods", bars),
        ),
    )


async def start_job(site: Site, beginnings: Beginnings, namespace: str, name: str) -> Start:
    """Create a job, wait for its command, and find out when each part of it was done."""
    selector = f"training-job-name={name}"
    launcher, workers = f"{name}-launcher", [f"{name}-worker-{n}" for n in range(WORKERS)]
    seen = Transcript(site.clock)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(watch_pods(site, seen, namespace, selector))
        created = site.clock.now().timestamp()
        manifest = build_job(name, workers=WORKERS, command=read_command("stamp"))
        await site.api.create(build_path("trainingjobs", namespace), manifest)
        await seen.wait(lambda: find_ended(seen.lines, launcher), f"{launcher} has ended")
        for worker in workers:
            await wait_running(seen, worker)
        watch.cancel()
    listed = await site.api.get(build_path("pods", namespace), labelSelector=selector)
    pods = {pod["metadata"]["name"]: pod for pod in listed["items"]}
    started, began = await read_stamp(site.api, namespace, launcher)
    listed_at = await read_listed(site.api, namespace, launcher, began)
    marks = Marks(read_audit(site.cluster.audit_log, namespace))
    await site.api.delete(build_path("trainingjobs", namespace, name))
    await clear_pods(site, namespace, selector)
    stream = marks.find_last_stream(workers, began)
    named = marks.find_named(f"{name}-config", stream.received)
    bridged = pods[stream.name]
    times = {
        STORED: marks.find_stored(name, "trainingjobs"),
        LAUNCHER_ASKED: marks.find_asked(launcher),
        LAUNCHER_BOUND: marks.find_bound(launcher),
        BROKER_BEGUN: beginnings.find(pods[launcher], BROKER_CONTAINER),
        SHIM_BEGUN: beginnings.find(pods[launcher], "launcher"),
        CONFIG_ASKED: marks.find_config_asked(f":{launcher}"),
        WORKERS_ASKED: max(map(marks.find_asked, workers)),
        WORKERS_BOUND: max(map(marks.find_bound, workers)),
        WORKERS_BEGUN: max(beginnings.find(pods[worker], "worker") for worker in workers),
        WORKERS_RUN: marks.find_told_running(workers, named.received),
        NAMED: named.done,
        STREAM_ASKED: stream.received,
        STREAM_BEGUN: beginnings.find_execution(bridged, "worker", stream.received),
        LISTED: listed_at,
        STARTED: started,
        BEGAN: began,
    }
    since = {step: at - created for step, at in times.items()}
    return Start(list_steps(since), marks.list_waits(created), tuple(pods.values()))


def list_steps(times: Mapping[str, float]) -> Steps:
    """What each milestone of a job waits for, and whose time it is until then."""
    ways: dict[str, tuple[str, tuple[str, ...]]] = {
        STORED: (API_SERVER, ()),
        LAUNCHER_ASKED: (OPERATOR, (STORED,)),
        LAUNCHER_BOUND: (SCHEDULER, (LAUNCHER_ASKED,)),
        BROKER_BEGUN: (NODES, (LAUNCHER_BOUND,)),
        SHIM_BEGUN: (NODES, (BROKER_BEGUN,)),
        CONFIG_ASKED: (BROKER, (BROKER_BEGUN,)),
        WORKERS_ASKED: (OPERATOR, (STORED,)),
        WORKERS_BOUND: (SCHEDULER, (WORKERS_ASKED,)),
        WORKERS_BEGUN: (NODES, (WORKERS_BOUND,)),
        WORKERS_RUN: (NODES, (WORKERS_BEGUN,)),
        NAMED: (OPERATOR, (WORKERS_RUN,)),
        STREAM_ASKED: (BROKER, (CONFIG_ASKED, NAMED)),
        STREAM_BEGUN: (NODES, (STREAM_ASKED,)),
        LISTED: (AGENTS, (STREAM_BEGUN,)),
        STARTED: (BROKER, (LISTED, SHIM_BEGUN)),
        BEGAN: (COMMAND, (STARTED,)),
    }
    return {name: Step(times[name], whose, after) for name, (whose, after) in ways.items()}


async def start_bare(
    site: Site, beginnings: Beginnings, namespace: str, pods: Iterable[Mapping[str, Any]]
) -> Start:
    """The job's pods at once, none waits for another."""
    manifests = [build_bare_pod(pod, f"bare-{pod['metadata']['name']}") for pod in pods]
    launcher = next(item for item in manifests if item["spec"].get("initContainers"))
    launcher["spec"]["initContainers"][0]["command"] = ["python3", "-c", ASIDE]
    launcher["spec"]["containers"][0]["command"] = read_command("stamp")
    name = launcher["metadata"]["name"]
    others = [item["metadata"]["name"] for item in manifests if item is not launcher]
    seen = Transcript(site.clock)
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
    _, began = await read_stamp(site.api, namespace, name)
    pod = await site.api.get(build_path("pods", namespace, name))
    marks = Marks(read_audit(site.cluster.audit_log, namespace))
    await clear_pods(site, namespace, "benchmark=bare")
    sidecar, own = (beginnings.find(pod, each) for each in (BROKER_CONTAINER, "launcher"))
    steps = {
        BARE_STORED: Step(marks.find_stored(name, "pods") - created, API_SERVER),
        BARE_BOUND: Step(marks.find_bound(name) - created, SCHEDULER, (BARE_STORED,)),
        BARE_SIDECAR: Step(sidecar - created, NODES, (BARE_BOUND,)),
        BARE_BEGUN: Step(own - created, NODES, (BARE_SIDECAR,)),
        BARE_BEGAN: Step(began - created, COMMAND, (BARE_BEGUN,)),
    }
    return Start(steps, marks.list_waits(created))


FIGURE = Figure(
    title="From created to the user's command",
    explanation=(
        f"A job of {WORKERS} workers on two real nodes, images present: from just before its "
        "creation is sent until the user's command runs, by the command's own word. The image is "
        "the operator's own: small, with python3, nothing in it needs warming. The rows below it "
        "are milestones of the same starts, each counted from the creation; times of requests are "
        "the API server's (audit log), those of containers and of what is executed in them "
        "containerd's, that of the list the broker's log, that of the process the kernel's. "
        "Beside it the same pods with the same images, containers and volumes, created at once by "
        "a script; there nothing waits for anything: the sidecar sleeps, the command is the "
        "container's own. The picture has the medians of all, and who was at each piece. The table "
        "sums up: of what each start waited for, the latest counts, and while operator, broker or "
        "scheduler had asked the API server, the time is that one's. Agents have the time from "
        "the process of the last stream to the list, so that the broker reads is in it; to the "
        "broker belongs that its program starts, to the user's command that its Python does."
    ),
    measure=measure,
)
