"""How much is simulated: a little where nothing is said, an eighth in `make test`, or all of it."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

HOW_MUCH = os.environ.get("SIMULATE", "few")
"""few, eighth or all; SIMULATE=all make test is what a release has to pass."""


def choose(what: object, every: Sequence[T], few: int = 1, *, part: bool = False) -> Sequence[T]:
    """All of them, or a few: what it is for is the seed, so that they are the same tomorrow.

    With `part` an eighth of them where an eighth of all is simulated.
    """
    eighth = (len(every) + 7) // 8 if part else len(every)
    count = {"few": min(few, len(every)), "eighth": eighth, "all": len(every)}[HOW_MUCH]
    dice = random.Random(str(what))  # noqa: S311 (a choice, no secret)
    return every if count == len(every) else dice.sample(every, count)


def find_draws(few: int) -> int:
    """How many stories are drawn."""
    return {"few": few, "eighth": 60, "all": 400}[HOW_MUCH]


@pytest.fixture(autouse=True)
def quiet(quiet_logs: None) -> None:
    """Simulations say what happened in their own words: see SimulatedWorld.describe."""
