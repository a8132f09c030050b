"""From the creation of a job to the first moment of its user's command, beside bare pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import quotes
from benchmarks.apis import Sightings, build_path
from benchmarks.audits import read_audit
from benchmarks.benches import Bench, Site
from benchmarks.findings import Figure, Finding, Goal, Series, Side
from benchmarks.manifests import build_bare_pod, build_job, read_command
from benchmarks.namespaces import clear_pods, make_namespace
from benchmarks.podwatching import find_ended, read_stamp, wait_running, watch_pods
from benchmarks.spreads import measure_spread
from devcluster.audits import Request

WORKERS = 2
SAMPLES = 20
LIMIT = 1.1
ASIDE = "import time; time.sleep(3600)"
"""What a bare pod's sidecar runs in place of the broker."""

MILESTONES = (
    "first pod asked for",
    "last pod created",
    "broker asks for its config",
    "workers seen running",
    "workers named to the broker",
    "last stream to a worker asked for",
    "user's command began",
)


@dataclass(frozen=True, slots=True)
class Start:
    """One job's milestones, in seconds since just before its creation was asked for."""

    milestones: tuple[float, ...]
    pods: tuple[dict[str, Any], ...]


async def measure(bench: Bench) -> Finding:
    """A job, then the same pods by themselves, and again; the first pair only warms things up."""
    site = bench.get_site()
    ours: list[Start] = []
    bare: list[tuple[float, float]] = []
    async with make_namespace(site, "start") as namespace:
        for number in range(bench.count_samples(SAMPLES) + 1):
            start = await start_job(site, namespace, f"job-{number}")
            seconds = await start_bare(site, namespace, start.pods)
            if number:
                ours.append(start)
                bare.append(seconds)
    whole = tuple(start.milestones[-1] for start in ours)
    parts = [
        Series(f"... until: {title}", "s", tuple(start.milestones[place] for start in ours))
        for place, title in enumerate(MILESTONES[:-1])
    ]
    commands, all_running = zip(*bare, strict=True)
    goal = Goal("created to command, median", measure_spread(whole).median, LIMIT, "s")
    return Finding(
        series=(
            Series("created to command", "s", whole),
            *parts,
            Series("bare pods: created to command", "s", commands, Side.BARE),
            Series("bare pods: created to all seen running", "s", all_running, Side.BARE),
            Series("et-operator", "s", (quotes.START_SECONDS,), Side.PEER, quotes.ORIGIN),
        ),
        goals=(goal,),
    )


async def start_job(site: Site, namespace: str, name: str) -> Start:
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
    pods = await site.api.get(build_path("pods", namespace), labelSelector=selector)
    began = await read_stamp(site.api, namespace, launcher)
    audit = read_audit(site.cluster.audit_log, namespace)
    marks = (*find_marks(audit, name, began), began)
    await site.api.delete(build_path("trainingjobs", namespace, name))
    await clear_pods(site, namespace, selector)
    ordered = (*marks[:3], max(running), *marks[3:])
    return Start(tuple(mark - created for mark in ordered), tuple(pods["items"]))


async def start_bare(
    site: Site, namespace: str, pods: Iterable[Mapping[str, Any]]
) -> tuple[float, float]:
    """The same pods at once, none waits for another: seconds to the command, and to all running."""
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
        running = [await wait_running(seen, other) for other in others]
        watch.cancel()
    began = await read_stamp(site.api, namespace, name)
    await clear_pods(site, namespace, "benchmark=bare")
    return began - created, max(began, *running) - created


def find_marks(audit: Sequence[Request], job: str, began: float) -> tuple[float, ...]:
    """What MILESTONES names, but for what the watch saw and the command said."""
    ours = [request for request in audit if request.name.startswith(f"{job}-")]
    creations = [r for r in ours if r.verb == "create" and r.target == "pods"]
    broker = [r for r in audit if r.account.endswith(f":{job}-launcher")]
    naming = [r for r in ours if r.verb == "patch" and r.name == f"{job}-config" and r.done < began]
    streams = [r for r in broker if r.target == "pods/exec" and r.received < began]
    return (
        min(r.received for r in creations),
        max(r.done for r in creations),
        min(r.received for r in broker),
        max(r.done for r in naming),
        max(r.received for r in streams),
    )


FIGURE = Figure(
    title="From created to the user's command",
    explanation=(
        f"A job of {WORKERS} workers on two real nodes, images present: from just before its "
        "creation is sent until the user's command runs, by the command's own word. The image is "
        "the operator's own: small, with python3, nothing in it needs warming. The rows below it "
        "are milestones of the same starts, each counted from the creation; times of requests are "
        "the API server's (audit log), `seen` is a watch. Beside it the same pods with the same "
        "images, containers and volumes, created at once by a script; there nothing waits for "
        "anything: the sidecar sleeps, the command is the container's own."
    ),
    measure=measure,
)
