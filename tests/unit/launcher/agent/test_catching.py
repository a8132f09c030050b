"""What PID 1 hears of signals while it looks elsewhere."""

from __future__ import annotations

import json
import subprocess

from tests.unit.launcher.agent.workers import PYTHON, ROOT

FLOOD = """
import json, os, select, signal, sys
sys.path.insert(0, sys.argv[1])
from launcher.agent.catching import Caught
caught = Caught((signal.SIGCHLD, signal.SIGTERM))
for _ in range(70000):
    os.kill(os.getpid(), signal.SIGCHLD)
os.kill(os.getpid(), signal.SIGTERM)
taken = []
while signal.SIGTERM not in taken:
    select.select([caught], [], [])
    taken += caught.take()
print(json.dumps([sorted(set(taken)), taken.count(signal.SIGTERM)]))
os.kill(os.getpid(), signal.SIGTERM)
select.select([caught], [], [])
print(json.dumps([caught.take(), caught.take()]))
"""


def test_a_flood_of_signals_hides_none():
    words = [PYTHON, "-I", "-S", "-c", FLOOD, str(ROOT)]
    told = subprocess.run(words, capture_output=True, check=True, timeout=60).stdout.splitlines()
    assert json.loads(told[0]) == [[15, 17], 1]
    assert json.loads(told[1]) == [[15], []]
