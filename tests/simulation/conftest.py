"""How much is simulated: a little in `make check`, everything with SIMULATE=all."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

IS_EXHAUSTIVE = os.environ.get("SIMULATE") == "all"


def choose(what: object, every: Sequence[T], few: int = 1) -> Sequence[T]:
    """All of them, or a few: what it is for is the seed, so that they are the same tomorrow."""
    dice = random.Random(str(what))  # noqa: S311 (a choice, no secret)
    return every if IS_EXHAUSTIVE else dice.sample(every, min(few, len(every)))


@pytest.fixture(autouse=True)
def quiet(quiet_logs: None) -> None:
    """Simulations say what happened in their own words: see World.describe."""
