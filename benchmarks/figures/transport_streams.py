"""A thousand exec streams through one broker, held.

No cluster: a real broker, and agents in one process without processes of their own
(fakes/agents.py). Nothing is sent but pings.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from benchmarks.benches import Bench
from benchmarks.findings import Figure, Finding, Goal, Place, Series
from benchmarks.spreads import measure_spread
from fakes.podless import PodlessJob, measure_cpu, measure_memory, running

STREAMS = 1000
WINDOW_SECONDS = 20.0
SAMPLES = 3
MIB = 2**20


async def measure(bench: Bench) -> Finding:
    """One job; each sample is two rounds of pings."""
    with tempfile.TemporaryDirectory() as folder:
        job = PodlessJob(Path(folder), count=STREAMS)
        job.use_no_processes()
        started = bench.clock.monotonic()
        async with running(job):
            opened = bench.clock.monotonic() - started
            assert job.broker is not None  # noqa: S101 (it runs)
            shares = []
            for _ in range(bench.count_samples(SAMPLES)):
                before, since = measure_cpu(job.broker.pid), bench.clock.monotonic()
                await asyncio.sleep(WINDOW_SECONDS)
                seconds = bench.clock.monotonic() - since
                shares.append(100 * (measure_cpu(job.broker.pid) - before) / seconds)
            memory = measure_memory([job.broker.pid]) / MIB
    return Finding(
        series=(
            Series("broker's start to 1,000 hosts listed", "s", (opened,)),
            Series("CPU of the broker, of one core", "%", tuple(shares)),
            Series("memory of the broker", "MiB", (memory,)),
        ),
        goals=(Goal("1,000 streams held", measure_spread(shares).median, 5.0, "% of a core"),),
    )


FIGURE = Figure(
    title="1,000 streams through one broker",
    explanation=(
        "A job of 1,000 workers without pods: a real broker, agents that are the real state "
        "machine in one process, an API server that is a stand-in on the loopback interface "
        "without TLS. Nothing happens but a ping and its answer on each stream, each 10 s."
    ),
    measure=measure,
    place=Place.NOTHING,
)
