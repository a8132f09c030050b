"""Long faults of the exec transport, without a cluster: `make soak`, and shortened in `make test`.

    python -m tests.soak [--short] [--page docs/soak.md]

SOAK_SECONDS is how long the faults last in all; 3,300 is the whole: an API server that is away for
10 minutes, streams that are silent for 5, 1,000 streams for 10, half an hour of random cuts. Bursts
and hostile inputs are scaled with it: 500 MB and a million. SOAK_SEED decides the random cuts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fakes.podless import PodlessJob, measure_cpu, measure_memory, running, until
from tests import fuzzing
from tests.transport.bursts import send_burst

WHOLE_SECONDS = 3300
STREAMS = 1000
SHORT_SECONDS = 40
"""What `make test` takes."""
LINES = """
i=0; while ! test -e {go}; do i=$((i+1)); echo line $i; sleep 0.05; done; exit 3
"""


@dataclass(frozen=True)
class Row:
    """One fault: what it was, how long it lasted, what was seen."""

    fault: str
    seconds: float
    seen: str


class Sessions:
    """Some sessions that print numbered lines, and what their shims brought of them."""

    def __init__(self, job: PodlessJob) -> None:
        self._job = job
        self._shims: list[asyncio.subprocess.Process] = []
        self._outputs: list[bytearray] = []
        self._readers: list[asyncio.Task[None]] = []
        self.recovery = 0.0

    async def start(self, group: asyncio.TaskGroup, *, each: int = 2) -> None:
        """`each` in every worker; returns when all of them have printed."""
        command = LINES.format(go=self._job.folder / "go")
        for host in self._job.workers * each:
            shim = await self._job.start_shim(command, host)
            self._shims.append(shim)
            self._outputs.append(bytearray())
            self._readers.append(group.create_task(self._read(shim, self._outputs[-1])))
        await until(lambda: all(self._outputs))

    def check_alive(self) -> None:
        """Nobody was told of an end that did not happen, and no host was taken off."""
        assert self._job.report.exits == {}
        assert all(shim.returncode is None for shim in self._shims)
        assert self._job.listed == len(self._job.workers)

    async def finish(self) -> int:
        """Let all end: each line came once and in order, each exit is true. The lines' number."""
        started = time.monotonic()
        (self._job.folder / "go").touch()
        async with asyncio.timeout(120):
            await asyncio.gather(*self._readers)
            codes = [await shim.wait() for shim in self._shims]
        assert set(codes) == {3}, codes
        for output in self._outputs:
            count = output.count(b"\n")
            assert output == b"".join(b"line %d\n" % number for number in range(1, count + 1))
        await until(lambda: len(self._job.report.exits) == len(self._job.workers))
        self.recovery = time.monotonic() - started
        told = [ended.code for exits in self._job.report.exits.values() for ended in exits]
        await until(lambda: self._count_exits() == len(self._shims))
        assert set(told) == {3}
        return sum(output.count(b"\n") for output in self._outputs)

    async def _read(self, shim: asyncio.subprocess.Process, output: bytearray) -> None:
        assert shim.stdout is not None
        while data := await shim.stdout.read(65536):
            output += data

    def _count_exits(self) -> int:
        return sum(len(exits) for exits in self._job.report.exits.values())


@asynccontextmanager
async def training(count: int) -> AsyncIterator[tuple[PodlessJob, Sessions]]:
    """Workers with two printing sessions each."""
    with tempfile.TemporaryDirectory() as folder:
        job = PodlessJob(Path(folder), count=count)
        async with running(job), asyncio.TaskGroup() as group:
            sessions = Sessions(job)
            await sessions.start(group)
            yield job, sessions


async def take_api_away(seconds: float) -> Row:
    """Every stream breaks, and nobody answers for so long."""
    async with training(4) as (job, sessions):
        job.server.is_away = True
        job.cut()
        await asyncio.sleep(seconds)
        sessions.check_alive()
        job.server.is_away = False
        lines = await sessions.finish()
    seen = f"8 sessions, {lines:,} lines, all there; ended {sessions.recovery:.1f} s after it"
    return Row("API server away", seconds, seen)


async def silence(seconds: float) -> Row:
    """Every stream stays open and says nothing, also the new ones."""
    async with training(4) as (job, sessions):
        calls = job.server.exec_calls
        job.server.frozen.update(job.workers)
        await asyncio.sleep(seconds)
        sessions.check_alive()
        again = job.server.exec_calls - calls
        job.server.thaw()
        lines = await sessions.finish()
    seen = f"8 sessions, {lines:,} lines, all there; {again} streams opened meanwhile, "
    return Row("all streams silent", seconds, seen + f"ended {sessions.recovery:.1f} s after it")


async def hold_streams(seconds: float) -> Row:
    """A thousand streams, pinged every ten seconds and otherwise idle."""
    with tempfile.TemporaryDirectory() as folder:
        job = PodlessJob(Path(folder), count=STREAMS)
        job.use_no_processes()
        started = time.monotonic()
        async with running(job):
            opened = time.monotonic() - started
            assert job.broker is not None
            before = measure_cpu(job.broker.pid)
            await asyncio.sleep(seconds)
            cpu = (measure_cpu(job.broker.pid) - before) / seconds
            memory = measure_memory([job.broker.pid])
            assert job.server.exec_calls == STREAMS
            assert job.listed == STREAMS
    seen = f"opened in {opened:.1f} s, none lost; broker: {cpu:.1%} of a core, {memory >> 20} MiB"
    return Row(f"{STREAMS:,} streams", seconds, seen)


async def cut_at_random(seconds: float) -> Row:
    """Cuts, freezes, false goodbyes, an absent API server and killed brokers, in any order."""
    dice = random.Random(os.environ.get("SOAK_SEED", "1"))  # noqa: S311 (a die, not a secret)
    faults = 0
    async with training(3) as (job, sessions):
        until_when = time.monotonic() + seconds
        while time.monotonic() < until_when:
            await make_fault(job, dice)
            faults += 1
            sessions.check_alive()
        lines = await sessions.finish()
    return Row("random cuts", seconds, f"{faults} faults, 6 sessions, {lines:,} lines, all there")


async def make_fault(job: PodlessJob, dice: random.Random) -> None:
    """One of them, and its end."""
    server = job.server
    kind = dice.choice(("cut one", "cut", "freeze", "success", "away", "kill"))
    pause = dice.uniform(0.05, 2.0)
    if kind == "cut one":
        server.cut(dice.choice(job.workers))
    elif kind == "cut":
        server.cut()
    elif kind == "freeze":
        server.frozen.add(dice.choice(job.workers))
    elif kind == "success":
        server.says_success = True
        server.cut()
    elif kind == "away":
        server.is_away = True
        server.cut()
    else:
        await job.kill_broker()
    await asyncio.sleep(pause)
    server.says_success = server.is_away = False
    server.thaw()
    if kind == "kill":
        await job.start_broker()
    await asyncio.sleep(dice.uniform(0.0, 1.0))


async def burst(size: int) -> Row:
    """One session prints so many bytes and ends with 3."""
    with tempfile.TemporaryDirectory() as folder:
        async with running(PodlessJob(Path(folder))) as job:
            started = time.monotonic()
            await send_burst(job, size)
            seconds = time.monotonic() - started
    rate = size / seconds / 1e6
    return Row(f"burst of {size / 1e6:.0f} MB", seconds, f"whole, hashed; {rate:.0f} MB/s")


async def fuzz(inputs: int) -> Row:
    """Hostile inputs for every parser."""
    started = time.monotonic()
    done = await asyncio.to_thread(fuzzing.run, inputs, int(os.environ.get("SOAK_SEED", "1")))
    seen = f"{len(done)} targets, no error but the promised ones"
    return Row(f"{sum(each.inputs for each in done):,} inputs", time.monotonic() - started, seen)


async def run(total: float) -> list[Row]:
    """All faults, one after the other; each row is printed as it comes."""
    share = total / WHOLE_SECONDS
    steps: list[Callable[[], Awaitable[Row]]] = [
        lambda: take_api_away(600 * share),
        lambda: silence(300 * share),
        lambda: hold_streams(600 * share),
        lambda: cut_at_random(1800 * share),
        lambda: burst(int(500_000_000 * share)),
        lambda: fuzz(int(1_000_000 * share)),
    ]
    rows = []
    for step in steps:
        row = await step()
        rows.append(row)
        print(f"{row.fault:24} {row.seconds:8.1f} s   {row.seen}", flush=True)
    return rows


def build_page(rows: list[Row], total: float) -> str:
    """docs/soak.md."""
    whole = "a whole run" if total >= WHOLE_SECONDS else (
        f"a shortened run: {total:.0f} s of faults instead of {WHOLE_SECONDS:,}"
    )  # fmt: skip
    head = [
        "# Long faults",
        "",
        "For those who doubt the transport: what `make soak` saw last, written by it. Real agents,",
        "bridges, brokers and shims are joined by an API server on loopback. Sessions print up",
        "to 20 numbered lines a second; after the fault every line must have come once and in",
        "order, and every exit code be that of its process. `SOAK_SECONDS` scales all lengths.",
        "",
        f"This is {whole}, on {os.cpu_count()} cores, Python {platform.python_version()}.",
        "",
        "| fault | seconds | seen |",
        "|---|---|---|",
    ]
    body = [f"| {row.fault} | {row.seconds:.0f} | {row.seen} |" for row in rows]
    return "\n".join([*head, *body, ""])


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="long faults of the exec transport")
    parser.add_argument("--page", type=Path, help="write the result there")
    parser.add_argument("--short", action="store_true", help="as long as `make test` takes")
    arguments = parser.parse_args()
    page = arguments.page
    total = float(os.environ.get("SOAK_SECONDS", WHOLE_SECONDS))
    if arguments.short:
        total = SHORT_SECONDS
    rows = asyncio.run(run(total))
    if page is not None:
        page.write_text(build_page(rows, total))
    return 0


if __name__ == "__main__":
    sys.exit(main())
