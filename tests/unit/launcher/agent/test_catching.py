"""What PID 1 hears of signals while it looks elsewhere."""

from __future__ import annotations

import json
import subprocess

import pytest

from launcher import boot
from launcher.agent.catching import ENDING, is_from_outside
from tests.unit.launcher.agent.workers import PYTHON, ROOT

FLOOD = """
import json, os, select, signal, sys
sys.path.insert(0, sys.argv[1])
from launcher.agent.catching import Caught
caught = Caught()
def take_until(number):
    taken = []
    while number not in [came.number for came in taken]:
        select.select([caught], [], [])
        taken += caught.take()
    return taken
for _ in range(70000):
    os.kill(os.getpid(), signal.SIGCHLD)
for _ in range(2):
    os.kill(os.getpid(), signal.SIGTERM)
    # The kernel hands out the lowest number first: with this one all before it have come.
    os.kill(os.getpid(), signal.SIGWINCH)
    heard = take_until(signal.SIGWINCH)
    print(json.dumps([came for came in heard if came.number != signal.SIGCHLD]))
"""


def test_a_flood_of_signals_hides_none():
    words = [PYTHON, "-I", "-S", "-c", FLOOD, str(ROOT)]
    told = subprocess.run(words, capture_output=True, check=True, timeout=60).stdout.splitlines()
    assert [json.loads(line) for line in told] == [[[15, True], [28, False]]] * 2


@pytest.mark.parametrize(
    ("sender", "code", "said"),
    [(0, 0, True), (0, -6, True), (7, 0, False), (0, 0x80, False)],
    ids=["kubelet", "a thread of it", "the container", "a terminal's key"],
)
def test_only_a_process_outside_can_mean_the_end(sender: int, code: int, *, said: bool) -> None:
    assert is_from_outside(sender, code) is said


def test_what_is_heard_of_later_waits_from_the_start() -> None:
    assert boot.ENDING == ENDING
