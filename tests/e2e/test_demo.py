"""The demo as people run it, and watched: a step of its own in tests/run.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from examples.demo.__main__ import NAMESPACE
from examples.demo.sharing import QUEUE, build_queue
from tests.e2e.histories import Bounds, History, judge
from tests.e2e.world import ROOT, RealWorld

MOST_SECONDS = 900


@pytest.mark.timeout(MOST_SECONDS)
@pytest.mark.point("demo")
def test_both_scenes_play_and_what_must_hold_has_held_all_the_time() -> None:
    world = RealWorld(NAMESPACE)
    history = History(world, seconds=MOST_SECONDS)

    subprocess.run([sys.executable, "-m", "examples.demo", "--quiet"], cwd=ROOT, check=True)

    limit = build_queue()["spec"]["limits"]["cpu"]
    judge(history, Bounds.of_cpu(world, **{QUEUE: limit}))
