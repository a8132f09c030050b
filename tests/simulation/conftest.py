"""How much is simulated: a little in `make check`, everything with SIMULATE=all."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
import structlog

IS_EXHAUSTIVE = os.environ.get("SIMULATE") == "all"
SEEDS = range(50 if IS_EXHAUSTIVE else 2)


@pytest.fixture(autouse=True)
def quiet_logs() -> Iterator[None]:
    """Simulations say what happened in their own words: see World.describe."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
