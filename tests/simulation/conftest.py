"""How much is simulated: a little in `make check`, everything with SIMULATE=all."""

from __future__ import annotations

import os

import pytest

IS_EXHAUSTIVE = os.environ.get("SIMULATE") == "all"
SEEDS = range(50 if IS_EXHAUSTIVE else 2)


@pytest.fixture(autouse=True)
def quiet(quiet_logs: None) -> None:
    """Simulations say what happened in their own words: see World.describe."""
