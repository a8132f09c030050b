"""A training that is all allreduce, and what befalls it, told by the steps that it prints.

For the figures that break one or move its workers (ring_broken.py, notice_ahead.py). Its command is
commands/ring.py; times are the training's own clock, which is this machine's.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Container, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.apis import ApiRefused, build_path, wait_for
from benchmarks.benches import Site
from benchmarks.manifests import build_job, read_command
from benchmarks.namespaces import clear_pods
from devcluster.certificates import INSIDE
from devcluster.settings import TRAINER_IMAGE

WORKERS = 3
LATE = 0.25
"""Seconds in which a step may still be said that what happens comes too late for."""
STEADY = 20
"""Steps of all ranks before the next thing is done to them."""
PATIENCE = 180.0
ENDS = {"Failed", "Restarting"}
"""Conditions that say why a launcher has ended."""
_STEP = re.compile(r"step=(\d+) loss=0 size=(\d+) t=([\d.]+)$", re.MULTILINE)
_JOINED = re.compile(r"joined size=(\d+) t=([\d.]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """What rank 0 said of one."""

    number: int
    size: int
    at: float


@dataclass(frozen=True, slots=True)
class Loss:
    """What one loss cost."""

    seconds: float
    """Until the next step."""
    repeated: int
    """Steps that were trained again."""
    beside: int = 0
    """Workers that went as well, though nobody had struck them: Horovod gave up their hosts."""


class JobEnded(Exception):  # noqa: N818 (names say what is so)
    """What was done was the end of a job, or of its launcher; in the words of the operator."""


@dataclass(frozen=True, slots=True)
class Training:
    """A job that trains."""

    site: Site
    namespace: str
    name: str
    ranks: int = WORKERS

    async def read_log(self) -> str:
        """All that its command has printed; nothing before there is a log."""
        path = build_path("pods", self.namespace, f"{self.name}-launcher") + "/log"
        try:
            return await self.site.api.read_text(INSIDE + path, container="launcher")
        except ApiRefused:  # it has not begun
            return ""

    async def read_steps(self) -> list[Step]:
        """All that were said, by time."""
        return find_steps(await self.read_log())

    async def wait_until_steady(self, after: float) -> None:
        """Until all ranks have trained a while together, after that time."""

        async def is_steady() -> bool:
            await self.check()
            steps = [step for step in await self.read_steps() if step.at > after]
            return len(steps) > STEADY and all(s.size == self.ranks for s in steps[-STEADY:])

        await wait_for(is_steady, f"{self.name} trains with all", seconds=PATIENCE, interval=1.0)

    async def check(self) -> None:
        """Raise JobEnded unless it still has its first launcher."""
        path = build_path("trainingjobs", self.namespace, self.name)
        status = (await self.site.api.get(path)).get("status", {})
        if status.get("phase") == "Failed" or status.get("epoch", 0) > 1:
            raise JobEnded(describe_end(self.name, status))

    async def list_workers(self) -> list[dict[str, Any]]:
        """The pods of its workers that run and are to stay."""
        selector = f"training-job-name={self.name},training-job-role=worker"
        path = build_path("pods", self.namespace)
        pods = (await self.site.api.get(path, labelSelector=selector))["items"]
        return [
            pod
            for pod in pods
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    async def wait_for_loss(self, struck: float) -> Loss:
        """What it cost that a worker, or a part of one, was lost then."""
        found: list[Loss] = []

        async def goes_on() -> bool:
            await self.check()
            found.extend(find_loss(await self.read_steps(), struck))
            return bool(found)

        await wait_for(goes_on, f"{self.name} goes on", seconds=PATIENCE, interval=1.0)
        return found[0]

    async def count_beside(self, pods: Sequence[dict[str, Any]], meant: Container[str]) -> int:
        """How many of these workers have gone but for those meant, once all ranks train again."""
        await self.wait_until_steady(self.site.clock.now().timestamp())
        return count_gone(pods, await self.list_workers(), meant)


def is_progress(line: str) -> bool:
    """Whether a line of a log tells of a step or a ring, and of nothing else."""
    return bool(_STEP.search(line) or _JOINED.search(line))


def find_steps(log: str) -> list[Step]:
    """The steps that a log tells of, by time."""
    steps = [Step(int(n), int(size), float(at)) for n, size, at in _STEP.findall(log)]
    return sorted(steps, key=lambda step: step.at)


def find_rings(log: str) -> list[float]:
    """When a ring was built, each time, by time."""
    return sorted(float(at) for _, at in _JOINED.findall(log))


def find_loss(steps: Sequence[Step], struck: float) -> list[Loss]:
    """What it cost that something was lost then; nothing while there is no step after it."""
    later = [place for place, step in enumerate(steps) if step.at > struck + LATE]
    if not later:
        return []
    before, after = steps[later[0] - 1], steps[later[0]]
    return [Loss(after.at - struck, max(before.number + 1 - after.number, 0))]


def count_gone(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], meant: Container[str]
) -> int:
    """How many workers have gone meanwhile, but for those that were meant."""
    names = {pod["metadata"]["name"] for pod in after}
    gone = [pod["metadata"]["name"] for pod in before if pod["metadata"]["name"] not in names]
    return sum(name not in meant for name in gone)


def describe_end(name: str, status: dict[str, Any]) -> str:
    """Why a job has ended, or has another launcher than its first, in the operator's words."""
    said = [
        f"{condition['type']}, {condition['reason']}: {condition['message']}"
        for condition in status.get("conditions", ())
        if condition["type"] in ENDS
    ]
    end = f"{name}: {status.get('phase')}, epoch {status.get('epoch')}"
    return "; ".join([end, *said])


@asynccontextmanager
async def run_training(
    site: Site, namespace: str, manifest: dict[str, Any], ranks: int = WORKERS
) -> AsyncIterator[Training]:
    """The job is there, and gone afterwards with all of its pods."""
    path, name = build_path("trainingjobs", namespace), manifest["metadata"]["name"]
    await site.api.create(path, manifest)
    try:
        yield Training(site, namespace, name, ranks)
    finally:
        await site.api.delete(f"{path}/{name}")
        await clear_pods(site, namespace, f"training-job-name={name}")


def build_training(name: str, *, slots: int = 1, wait_seconds: int | None = None) -> dict[str, Any]:
    """An elastic Horovod job that ends broken rings at once, or waits for a time-out of its own."""
    discovery = ["--host-discovery-script", "/etc/edl/discover_hosts.sh"]
    ranks = str(WORKERS * slots)
    numbers = ["-np", ranks, "--min-np", "1", "--max-np", ranks]
    wait = [] if wait_seconds is None else ["--gloo-timeout-seconds", str(wait_seconds)]
    command = ["horovodrun", *numbers, *wait, *discovery, *read_command("ring")]
    job = build_job(name, workers=WORKERS, command=command)
    job["spec"]["lossRecovery"] = "Fast" if wait_seconds is None else "Wait"
    job["spec"]["slotsPerWorker"] = slots
    job["spec"]["etReplicaSpecs"]["worker"] |= {"minReplicas": 1, "maxReplicas": WORKERS}
    for role in job["spec"]["etReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["image"] = TRAINER_IMAGE
    return job
