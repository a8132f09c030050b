"""Seconds without a step after a worker was lost, with what ends a broken ring and without.

Needs the image that trains. It kills processes of the test cluster's workers, found by the uid in
their environment: PID 1, or its containerd-shim. Steps are those that the training has printed.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.apis import ApiRefused, build_path, wait_for
from benchmarks.benches import Bench, Site
from benchmarks.findings import Chart, Figure, Finding, Goal, Line, Place, Series, Side
from benchmarks.manifests import build_job, read_command
from benchmarks.namespaces import clear_pods, make_namespace
from benchmarks.spreads import measure_spread
from devcluster.certificates import INSIDE
from devcluster.cgroups import list_processes
from devcluster.settings import TRAINER_IMAGE

WORKERS = 3
LOSSES = 10
LOSSES_A_JOB = 5
"""A replacement waits longer with each loss of a job: more of them only make the run longer."""
SILENT = 5
"""Losses of a containerd-shim, which takes the network away before the worker's connections end."""
WAITS = 2
WAIT_SECONDS = 30
"""Gloo's time-out in the jobs that wait; in the others it is that of horovodrun of ours, 120 s."""
MEDIAN, MOST = 4.0, 12.0
LATE = 0.25
"""Seconds in which a step may still be said that the loss came too late for."""
SHOWN = 60.0
EACH = 0.25
"""Seconds of a loss that are drawn, and between two points of them."""
STEADY = 20
"""Steps of all workers before the next one is killed."""
PATIENCE = 180.0
_STEP = re.compile(r"step=(\d+) loss=0 size=(\d+) t=([\d.]+)$", re.MULTILINE)


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
    progress: tuple[tuple[float, float], ...] = ()
    """Seconds since the loss, and the number of steps by then that never were trained before."""


@dataclass(frozen=True, slots=True)
class Training:
    """A job that trains, and loses workers."""

    site: Site
    namespace: str
    name: str

    async def read_steps(self) -> list[Step]:
        """All that were said, by time; none before there is a log."""
        path = build_path("pods", self.namespace, f"{self.name}-launcher") + "/log"
        try:
            text = await self.site.api.read_text(INSIDE + path, container="launcher")
        except ApiRefused:  # it has not begun
            return []
        steps = [Step(int(n), int(size), float(at)) for n, size, at in _STEP.findall(text)]
        return sorted(steps, key=lambda step: step.at)

    async def wait_until_steady(self, after: float) -> None:
        """Until all workers have trained a while together, after that time."""

        async def is_steady() -> bool:
            await self.check()
            steps = [step for step in await self.read_steps() if step.at > after]
            return len(steps) > STEADY and all(s.size == WORKERS for s in steps[-STEADY:])

        await wait_for(is_steady, f"{self.name} trains with all", seconds=PATIENCE, interval=1.0)

    async def check(self) -> None:
        """Raise JobEnded unless it still has its first launcher."""
        path = build_path("trainingjobs", self.namespace, self.name)
        status = (await self.site.api.get(path)).get("status", {})
        if status.get("phase") == "Failed" or status.get("epoch", 0) > 1:
            raise JobEnded(f"{self.name}: {status.get('phase')}, epoch {status.get('epoch')}")

    async def lose(self, number: int, *, is_silent: bool = False) -> tuple[float, Loss]:
        """When it was, and what it cost.

        Kill PID 1 of a worker, and all in its container with it; each time another one. Where it
        is to be silent, kill its containerd-shim.
        """
        killed = self.site.clock.now().timestamp()
        agent = self._find_agent(await self._choose(number))
        os.kill(find_parent(agent) if is_silent else agent, signal.SIGKILL)
        found: list[Loss] = []

        async def goes_on() -> bool:
            await self.check()
            found.extend(find_loss(await self.read_steps(), killed))
            return bool(found)

        await wait_for(goes_on, f"{self.name} goes on", seconds=PATIENCE, interval=1.0)
        return killed, found[0]

    async def _choose(self, number: int) -> str:
        """The uid of a worker that runs."""
        selector = f"training-job-name={self.name},training-job-role=worker"
        path = build_path("pods", self.namespace)
        pods = (await self.site.api.get(path, labelSelector=selector))["items"]
        uids = [p["metadata"]["uid"] for p in pods if p["status"]["phase"] == "Running"]
        return str(uids[number % len(uids)])

    def _find_agent(self, uid: str) -> int:
        for pid in list_processes(self.site.cluster):
            folder = Path(f"/proc/{pid}")
            try:
                is_agent = b"boot.py\0agent" in (folder / "cmdline").read_bytes()
                if is_agent and uid.encode() in (folder / "environ").read_bytes():
                    return pid
            except (FileNotFoundError, ProcessLookupError):
                continue
        raise RuntimeError(f"no agent in the pod {uid}")


def find_parent(pid: int) -> int:
    """Who started this process; of PID 1 of a container that is its containerd-shim."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def find_loss(steps: Sequence[Step], killed: float) -> list[Loss]:
    """What it cost that a worker was killed then; nothing while there is no step after it."""
    later = [place for place, step in enumerate(steps) if step.at > killed + LATE]
    if not later:
        return []
    before, after = steps[later[0] - 1], steps[later[0]]
    return [Loss(after.at - killed, max(before.number + 1 - after.number, 0))]


def find_progress(steps: Sequence[Step], killed: float) -> tuple[tuple[float, float], ...]:
    """Steps that are new since then, by seconds."""
    most = begun = max((step.number for step in steps if step.at <= killed + LATE), default=0)
    points = [(0.0, 0.0)]
    for step in steps:
        after = step.at - killed
        if after > SHOWN:
            break
        most = max(most, step.number)
        if most - begun > points[-1][1] and after >= points[-1][0] + EACH:
            points.append((after, float(most - begun)))
    return tuple(points)


class JobEnded(Exception):  # noqa: N818 (names say what is so)
    """A loss was the end of a job, or of its launcher."""


async def measure(bench: Bench) -> Finding:
    """The jobs that go on at once, then the one that waits."""
    site, count = bench.get_site(), bench.count_samples(LOSSES)
    fast: list[Loss] = []
    ended: list[str] = []
    async with make_namespace(site, "ring") as namespace:
        while len(fast) + len(ended) < count:
            asked = min(LOSSES_A_JOB, count - len(fast) - len(ended))
            name = f"fast-{len(fast) + len(ended)}"
            await train(Training(site, namespace, name), asked, fast, ended)
        silent: list[Loss] = []
        job = Training(site, namespace, "silent")
        await train(job, bench.count_samples(SILENT), silent, ended, is_silent=True)
        waited: list[Loss] = []
        await train(Training(site, namespace, "wait"), WAITS, waited, ended, is_waiting=True)
    return describe(fast, silent, waited, ended)


async def train(
    job: Training,
    count: int,
    losses: list[Loss],
    ended: list[str],
    *,
    is_silent: bool = False,
    is_waiting: bool = False,
) -> None:
    """A job that loses so many workers, one after the other; ends with it."""
    async with run_training(job, is_waiting=is_waiting):
        since = 0.0
        try:
            await job.wait_until_steady(since)
            for number in range(count):
                killed, loss = await job.lose(number, is_silent=is_silent)
                losses.append(loss)
                since = job.site.clock.now().timestamp()
                await job.wait_until_steady(since)
                losses[-1] = replace(loss, progress=find_progress(await job.read_steps(), killed))
        except JobEnded as end:
            ended.append(str(end))


@asynccontextmanager
async def run_training(job: Training, *, is_waiting: bool) -> AsyncIterator[None]:
    """The job is there, and gone afterwards with all of its pods."""
    path = build_path("trainingjobs", job.namespace)
    await job.site.api.create(path, build_training(job.name, is_waiting=is_waiting))
    try:
        yield
    finally:
        await job.site.api.delete(f"{path}/{job.name}")
        await clear_pods(job.site, job.namespace, f"training-job-name={job.name}")


def build_training(name: str, *, is_waiting: bool) -> dict[str, Any]:
    """An elastic Horovod job that ends broken rings, or waits for a short time-out."""
    discovery = ["--host-discovery-script", "/etc/edl/discover_hosts.sh"]
    numbers = ["-np", str(WORKERS), "--min-np", "1", "--max-np", str(WORKERS)]
    wait = ["--gloo-timeout-seconds", str(WAIT_SECONDS)] if is_waiting else []
    command = ["horovodrun", *numbers, *wait, *discovery, *read_command("ring")]
    job = build_job(name, workers=WORKERS, command=command)
    job["spec"]["lossRecovery"] = "Wait" if is_waiting else "Fast"
    job["spec"]["etReplicaSpecs"]["worker"] |= {"minReplicas": 1, "maxReplicas": WORKERS}
    for role in job["spec"]["etReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["image"] = TRAINER_IMAGE
    return job


def describe(fast: list[Loss], silent: list[Loss], waited: list[Loss], ended: list[str]) -> Finding:
    """What the losses cost, and which of them a job did not live through."""
    seconds = tuple(loss.seconds for loss in fast)
    quiet = tuple(loss.seconds for loss in silent)
    repeated = max((loss.repeated for loss in (*fast, *silent)), default=0)
    lived = f"{len(ended)} losses ended a job or its launcher" + "".join(f"; {e}" for e in ended)
    kinds = {
        "lossRecovery Fast, PID 1 killed": fast,
        "lossRecovery Fast, containerd-shim killed": silent,
        f"lossRecovery Wait, time-out {WAIT_SECONDS} s": waited,
    }
    return Finding(
        charts=draw_progress(kinds),
        series=(
            Series("without a step, lossRecovery Fast", "s", seconds),
            Series("without a step, lossRecovery Fast, its containerd-shim killed", "s", quiet),
            Series(
                f"without a step, lossRecovery Wait, time-out {WAIT_SECONDS} s",
                "s",
                tuple(loss.seconds for loss in waited),
                Side.BARE,
            ),
        ),
        goals=(
            Goal("SIGKILL to next step, median", measure_spread(seconds).median, MEDIAN, "s"),
            Goal("SIGKILL to next step, longest", max(seconds), MOST, "s"),
            Goal("containerd-shim to next step, longest", max(quiet, default=PATIENCE), MOST, "s"),
            Goal("losses that ended a job or its launcher", len(ended), 0, ""),
        ),
        notes=(f"{lived}. At most {repeated} steps were trained again.",),
    )


def draw_progress(kinds: Mapping[str, Sequence[Loss]]) -> tuple[Chart, ...]:
    """Of each kind the loss in the middle, by what it cost."""
    middles = {
        label: sorted(losses, key=lambda loss: loss.seconds)[len(losses) // 2]
        for label, losses in kinds.items()
        if losses
    }
    lines = tuple(Line(label, loss.progress) for label, loss in middles.items() if loss.progress)
    title = f"A worker of {WORKERS} is lost at 0: steps that are new since then"
    chart = Chart("ring-broken", title, "seconds since the loss", "steps", lines, is_stepwise=True)
    return (chart,) if lines else ()


FIGURE = Figure(
    title="A worker that is killed in the middle of a step",
    explanation=(
        f"Horovod and PyTorch on {WORKERS} workers of 2 real nodes whose steps are an allreduce of "
        "8 MB each and nothing else. PID 1 of one worker gets SIGKILL, and all of its container "
        f"with it; {LOSSES_A_JOB} times in each job, when all workers have trained again for "
        f"{STEADY} steps: seconds to the next step, by the training's own clock, whether the one "
        f"that takes the lost one's place is in it or not. {SILENT} times the same where its "
        "containerd-shim is killed, of which the others' kernels hear nothing. Beside it the same "
        "with `lossRecovery: Wait`, where nothing of ours is in the ranks, and a time-out of "
        f"{WAIT_SECONDS} s instead of 120: a ring on which nobody happened to wait goes on "
        f"without. The picture has of each kind the loss in the middle, for {SHOWN:.0f} s."
    ),
    measure=measure,
    place=Place.TRAINING,
)
