"""horovodrun that tells only workers that live; Horovod is a stand-in with what is used of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from et_contract import names
from launcher.shim.notifying import TELL_SECONDS, Moments, Teller
from tests.unit.launcher.shim.brokers import PYTHON, Start

WORKER = """
import threading

class WorkerNotificationClient:
    _probe_timeout, _attempts, _addresses = 20, 3, {"eth0": [("10.0.0.1", 9)]}

    def __init__(self, lives):
        self.lives = lives
        self.answers = threading.Event()
        self.asked = []

    def _probe(self, addresses):
        self.asked.append((self._probe_timeout, self._attempts))
        self.answers.wait()
        return addresses if self.lives else {}

    def notify_hosts_updated(self, timestamp, update_res):
        assert (self._probe_timeout, self._attempts) == (20, 3)
        print("told", timestamp, update_res, flush=True)
        if update_res == "lost":
            raise ConnectionError(update_res)
"""
HOROVODRUN = """#!{python} -S
import sys
import multiprocessing
import threading
from horovod.runner.elastic.worker import WorkerNotificationClient as Client

def say(*words):
    print(*words, flush=True)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")  # as Horovod starts what starts a slot
    child = context.Process(target=say, args=(__name__, "has a child"))
    child.start()
    child.join()
    for lives in (True, False):
        client = Client(lives)
        for clock, change in ((7, "added"), (5, "lost"), (8, "removed")):
            try:
                client.notify_hosts_updated(clock, change)
            except ConnectionError as error:
                say(error, "is passed over")
        say("goes on")
        client.answers.set()
        for thread in threading.enumerate()[1:]:
            thread.join()
        say(*client.asked)
    say(*sys.argv[1:3])
    sys.exit(5)
"""
RUN = "from launcher.shim import horovodrun; sys.exit(horovodrun.main(sys.argv[1:]))"
ELASTIC = ["--network-interface", "lo", "--min-np", "1", "-np", "1", "python", "train.py"]
FAST = {names.ENV_LOSSES: names.FAST}


@pytest.fixture
def tree(tmp_path: Path, horovod: Path) -> Path:
    """A folder with a `horovod` to import and a `horovodrun`."""
    (horovod / "runner/elastic/worker.py").write_text(WORKER)
    program = tmp_path / "horovodrun"
    program.write_text(HOROVODRUN.format(python=PYTHON))
    program.chmod(0o755)
    return tmp_path


@pytest.mark.long
def test_only_a_worker_that_answers_is_told_of_changes_and_nobody_waits_for_it(
    start: Start, tree: Path
):
    process = start(RUN, *ELASTIC, env={"PATH": f"{tree}:/usr/bin:/bin", **FAST})
    out, err = process.communicate(timeout=20)
    assert out.decode().splitlines() == [
        "__main__ has a child",
        "goes on",
        "told 7 added",
        "told 8 lost",
        "told 9 removed",
        "(5.0, 1) (5.0, 1) (5.0, 1)",
        "goes on",
        "(5.0, 1)",
        "--gloo-timeout-seconds 120",
    ], err
    assert process.returncode == 5


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (ELASTIC, {}),
        (["-np", "1", "python", "train.py"], FAST),
    ],
)
def test_a_job_that_waits_and_a_static_run_tell_as_horovod_does(
    start: Start, tree: Path, words: list[str], environ: dict[str, str]
):
    process = start(RUN, *words, env={"PATH": f"{tree}:/usr/bin:/bin", **environ})
    out, _ = process.communicate(timeout=20)
    told = ["told 7 added", "told 5 lost", "lost is passed over", "told 8 removed"]
    assert out.decode().splitlines()[1:6] == [*told, "goes on"]


@pytest.mark.long
def test_a_horovod_that_tells_otherwise_runs_as_it_is(start: Start, tree: Path):
    worker = tree / "horovod/runner/elastic/worker.py"
    worker.write_text(WORKER.replace("def _probe(self, addresses)", "def _probe(self)"))
    process = start(RUN, *ELASTIC, env={"PATH": f"{tree}:/usr/bin:/bin", **FAST})
    out, err = process.communicate(timeout=20)
    assert b"a lost worker may hold horovodrun up: Misfit: _probe takes self and not" in err
    assert b"told 8 removed\ngoes on" in out
    assert process.returncode == 5


def test_whatever_the_clock_does_each_change_is_told_as_later_than_the_one_before():
    moments = Moments()
    assert [moments.follow(clock) for clock in (100, 100, 5, 6, 200)] == [100, 101, 102, 103, 200]


class Worker:
    """One that lives, by what is used of Horovod's client, and what it was told."""

    _addresses = "its own"

    def __init__(self, *slow: int) -> None:
        """To these it answers nothing until it may."""
        self.told: list[int] = []
        self.heard = {change: threading.Event() for change in slow}
        self.answers = {change: threading.Event() for change in slow}

    def _probe(self, addresses: Any) -> Any:
        return addresses

    def hear(self, change: int) -> None:
        """A change of this number."""
        if change in self.heard:
            self.heard[change].set()
            self.answers[change].wait()
        self.told.append(change)


def end_threads(*others: threading.Thread) -> None:
    for thread in set(threading.enumerate()) - {threading.current_thread(), *others}:
        thread.join(20)


def test_what_no_thread_could_be_had_for_is_told_with_the_next():
    before = threading.enumerate()
    worker = Worker()
    teller = Teller(worker, Worker.hear)
    threading.stack_size(1 << 50)
    try:
        with pytest.raises(RuntimeError):
            teller.add((2,))
    finally:
        threading.stack_size(0)
    teller.add((3,))
    end_threads(*before)
    assert worker.told == [2, 3]
    teller.add((4,))
    end_threads(*before)
    assert worker.told == [2, 3, 4]


def test_who_never_answers_is_left_to_a_thread_of_its_own_after_a_while():
    before = threading.enumerate()
    worker, now = Worker(1, 3), [0.0]
    teller = Teller(worker, Worker.hear, lambda: now[0])
    teller.add((1,))
    (hanging,) = set(threading.enumerate()) - set(before)
    assert worker.heard[1].wait(20)
    now[0] += TELL_SECONDS - 1
    teller.add((2,))
    assert set(threading.enumerate()) - set(before) == {hanging}
    now[0] += 1
    teller.add((3,))
    assert worker.heard[3].wait(20)
    assert worker.told == [2]
    teller.add((4,))
    worker.answers[1].set()
    hanging.join(20)
    assert worker.told == [2, 1]
    worker.answers[3].set()
    end_threads(*before)
    assert worker.told == [2, 1, 3, 4]
