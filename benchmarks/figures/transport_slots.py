"""128 workers of 8 slots without pods: how fast they start, and what the launcher's side holds.

No cluster: fakes/podless.py has the workers, commands/driver.py holds all slots in one process.
What `kubectl exec` takes is quoted, not measured.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.benches import Bench
from benchmarks.findings import RUN_HERE, Figure, Finding, Goal, Place, Series, Side
from benchmarks.spreads import measure_spread
from fakes.apiserver import ROOT
from fakes.podless import PodlessJob, measure_memory, pids_of, running

WORKERS, SLOTS = 128, 8
STARTS = 300
SHIMS = 48
MIB = 2**20
KUBECTL_MIB = 98.0
KUBECTL_ORIGIN = (
    "quoted, from the measurements that this project's goals were set by (kubectl 1.36, resident "
    "memory of one `kubectl exec`); not repeated here"
)
DRIVER = ROOT / "benchmarks" / "commands" / "driver.py"


async def measure(bench: Bench) -> Finding:
    """One job; `samples` does not apply to its size."""
    with tempfile.TemporaryDirectory() as folder:
        job = PodlessJob(Path(folder), count=WORKERS, slots=SLOTS)
        job.use_sockets()
        async with running(job):
            starts = await run_starts(job, bench.count_samples(STARTS))
            slots, slots_memory = await run_slots(job)
            shims_memory = await run_shims(job)
    p50 = measure_spread(starts["starts"]).median
    per_shim = Series("a slot with a shim", "MiB", shims_memory)
    return Finding(
        series=(
            Series("session start over an open stream", "s", tuple(starts["starts"])),
            Series("start and end of a command that does nothing", "s", tuple(starts["ends"])),
            Series("first to last of 1,024 slots, in one process", "s", (slots[-1] - slots[0],)),
            Series("all of them asked for at once, to the last", "s", (slots[-1],)),
            Series("launcher's side at 1,024 slots, in one process", "MiB", (slots_memory,)),
            per_shim,
            Series("a slot with `kubectl exec`", "MiB", (KUBECTL_MIB,), Side.PEER, KUBECTL_ORIGIN),
        ),
        goals=(
            Goal("session start over an open stream, median", p50 * 1000, 10.0, "ms"),
            Goal("first to last slot of 1,024", slots[-1] - slots[0], 10.0, "s"),
            Goal("launcher's side at 1,024 slots, without shims", slots_memory / 1024, 0.35, "GiB"),
        ),
        notes=(f"Every series without an origin was {RUN_HERE}.",),
    )


async def run_starts(job: PodlessJob, count: int) -> dict[str, list[float]]:
    """Seconds of sessions that are started one after the other."""
    driver = await start_driver(job, "starts", job.workers[0], str(count))
    output, _ = await driver.communicate()
    found: dict[str, list[float]] = json.loads(output)
    return found


async def run_slots(job: PodlessJob) -> tuple[list[float], float]:
    """When each of all slots was known to run, and MiB of broker and driver then."""
    assert job.broker is not None  # noqa: S101 (it runs)
    driver = await start_driver(job, "slots", str(SLOTS), *job.workers)
    assert driver.stdout is not None  # noqa: S101 (it is a pipe)
    line = await driver.stdout.readline()
    memory = measure_memory([job.broker.pid, driver.pid]) / MIB
    driver.terminate()
    await driver.wait()
    return json.loads(line)["slots"], memory


async def run_shims(job: PodlessJob) -> tuple[float, ...]:
    """MiB of each shim, its two processes together; what they share is shared out."""
    shims = []
    for number in range(SHIMS):
        host = job.workers[number % len(job.workers)]
        shim = await job.start_shim("echo up; exec sleep 3600", host)
        shims.append(shim)
    for shim in shims:
        assert shim.stdout is not None  # noqa: S101 (it is a pipe)
        await shim.stdout.readline()
    return tuple(measure_memory(pids_of(shim)) / MIB for shim in shims)


async def start_driver(job: PodlessJob, *arguments: str) -> asyncio.subprocess.Process:
    """All slots in one process."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-S", str(DRIVER), str(job.socket), *arguments,
        env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
    )  # fmt: skip


FIGURE = Figure(
    title="128 workers of 8 slots",
    explanation=(
        "A job without pods: 128 agents as processes, a real broker, an API server that is a "
        "stand-in on the loopback interface and joins exec calls to the agents' sockets. Slots "
        "run a command that prints a line and sleeps. `In one process`: every slot's session is "
        "held by one driver process, as a horovodrun does that needs no shims; its own memory "
        "stands for that of the patched horovodrun, without Horovod itself. `With a shim`: what "
        "each slot costs beside the broker when horovodrun runs a shim for it, measured on 48. "
        "Memory is the proportional set size; horovodrun's own helper process is not in it."
    ),
    measure=measure,
    place=Place.NOTHING,
)
