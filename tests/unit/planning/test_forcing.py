"""Workers that we end by force: what that explains, for whose sake it was, and how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from et_operator.model.specs import RestartPolicy
from et_operator.model.statuses import Backoff, ScalingKind
from et_operator.planning.restarting import INFRASTRUCTURE_LIMIT
from tests.planning_makers import ModelWorld, make_job, make_scaling

DRAIN = 60
Leaves = Callable[[ModelWorld, str], None]


def start(workers: int = 4) -> ModelWorld:
    """A job that allows no failure of its own."""
    job = make_job(workers, minimum=1, drain_timeout=timedelta(seconds=DRAIN))
    assert job.spec is not None
    spec = replace(job.spec, restart_policy=RestartPolicy.NEVER, backoff_limit=0)
    world = ModelWorld(replace(job, spec=spec))
    world.start()
    return world


def use_up(world: ModelWorld, name: str) -> None:
    assert world.report is not None
    world.report = replace(world.report, used_up={world.pods[name].uid: 1})


def use_up_and_start_in(world: ModelWorld, name: str) -> None:
    """As by mpirun in a script whose first command was horovodrun."""
    use_up(world, name)
    world.settle()
    assert world.report is not None
    world.report = replace(world.report, used_up={})


def scale_in(world: ModelWorld, name: str) -> None:
    world.add(make_scaling(ScalingKind.IN, f"less-{name}", pod_names=(name,)))


def tell_unlisted(world: ModelWorld, name: str) -> None:
    """As where the command itself ends the agent of its worker."""
    assert world.report is not None
    world.report = replace(world.report, unlisted=frozenset({world.pods[name].uid}))


def force(world: ModelWorld, leaves: Leaves) -> str:
    """The newest worker leaves, never closes and is ended by force; its name."""
    name = max(world.workers, key=lambda name: world.pods[name].index or 0)
    leaves(world, name)
    world.settle()
    world.wait(DRAIN + 1)
    world.settle()
    assert world.pods[name].is_deleting
    world.end(name, 137)
    world.reap()
    world.settle()
    return name


def fail(world: ModelWorld) -> None:
    world.wait(20)
    world.finish(1)
    world.settle()


def test_one_in_which_nothing_can_run_explains_nothing() -> None:
    """What is left of its rank, in the background, holds its agent and is nothing to others."""
    world = start()
    force(world, use_up)
    fail(world)
    assert world.reason("Failed") == "LauncherFailed"
    assert world.status.failures.infrastructure == 0


def count_before(world: ModelWorld, age: timedelta) -> None:
    """As many launchers in a row as are allowed have ended so, the last one so long ago."""
    row = Backoff(INFRASTRUCTURE_LIMIT, world.now - age)
    world.job = replace(world.job, status=replace(world.status, lost_launchers=row))


@pytest.mark.long
@pytest.mark.parametrize("leaves", [use_up_and_start_in, scale_in, tell_unlisted])
@pytest.mark.parametrize("hours", [23, 24])
def test_one_in_which_something_may_run_explains_it_and_not_for_ever(
    leaves: Leaves, hours: int
) -> None:
    """Its drain alone takes longer than the ten minutes after which others are no row."""
    world = start()
    force(world, leaves)
    count_before(world, timedelta(hours=hours))
    fail(world)
    if hours < 24:
        assert world.reason("Failed") == "InfrastructureFailures"
        return
    assert world.reason("Restarting") == "WorkerLost"
    assert world.status.failures.infrastructure == 1
    assert world.status.lost_launchers is not None
    assert world.status.lost_launchers.count == 1
    world.go_on()
    assert (world.phase(), world.status.epoch) == ("Running", 2)


def give_place_away(world: ModelWorld, name: str) -> None:
    """As et-scheduler has it, for another job."""
    scale_in(world, name)
    world.settle()
    workers = [replace(r, reason=ScalingKind.QUEUE.value) for r in world.status.workers]
    world.job = replace(world.job, status=replace(world.status, workers=tuple(workers)))


def test_one_whose_place_another_job_got_does_however_often() -> None:
    world = start()
    force(world, give_place_away)
    count_before(world, timedelta(minutes=1))
    fail(world)
    assert world.reason("Restarting") == "WorkerLost"


def test_what_somebody_else_took_meanwhile_is_his() -> None:
    world = start()
    name = max(world.workers)
    scale_in(world, name)
    world.settle()
    world.wait(DRAIN + 1)
    world.settle()
    world.put(name, disruption_reason="EvictionByEvictionAPI")
    world.end(name, 137)
    world.settle()
    fail(world)
    assert world.reason("Restarting") == "WorkerLost"
    assert world.status.lost_launchers is None, "as often as that happens"


def test_too_few_workers_for_that_are_none_that_the_platform_took() -> None:
    world = start()
    world.put("job-launcher", command_least=4)
    force(world, scale_in)
    world.wait(4)
    world.settle()
    assert world.status.shortage is None
