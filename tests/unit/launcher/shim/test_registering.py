"""horovodrun's count of ranks; Horovod is a stand-in, the real one is in tests/e2e."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from launcher.shim.registering import Counts
from tests.askers import PROGRAM, TOLD
from tests.unit.launcher.shim.brokers import PYTHON, ROOT

REGISTRATION = """
import threading

READY, FAILURE = "READY", "FAILURE"

class WorkerStateRegistry:
    def __init__(self, driver, host_manager):
        self._driver, self._hosts = driver, host_manager
        self._states, self._ring, self._lock = {}, 0, threading.Lock()
        self._workers, self._may_record = {READY: set(), FAILURE: set()}, threading.Event()
        self._may_record.set()

    def get_recorded_slots(self):
        return list(self._states)

    def get(self, state):
        return self._workers[state]

    def reset(self, size):
        with self._lock:
            self._states.clear()
            for keys in self._workers.values():
                keys.clear()
            self._barrier = threading.Barrier(size, self._action)
            self._ring += 1
            self._size = size

    def size(self):
        return self._size

    def last_rendezvous(self):
        return self._ring

    def record_ready(self, host, slot):
        return self._record_state(host, slot, READY)

    def record_failure(self, host, slot):
        return self._record_state(host, slot, FAILURE)

    def _record_state(self, host, slot, state):
        key = host, slot
        if self._hosts.is_blacklisted(host):
            return self._ring
        self._may_record.wait()
        with self._lock:
            if key in self._states and state == FAILURE:
                self._barrier.reset()
            if key not in self._states or state == FAILURE:
                self._states[key] = state
                self._workers[state].add(key)
            ring = self._ring
        return self._wait(key, state, ring)

    def _wait(self, key, state, rendezvous_id):
        while True:
            try:
                self._barrier.wait()
                return rendezvous_id
            except threading.BrokenBarrierError:
                if self._states.get(key, state) != state:
                    raise RuntimeError("overridden")

    def _action(self):
        self._may_record.clear()
        for host, _ in self.get(FAILURE):
            self._hosts.blacklist(host)
        if len(self.get(FAILURE)) == self._size:
            self._driver.stop()
        else:
            self._driver.resume()
        self._may_record.set()
"""
DRIVER = """
class ElasticDriver:
    def has_rank_assignment(self, host, slot):
        raise NotImplementedError
"""
BIND = """
import sys

sys.path.insert(0, sys.argv[1])

from launcher.shim import registering

registering.count_once()

from horovod.runner.elastic.registration import WorkerStateRegistry as Registry

print(getattr(Registry, "_wait", Registry.record_ready).__module__ == registering.__name__)
"""
BROKEN = """
import threading
from types import SimpleNamespace

begun, may_fail = threading.Event(), threading.Event()

def resume():
    begun.set()
    may_fail.wait(20)
    raise OSError("no ring")

driver = SimpleNamespace(has_rank_assignment=lambda *_: True, resume=resume)
registry = Registry(driver, SimpleNamespace(is_blacklisted=lambda _: False))
registry._may_record.wait = lambda: None  # as until 0.22.1
registry.reset(1)
threading.Thread(target=registry.record_ready, args=("a", 0), daemon=True).start()
begun.wait(20)
threading.Timer(0.2, may_fail.set).start()
registry.record_failure("a", 0)
print("the end is over")
"""
OTHERS = [
    ("def size(self)", "def size(self, now=0)"),
    ('"READY", "FAILURE"', '"WAITING", "FAILURE"'),
    ("_wait", "_stand"),
    ("    def size(self)", "    @property\n    def size(self)"),
]


@pytest.fixture
def tree(tmp_path: Path, horovod: Path) -> Path:
    """A folder with a `horovod` to import."""
    (horovod / "runner/elastic/registration.py").write_text(REGISTRATION)
    (horovod / "runner/elastic/driver.py").write_text(DRIVER)
    return tmp_path


def run(program: str, tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, "-c", program, str(ROOT)],
        env={"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("waits", [True, False])
def test_each_rank_of_the_training_is_waited_for_once_and_no_other(tree: Path, waits: bool):
    """An end that comes while a ring is made waits for that in Horovod, since 0.24."""
    registration = tree / "horovod/runner/elastic/registration.py"
    if not waits:
        registration.write_text(REGISTRATION.replace("self._may_record.wait()", "pass"))
    done = run(PROGRAM, tree)
    assert done.stdout == TOLD, done.stderr
    assert "edl:" not in done.stderr


@pytest.mark.long
def test_an_end_that_comes_late_to_a_ring_that_fails_to_be_made_is_told_once(tree: Path):
    done = run(BIND + BROKEN, tree)
    assert done.stdout.endswith("the end is over\n"), done.stderr
    assert "RecursionError" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(("old", "new"), OTHERS)
def test_a_horovod_that_counts_otherwise_runs_as_it_is(tree: Path, old: str, new: str):
    registration = tree / "horovod/runner/elastic/registration.py"
    registration.write_text(REGISTRATION.replace(old, new))
    done = run(BIND, tree)
    assert "edl: a rank without a place may be counted: " in done.stderr
    assert done.stdout == "False\n"
    registration.write_text(REGISTRATION)
    assert run(BIND, tree).stdout == "True\n"


def test_who_comes_late_to_a_ring_begins_no_count_anew():
    counts = Counts()
    counts.find(1).add(("a", 0))
    new = counts.find(2)
    assert new.add(("a", 0))
    late = counts.find(1)
    assert late.is_over.is_set()
    assert not late.add(("b", 0))
    assert not late.is_complete(1)
    assert counts.find(2) is new


def test_all_are_there_once():
    count = Counts().find(1)
    assert count.add(("a", 0))
    assert count.add(("a", 0))
    assert not count.is_complete(2)
    assert count.add(("b", 0))
    assert count.is_complete(2)
    assert not count.is_complete(2)
    assert not count.add(("a", 0))
    assert not count.is_over.is_set()
