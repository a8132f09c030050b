"""Thousands of scalings of one job: anybody who may create them at all can create them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_kube.resources import SCALE_INS, Ref
from et_operator.model.snapshots import Refusal
from et_operator.model.statuses import Outcome, ScalingKind, UntoldEnd
from et_operator.planning.answering import MOST_ANSWERS
from et_operator.planning.planner import plan
from tests.counting import count_steps
from tests.planning_makers import ModelWorld, make_job, make_scaling

MOST = 2.2
"""Times the steps, for twice the scalings: 2 where it is linear, 4 where it is quadratic."""


def make_world(count: int, *, is_accepted: bool = False, invalid: str = "") -> ModelWorld:
    world = ModelWorld(make_job(4, minimum=1))
    world.start()
    for number in range(count):
        created = world.now + timedelta(seconds=number)
        name = f"in-{number}"
        world.add(
            make_scaling(
                ScalingKind.IN,
                name,
                count=1,
                is_owned=is_accepted,
                created=created,
                invalid=invalid,
            )
        )
    return world


@pytest.mark.long
@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_pass_over_twice_as_many_scalings_is_twice_the_work(is_accepted: bool) -> None:
    def measure(count: int) -> int:
        world = make_world(count, is_accepted=is_accepted, invalid="count is missing")
        found = world.snapshot()
        return count_steps(lambda: plan(found, world.now))

    assert measure(1200) < MOST * measure(600)


def test_ends_that_could_not_be_told_are_not_looked_through_for_each_scaling() -> None:
    def measure(count: int) -> int:
        world = make_world(400, is_accepted=True, invalid="count is missing")
        outcome = Outcome(succeeded=False, reason="x", message="")
        ends = tuple(UntoldEnd(ScalingKind.IN, "e", f"{n}", outcome) for n in range(count))
        world.job = replace(world.job, status=replace(world.job.status, untold=ends))
        found = world.snapshot()
        return count_steps(lambda: plan(found, world.now))

    assert measure(200) < 1.3 * measure(100)


def test_many_scalings_are_told_a_few_at_a_time_and_all_in_the_end() -> None:
    world = make_world(3 * MOST_ANSWERS, invalid="count is missing")

    assert len(world.step().actions) == MOST_ANSWERS
    for _ in range(3):
        world.step()
    assert {world.scaling_reason(s.name) for s in world.scalings.values()} == {"InvalidSpec"}


def test_scalings_that_nobody_may_write_to_keep_no_other_from_being_told() -> None:
    world = make_world(2 * MOST_ANSWERS)
    for number in range(MOST_ANSWERS):
        ref = Ref(SCALE_INS, "ns", f"in-{number}")
        world.refusals[ref] = Refusal("denied", 3, world.now, 1, ref.name)  # type: ignore[index]

    names = {action.ref.name for action in world.step().actions}  # type: ignore[union-attr]

    assert names == {f"in-{MOST_ANSWERS + number}" for number in range(MOST_ANSWERS)}
