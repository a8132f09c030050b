"""One job that is scaled out by two and in by two, again and again, on real nodes.

For scale_in.py and scale_out.py, which read different times off the same rounds. The job's command
is commands/elastic.py, a stand-in for horovodrun.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.apis import Transcript, build_path
from benchmarks.audits import read_audit
from benchmarks.benches import Site
from benchmarks.manifests import build_job, build_scaling, read_command
from benchmarks.namespaces import make_namespace
from benchmarks.podwatching import read_listed, wait_running, watch_pods
from devcluster.audits import Request
from et_kube.resources import Json

JOB = "elastic"
BASE = 2
STEP = 2
_ENDED = (b'"phase":"ScaleSucceeded"', b'"phase":"ScaleFailed"')


@dataclass(frozen=True, slots=True)
class Round:
    """One ScaleOut and the ScaleIn after it; all in UTC seconds."""

    out_name: str
    out_created: float
    audit: tuple[Request, ...]
    """What was asked of the API server since then, and answered before the round was over."""
    listed: float
    """When the broker had both hosts in its list, by its log."""
    visible: float
    """When the list that the discovery script prints had both hosts."""
    in_created: float
    left: tuple[float, ...]
    """When each victim's process ended, by its own word."""
    pods: tuple[Json, ...]
    """The added pods, while they ran."""
    deletions: tuple[float, ...]
    """When the deletion of each victim's pod reached the API server."""


@dataclass(slots=True)
class ElasticJob:
    """The job that is scaled, and what is heard of it."""

    site: Site
    namespace: str
    log: Transcript
    scalings: int = 0

    async def wait_listed(self, hosts: int) -> float:
        """When the list with so many hosts was first read after all that was seen before."""
        return await self.log.wait(lambda: self._find_listed(hosts), f"{hosts} hosts are listed")

    @property
    def newest(self) -> str:
        """The name of the newest scaling."""
        return f"scaling-{self.scalings}"

    async def scale(self, kind: str) -> float:
        """Create a ScaleOut or ScaleIn by STEP; returns when."""
        self.scalings += 1
        created = self.site.clock.now().timestamp()
        path = build_path(f"{kind.lower()}s", self.namespace)
        await self.site.api.create(path, build_scaling(kind, self.newest, JOB, STEP))
        return created

    async def wait_left(self, host: str) -> float:
        """When the process on this host ended, by its own word."""
        return await self.log.wait(lambda: find_left(self.log.lines, host), f"{host} has left")

    async def wait_ended(self, kind: str) -> None:
        """Until the newest scaling has ended; RuntimeError unless it succeeded."""
        path = build_path(f"{kind.lower()}s", self.namespace)
        name = f"metadata.name={self.newest}"
        async for line in self.site.api.follow(path, watch="1", fieldSelector=name):
            if _ENDED[1] in line:
                raise RuntimeError(f"{kind} failed: {line.decode()}")
            if _ENDED[0] in line:
                return

    def _find_listed(self, hosts: int) -> float | None:
        newest = [line.split() for _, line in self.log.lines if line.startswith(b"listed ")][-1:]
        for _, at, names in (words for words in newest if len(words) == 3):  # noqa: PLR2004 (word, time, names)
            if len(names.split(b",")) == hosts:
                return float(at)
        return None


@asynccontextmanager
async def run_elastic_job(site: Site, title: str) -> AsyncIterator[ElasticJob]:
    """A job of BASE workers, all listed, with a process on each."""
    async with make_namespace(site, title) as namespace, asyncio.TaskGroup() as group:
        pods, log = Transcript(site.clock), Transcript(site.clock)
        selector = f"training-job-name={JOB}"
        watch = group.create_task(watch_pods(site, pods, namespace, selector))
        manifest = build_job(JOB, workers=BASE, command=read_command("elastic"))
        await site.api.create(build_path("trainingjobs", namespace), manifest)
        launcher = f"{JOB}-launcher"
        await wait_running(pods, launcher)
        path = build_path("pods", namespace, launcher) + "/log"
        reader = group.create_task(log.reread(site.api, path, container="launcher"))
        job = ElasticJob(site, namespace, log)
        await job.wait_listed(BASE)
        try:
            yield job
        finally:
            watch.cancel()
            reader.cancel()


async def scale_out_and_in(job: ElasticJob) -> Round:
    """One round; the job is as before it when this returns."""
    first = BASE + STEP * (job.scalings // 2)
    names = [f"{JOB}-worker-{first + number}" for number in range(STEP)]
    out_created = await job.scale("ScaleOut")
    out_name = job.newest
    visible = await job.wait_listed(BASE + STEP)
    await job.wait_ended("ScaleOut")
    path = build_path("pods", job.namespace)
    added = [await job.site.api.get(f"{path}/{name}") for name in names]
    listed = await read_listed(job.site.api, job.namespace, f"{JOB}-launcher", visible)
    in_created = await job.scale("ScaleIn")
    left = [await job.wait_left(name) for name in names]
    await job.wait_ended("ScaleIn")
    whole = read_audit(job.site.cluster.audit_log, job.namespace)
    audit = [request for request in whole if request.received > out_created]
    pods = [r for r in audit if r.name in names]
    deletions = {r.name: r.received for r in reversed(pods) if r.verb == "delete"}
    return Round(
        out_name=out_name,
        out_created=out_created,
        audit=tuple(audit),
        listed=listed,
        visible=visible,
        in_created=in_created,
        left=tuple(left),
        pods=tuple(added),
        deletions=tuple(deletions[name] for name in names),
    )


def find_left(lines: Iterable[tuple[float, bytes]], host: str) -> float | None:
    """When the process on this host ended, by its own word."""
    for _, line in lines:
        words = line.split()
        if words[:1] == [b"left"] and words[-1] == host.encode():
            return float(words[1])
    return None
