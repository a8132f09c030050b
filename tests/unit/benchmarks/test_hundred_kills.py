"""What the figure makes of kills and of what launchers said; nothing here measures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from benchmarks.apis import Api, Transcript
from benchmarks.benches import Site
from benchmarks.figures.hundred_kills import Kills, Lost, describe, find_words, hearing
from benchmarks.trainings import JobEnded, Loss, Training
from devcluster.settings import Cluster
from et_kube.clock import SystemClock

LOST = Lost("kills-1", "one rank", "kills-1: Failed, epoch 1", ("Traceback", "RuntimeError: gloo"))


def test_a_job_that_was_lost_is_counted_as_a_kill_and_named_with_its_cause():
    found = Kills({"one rank": [Loss(0.5, 1), Loss(3.0, 2, 1)], "PID 1 of a worker": []}, [LOST])
    assert found.count == 3
    finding = describe(found)
    assert [(goal.value, goal.is_met) for goal in finding.goals] == [(3, False), (1, False)]
    [table] = finding.tables
    words = "Traceback / RuntimeError: gloo"
    assert table.rows == (("kills-1", "one rank", "kills-1: Failed, epoch 1", words),)
    assert [series.samples for series in finding.series] == [(0.5, 3.0)]
    [note] = finding.notes
    assert "At most 2 steps" in note
    assert note.endswith("Hosts that Horovod gave up beside the first: 1.")


def test_where_none_was_lost_there_is_no_table_of_them():
    finding = describe(Kills({"one rank": [Loss(0.5, 1)] * 100}))
    assert all(goal.is_met for goal in finding.goals)
    assert finding.tables == ()


def test_the_last_words_are_those_that_tell_of_no_progress():
    log = ["early", *("step=1 loss=0 size=3 t=1.00", "joined size=3 t=1.00", "", "word ") * 30]
    assert find_words(log) == ("word",) * 20
    assert find_words(["[0]<stdout>:step=1 loss=0 size=3 t=1.00", "end"]) == ("end",)


class Log(Api):
    """A log whose last line comes after all else is known."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def follow(self, path: str, **params: str) -> AsyncGenerator[bytes, None]:
        yield f"{path} {params}".encode()
        await self.over.wait()
        yield b"the last line"


async def test_what_a_launcher_says_is_heard_to_its_last_line(tmp_path: Path) -> None:
    log, heard = Log(), Transcript(SystemClock())
    job = Training(Site(Cluster("one", tmp_path), log, SystemClock()), "team", "job")

    async def end() -> None:
        async with hearing(job, heard):
            log.over.set()
            raise JobEnded("job: Failed")

    with pytest.raises(JobEnded):
        await end()
    path = "/api/v1/namespaces/team/pods/job-launcher/log"
    first = f"{path} {{'container': 'launcher', 'follow': 'true'}}"
    assert [line.decode() for _, line in heard.lines] == [first, "the last line"]


async def test_of_a_job_that_lives_nothing_more_is_waited_for(tmp_path: Path) -> None:
    log, heard = Log(), Transcript(SystemClock())
    job = Training(Site(Cluster("one", tmp_path), log, SystemClock()), "team", "job")
    async with hearing(job, heard):
        await asyncio.sleep(0)
    assert [line for _, line in heard.lines if line == b"the last line"] == []
