"""A pass over twice as many workers is twice the work, not four times."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from et_contract.pods import Role
from et_operator.model.statuses import ScalingKind
from et_operator.planning.planner import plan
from tests.counting import count_steps
from tests.planning_makers import ModelWorld, make_job, make_scaling

MANY = 80
MOST = 2.2
"""Times the steps, for twice the workers: 2 where it is linear, 4 where it is quadratic."""


class CountingWorld(ModelWorld):
    """A world that notes the steps of each of its passes."""

    def __init__(self, replicas: int) -> None:
        super().__init__(make_job(replicas, minimum=1))
        self.steps: list[int] = []

    def snapshot(self):
        found = super().snapshot()
        self.steps.append(count_steps(lambda: plan(found, self.now)))
        return found


def live(replicas: int) -> Iterator[tuple[str, list[int]]]:
    """All that can happen to a job, and the steps of the passes that follow from each."""
    world = CountingWorld(replicas)
    names = iter(
        ("start", "run", "serve", "scale in", "drain", "force", "reap", "grow", "join", "lose")
    )

    def settle() -> tuple[str, list[int]]:
        world.steps.clear()
        world.settle()
        return next(names), [*world.steps]

    yield settle()
    world.wait(1)
    world.run()
    yield settle()
    world.serve()
    yield settle()
    world.add(make_scaling(ScalingKind.IN, "less", count=replicas - 1, created=world.now))
    yield settle()
    world.serve(close=False)
    yield settle()
    world.wait(700)
    yield settle()
    world.reap()
    yield settle()
    world.wait(100)
    world.edit(replicas=replicas)
    yield settle()
    world.wait(6)
    world.run()
    world.serve()
    yield settle()
    for name, pod in list(world.pods.items()):
        if pod.role is Role.WORKER:
            del world.pods[name]
    yield settle()


@pytest.fixture(scope="module")
def lives() -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    return dict(live(MANY)), dict(live(2 * MANY))


@pytest.mark.long
def test_each_pass_is_linear_in_the_number_of_workers(
    lives: tuple[dict[str, list[int]], dict[str, list[int]]],
) -> None:
    few, many = lives
    assert len(few) == 10
    for name, steps in few.items():
        assert max(many[name]) / max(steps) < MOST, (name, steps, many[name])
