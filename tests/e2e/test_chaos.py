"""A short night: fault after fault for one job, of which others on the cluster feel nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.judging import list_breaches
from tests.chaos.nights import Night
from tests.chaos.schedules import OWN
from tests.e2e.world import RealWorld

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1000)]

SECONDS = float(os.environ.get("CHAOS_SECONDS", "300"))
"""No fault comes after them; the last round has its end."""
PATIENCE = 180.0
SEED = 344
"""Begins with a worker, a scaling, a notice that is withdrawn beside another: all of them cheap."""


@pytest.mark.point("chaos")
def test_a_training_that_is_broken_again_and_again_keeps_all_that_is_promised(
    world: RealWorld, tmp_path: Path
) -> None:
    night = Night(world, tmp_path, seconds=SECONDS, patience=PATIENCE)

    record = night.live(SEED, OWN)

    assert record.passages, "something was broken"
    assert list_breaches(record) == []
