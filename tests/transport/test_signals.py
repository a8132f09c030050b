"""Signals through cut streams and killed brokers: each reaches the process, and once.

The process notes each with one write(2). A shell is no such process: one that has just forked for a
command has its traps in that child too, and what the child takes away with it nobody does.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from pathlib import Path

import pytest

from fakes.podless import PATIENCE, PodlessJob, running, until

ROUNDS = 4
SENT = {"INT": signal.SIGINT, "HUP": signal.SIGHUP, "USR1": signal.SIGUSR1}
NOTE = """
import os, signal, time
def note(number, frame):
    os.write(1, signal.Signals(number).name[3:].encode() + b"\\n")
for name in ("INT", "HUP", "USR1"):
    signal.signal(getattr(signal, "SIG" + name), note)
os.write(1, b"up\\n")
time.sleep(300)
"""


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_signal_comes_once_whatever_is_cut_and_killed(tmp_path: Path, seed: int):
    dice = random.Random(seed)  # noqa: S311 (a die, not a secret)
    async with running(PodlessJob(tmp_path)) as job:
        (tmp_path / "note.py").write_text(NOTE)
        shim = await job.start_shim(f"exec {sys.executable} -S {tmp_path}/note.py")
        told: list[str] = []
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read_lines(shim, told))
            await until(lambda: told == ["up"])
            for _ in range(ROUNDS):
                told.clear()
                await disturb(job, shim, dice)
                await until(lambda: len(told) >= len(SENT))
                # One that comes again has the time of an exchange between all of them to come.
                shim.send_signal(signal.SIGUSR1)
                await until(lambda: len(told) > len(SENT))
                assert sorted(told) == sorted([*SENT, "USR1"])
            reading.cancel()
        shim.terminate()
        async with asyncio.timeout(PATIENCE):
            assert await shim.wait() == 143


async def disturb(job: PodlessJob, shim: asyncio.subprocess.Process, dice: random.Random) -> None:
    """Send each signal, cut the stream and kill the broker, in any order."""
    steps = [*SENT, "cut", "kill"]
    dice.shuffle(steps)
    for step in steps:
        await asyncio.sleep(dice.choice([0.0, 0.001, 0.05, 0.2]))
        if step == "cut":
            job.server.is_away = dice.random() < 0.7
            job.cut()
        elif step == "kill":
            await job.kill_broker()
            await job.start_broker()
        else:
            shim.send_signal(SENT[step])
    await asyncio.sleep(dice.choice([0.0, 0.3]))
    job.server.is_away = False


async def read_lines(shim: asyncio.subprocess.Process, told: list[str]) -> None:
    assert shim.stdout is not None
    while line := await shim.stdout.readline():
        told.append(line.decode().strip())
