"""Many jobs at once on simulated nodes, and the same pods made by a bare script.

One storm of a size is shared by all figures of a run that ask for that size (`recall_storm`). Jobs
and bare pods are made by the same code, as many requests at once. Nothing is judged here: what a
storm may cost is said in the figures that ask for it, and in pairing.py.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.apis import IN_FLIGHT, Transcript, build_path
from benchmarks.audits import count_writes, read_audit
from benchmarks.benches import Bench, Site, Storm
from benchmarks.machines import reset_peak
from benchmarks.manifests import SIMULATED, build_bare_pod, build_job
from benchmarks.namespaces import make_namespace
from benchmarks.operators import Operator, count_passes, find_operator, read_cpu
from benchmarks.queues import have_queue

WORKERS = 8
PODS = WORKERS + 1
"""Of one job: its workers and the launcher."""
LATE_SECONDS = 8.0
"""After the last pod runs: numbers in a status may come 5 s late, Events too."""
IDLE_SECONDS = 20.0
LONGEST = 900.0
_NAME = re.compile(rb'"name":"((?:storm|bare)-[a-z0-9-]+)"')
_RUNNING = b'"phase":"Running"'


async def recall_storm(bench: Bench, jobs: int) -> Storm:
    """The first storm of this size in this run; it is made now if there was none."""
    if jobs not in bench.storms:
        await run_storm(bench, jobs)
    return bench.storms[jobs]


async def run_storm(bench: Bench, jobs: int, *, is_queued: bool = False) -> Storm:
    """Make one, look at what it costs, and clear it away.

    With `is_queued` its jobs are gangs of a queue of their own; no other figure is given that one.
    """
    site = bench.get_site()
    operator = await find_operator(site)
    async with AsyncExitStack() as stack:
        namespace = await stack.enter_async_context(make_namespace(site, f"storm-{jobs}"))
        if is_queued:
            await stack.enter_async_context(have_queue(site, namespace))
        names = [f"storm-{number}" for number in range(jobs)]
        manifests = [build_storm_job(name, namespace if is_queued else "") for name in names]
        reset_peak(operator.pid)
        passes, cpu = await count_passes(site, operator), read_cpu(site, operator)
        seconds = await make_all(site, build_path("trainingjobs", namespace), manifests)
        used = {name: now - cpu[name] for name, now in read_cpu(site, operator).items()}
        await asyncio.sleep(LATE_SECONDS)
        after = await count_passes(site, operator)
        is_first = not is_queued and jobs not in bench.storms
        idle_cpu, idle_passes = await watch_idle(site, operator) if is_first else (0.0, 0)
        selector = f"training-job-name={names[0]}"
        pods = await site.api.get(build_path("pods", namespace), labelSelector=selector)
        storm = Storm(
            jobs=jobs,
            seconds=seconds,
            cpu=used,
            passes=after - passes,
            writes=count_writes(read_audit(site.cluster.audit_log, namespace)),
            usage=operator.usage,
            idle_cpu=idle_cpu,
            idle_passes=idle_passes,
            pods=tuple(pods["items"]),
        )
    if is_first:
        bench.storms[jobs] = storm
    return storm


def build_storm_job(name: str, queue: str) -> dict[str, Any]:
    """One of the jobs; with a queue a gang of it, of a size that stays."""
    job = build_job(name, workers=WORKERS, command=["train"], placing=SIMULATED)
    job["spec"] |= {"queue": queue, "elasticity": "Fixed"} if queue else {}
    return job


@dataclass(frozen=True, slots=True)
class BareStorm:
    """The pods of a storm by a script: seconds from the first creation to all Running, and CPU."""

    seconds: float
    cpu: Mapping[str, float]


async def run_bare(bench: Bench, storm: Storm) -> BareStorm:
    """As many pods as this storm had, of the same content, as fast as requests go."""
    site = bench.get_site()
    operator = await find_operator(site)
    async with make_namespace(site, f"bare-{storm.jobs}") as namespace:
        manifests = [
            build_bare_pod(pod, f"bare-{number}-{place}")
            for number in range(storm.jobs)
            for place, pod in enumerate(storm.pods)
        ]
        cpu = read_cpu(site, operator)
        seconds = await make_all(site, build_path("pods", namespace), manifests)
        used = {name: now - cpu[name] for name, now in read_cpu(site, operator).items()}
    return BareStorm(seconds, used)


async def make_all(site: Site, path: str, manifests: Sequence[Mapping[str, Any]]) -> float:
    """Create all, a few at once, and return the seconds until a watch has seen all in Running."""
    running: set[bytes] = set()

    async def has_come(transcript: Transcript) -> None:
        def look() -> bool | None:
            running.update(find_running_names(line for _, line in transcript.lines))
            transcript.lines.clear()
            return len(running) == len(manifests) or None

        await transcript.wait(look, f"all {len(manifests)} of {path} are Running", LONGEST)

    seen = Transcript(site.clock)
    async with watching(site, seen, path):
        started = site.clock.monotonic()
        queue = iter(manifests)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(IN_FLIGHT, len(manifests))):
                group.create_task(_create(site, path, queue))
            group.create_task(has_come(seen))
        return site.clock.monotonic() - started


@asynccontextmanager
async def watching(site: Site, seen: Transcript, path: str) -> AsyncIterator[None]:
    """Tell `seen` of all in a collection, as long as the body runs."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(seen.follow(site.api, path, watch="1"))
        try:
            yield
        finally:
            task.cancel()


def find_running_names(lines: Iterable[bytes]) -> set[bytes]:
    """Names of the objects that a watch shows in phase Running, read without decoding the lines."""
    found = (_NAME.search(line) for line in lines if _RUNNING in line)
    return {match[1] for match in found if match}


async def watch_idle(site: Site, operator: Operator) -> tuple[float, int]:
    """CPU as a share of one core, and passes, in a while in which nothing happens."""
    passes, before = await count_passes(site, operator), operator.usage.cpu_seconds
    started = site.clock.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    used = operator.usage.cpu_seconds - before
    after = await count_passes(site, operator)
    return used / (site.clock.monotonic() - started), (after - passes).total()


async def _create(site: Site, path: str, queue: Iterable[Mapping[str, Any]]) -> None:
    for manifest in queue:
        await site.api.create(path, manifest)
