"""Whatever others write, a healthy job beside it lives as ever, and each of them is told."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from et_operator.assembly import Operator
from et_operator.measuring import Metrics
from et_operator.settings import Settings
from et_operator.state.store import Store
from et_process.supervising import run_for_ever
from fakes.clients import FakeApi
from tests.simulation.conftest import find_draws
from tests.simulation.worlds import SimulatedWorld
from tests.specs.sieges import Siege, judge_healthy

EXAMPLES = find_draws(20)
ACTS = 8


@settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(1, ACTS))
def test_a_healthy_job_lives_as_ever_whatever_others_write(dice: random.Random, acts: int):
    asyncio.run(live(dice, acts))


async def live(dice: random.Random, acts: int) -> None:
    async with SimulatedWorld(judge=judge_healthy) as world:
        siege = Siege(world, dice)
        await siege.begin()
        for _ in range(acts):
            await siege.act()
        note(f"acts: {siege.done}")
        await siege.check()
        await world.settle(timedelta(hours=1))
        assert not siege.list_silences()


class Api(FakeApi):
    """As `Rest`, whose guard asks the lease before each write."""

    def guarded(self, guard: object) -> Api:
        return self


@settings(max_examples=EXAMPLES // 3, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(1, ACTS))
def test_the_operators_tasks_go_on_whatever_others_write(
    quiet_logs: None, dice: random.Random, acts: int
):
    asyncio.run(operate(dice, acts))


async def operate(dice: random.Random, acts: int) -> None:
    """The whole operator as it is wired, with its watches, its lease and its Events."""
    world = SimulatedWorld(judge=judge_healthy)
    api, clock = Api(world.cluster, world.log), world.clock
    operator = Operator(Settings(broker_image="b:1"), api, Store(), clock=clock, metrics=Metrics())  # type: ignore[arg-type]  # as much of a Rest as it uses
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run_for_ever(operator.tasks))
        siege = Siege(world, dice)
        siege.prepare()
        for _ in range(acts):
            siege.do_one()
            for _ in range(5):
                world.kubelet.step()
                world.broker.step()
                world.cluster.collect_garbage()
                await clock.advance(timedelta(seconds=1))
            assert not running.done()
        for _ in range(60):
            world.kubelet.step()
            world.broker.step()
            await clock.advance(timedelta(seconds=1))
        note(f"acts: {siege.done}")
        assert not running.done()
        assert world.phase() == "Running"
        running.cancel()
