"""What is slow waits alone, what is much stays bounded, and whoever floods or lies is told why."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from et_contract import frames
from fakes.podless import (
    PATIENCE,
    PodlessJob,
    frames_of,
    measure_memory,
    pids_of,
    running,
    until,
)
from launcher.broker.windows import POOL

MIB = 1024 * 1024
COUNT_UP = """
import os, sys
block, count = b"x" * 65536, 0
while count < int(sys.argv[1]):
    count += os.write(1, block)
    with open(sys.argv[2], "w") as file:
        file.write(str(count))
"""


@pytest.fixture
async def job(tmp_path: Path) -> AsyncIterator[PodlessJob]:
    async with running(PodlessJob(tmp_path)) as started:
        yield started


def write_counter(job: PodlessJob) -> Path:
    path = job.folder / "count.py"
    path.write_text(COUNT_UP)
    return path


def wait_for(job: PodlessJob) -> str:
    return f"while ! test -e {job.folder}/go; do sleep 0.05; done"


def stop(shim: asyncio.subprocess.Process) -> None:
    """Neither the shim nor its child reads any more."""
    for pid in pids_of(shim):
        os.kill(pid, signal.SIGSTOP)


async def drain(shim: asyncio.subprocess.Process) -> int:
    """Bytes until the end."""
    assert shim.stdout is not None
    count = 0
    async with asyncio.timeout(PATIENCE):
        while data := await shim.stdout.read(MIB):
            count += len(data)
        await shim.wait()
    return count


@pytest.mark.point("flow-alone")
async def test_a_reader_that_stalls_holds_back_its_own_session_alone(job: PodlessJob):
    size, told = 40 * MIB, job.folder / "told"
    script = write_counter(job)
    stalled = await job.start_shim(f"python3 -S {script} {size} {told}")
    await until(lambda: told.exists() and told.read_text())
    for _ in range(3):
        other = await job.start_shim("head -c 10000000 /dev/zero; exit 4")
        assert await drain(other) == 10_000_000
        assert other.returncode == 4
    # Pipes, windows and buffers on the way; the rest waits in the process itself.
    assert int(told.read_text()) < 4 * MIB
    assert job.server.exec_calls == 1
    assert await drain(stalled) == size
    assert stalled.returncode == 0


@pytest.mark.point("flow-bounded")
async def test_memory_stays_bounded_behind_many_stalled_readers(tmp_path: Path):
    async with AsyncExitStack() as stack:
        job = await stack.enter_async_context(running(PodlessJob(tmp_path, count=4)))
        assert job.broker is not None
        script = write_counter(job)
        told = [tmp_path / f"told-{number}" for number in range(32)]
        for number, path in enumerate(told):
            command = f"echo up; {wait_for(job)}; python3 -S {script} {64 * MIB} {path}"
            shim = await job.start_shim(command, job.workers[number % 4])
            assert shim.stdout is not None
            assert await shim.stdout.readline() == b"up\n"
            stop(shim)
        before = measure_memory([job.broker.pid])
        (tmp_path / "go").touch()
        await until(lambda: all(path.exists() and path.read_text() for path in told))
        # All of them at a stop: a session that all others overtake writes no more than this.
        other = await job.start_shim("head -c 20000000 /dev/zero", job.workers[0])
        assert await drain(other) == 20_000_000
        held = sum(int(path.read_text()) for path in told)
        grown = measure_memory([job.broker.pid]) - before
        print(f"32 stopped shims: {held} bytes were written, the broker grew by {grown}")
        # The kernel's socket buffers hold most of each window.
        assert held > 32 * frames.WINDOW
        assert grown < 32 * frames.WINDOW + 4 * MIB < POOL


@pytest.mark.point("garbage")
async def test_garbage_on_the_brokers_socket_is_refused_with_a_reason(job: PodlessJob):
    reader, writer = await asyncio.open_unix_connection(job.socket)
    writer.write(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
    async with asyncio.timeout(PATIENCE):
        [frame] = frames_of(await reader.read())
    assert frame.type == frames.REJECT
    assert "version 71" in frames.decode_json(frame)["reason"]
    writer.close()
    shim = await job.start_shim("echo still")
    assert await drain(shim) == 6


WELCOME = {"instance": "i", "epoch": 1, "closed": False, "terminating": None, "sessions": []}


@pytest.mark.point("garbage")
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"not a frame, and long enough to be looked at", "frame version 110 is not 1"),
        (frames.encode(frames.SPAWN), "an agent sends no SPAWN"),
        (frames.HEADER.pack(1, frames.DATA, 1, b"", 0, 2**31), "DATA payload of 2147483648 bytes"),
    ],
    ids=["garbage", "not its frame", "too long"],
)
async def test_an_agent_that_breaks_a_rule_is_dropped_with_a_reason(
    tmp_path: Path, said: bytes, reason: str
):
    job = PodlessJob(tmp_path)
    theirs: list[socket.socket] = []

    def dial(_pod: str) -> socket.socket:
        ours, other = socket.socketpair()
        theirs.append(other)
        other.sendall(frames.encode_json(frames.WELCOME, WELCOME))
        if len(theirs) > 1:
            other.sendall(said)
        return ours

    job.server.dial = dial
    job.has_processes = False
    async with running(job):
        job.cut()
        await until(lambda: reason in job.log)
        # The host stays, and the stream is tried again.
        assert job.listed == 1
        await until(lambda: len(theirs) > 2)
    for sock in theirs:
        sock.close()


@pytest.mark.point("flow-far")
async def test_a_long_way_gets_a_large_window(tmp_path: Path):
    job = PodlessJob(tmp_path)
    job.server.far = 0.02
    async with running(job):
        shim = await job.start_shim("head -c 20000000 /dev/zero")
        assert await drain(shim) == 20_000_000
        assert shim.returncode == 0
        assert max(job.server.windows) == frames.MOST_WINDOW
