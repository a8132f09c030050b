"""Bytes per second of output through one broker, near and far.

No cluster: broker, agents and shims are real processes, the API server is a fake
(fakes/podless.py), by which alone anything is far.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from pathlib import Path

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Series
from benchmarks.spreads import measure_spread
from et_kube.clock import Clock
from fakes.podless import PodlessJob, measure_cpu, running

SIZE = 200_000_000
FAR_SECONDS = 0.02
SAMPLES = 5
GOAL = 100.0
CASES = ((1, 0.0), (4, 0.0), (1, FAR_SECONDS), (4, FAR_SECONDS))


async def measure(bench: Bench) -> Finding:
    """Each case in a job of its own."""
    rates: list[Series] = []
    costs: list[float] = []
    for workers, far in CASES:
        samples = []
        for _ in range(bench.count_samples(SAMPLES)):
            rate, cost = await send(workers, far, bench.clock)
            samples.append(rate)
            costs.append(cost)
        where = f"{far * 2000:.0f} ms round trip" if far else "no delay"
        rates.append(Series(f"{workers} sessions, {where}", "MB/s", tuple(samples)))
    best = max(measure_spread(series.samples).median for series in rates)
    broker = Series("the broker alone, bytes per second of its CPU", "MB/s", tuple(costs))
    text = "output through one broker, all processes on this machine"
    goal = Goal(text, best, GOAL, "MB/s", is_floor=True)
    return Finding(series=(*rates, broker), goals=(goal,))


async def send(workers: int, far: float, clock: Clock) -> tuple[float, float]:
    """MB/s by the clock, and by the CPU that the broker used."""
    with tempfile.TemporaryDirectory() as folder:
        job = PodlessJob(Path(folder), count=workers)
        job.server.far = far
        async with running(job):
            assert job.broker is not None  # noqa: S101 (it runs)
            command = f"head -c {SIZE // workers} /dev/zero"
            cpu, started = measure_cpu(job.broker.pid), clock.monotonic()
            shims = [
                await job.start_shim(command, host, stdout=subprocess.DEVNULL)
                for host in job.workers
            ]
            await asyncio.gather(*(shim.wait() for shim in shims))
            seconds = clock.monotonic() - started
            return SIZE / seconds / 1e6, SIZE / (measure_cpu(job.broker.pid) - cpu) / 1e6


FIGURE = Figure(
    title="Output through one broker",
    explanation=(
        "Sessions print 200 MB of zeros together; agents, bridges, broker and shims are real "
        "processes, the API server is a stand-in on the loopback interface without TLS that sends "
        "messages of 32 KiB as kubelets do. A round trip is added in it where one is named: then "
        "the window of a session is what limits it. All of them share the cores of this machine."
    ),
    measure=measure,
    place=Place.NOTHING,
)
