"""Jobs whose launcher starts its processes once and for all: mpirun, DeepSpeed."""

from __future__ import annotations

import pytest

from et_operator.model.statuses import ScalingKind
from tests.planning_makers import ModelWorld, make_job, make_scaling

IN, OUT = ScalingKind.IN, ScalingKind.OUT


def start(replicas: int = 2, **spec: object) -> ModelWorld:
    given = {"launcher": "mpirun", "is_elastic": False, "minimum": 1, **spec}
    world = ModelWorld(make_job(replicas, **given))
    world.start()
    world.wait(20)
    return world


@pytest.mark.parametrize("kind", [IN, OUT])
def test_no_scaling_while_it_runs(kind: ScalingKind) -> None:
    world = start()
    world.add(make_scaling(kind, "change", count=1))
    world.settle()
    assert world.scaling_phase("change") == "ScaleFailed"
    assert world.scaling_reason("change") == "NotElastic"
    message = world.scalings["change-uid"].status.conditions[-1].message
    assert message.startswith("mpirun starts all its processes at once")
    assert world.replicas == 2
    assert set(world.states().values()) == {"active"}
    assert len(world.workers) == 2


def test_a_number_written_meanwhile_is_held_and_told() -> None:
    world = start()
    world.edit(replicas=3)
    world.settle()
    assert len(world.workers) == 2
    assert world.condition("NotElastic") == "True"
    assert world.phase() == "Running"
    world.add(make_scaling(OUT, "more", count=1))
    world.settle()
    assert world.scaling_reason("more") == "NotElastic"
    world.edit(replicas=2)
    world.settle()
    assert world.condition("NotElastic") == "False"


@pytest.mark.parametrize("was_elastic", [False, True])
def test_what_a_launcher_can_do_is_what_it_was_created_for(*, was_elastic: bool) -> None:
    """Its author prepares the next run while this one trains."""
    world = start(3, is_elastic=was_elastic)
    world.edit(launcher="another", is_elastic=not was_elastic)
    world.add(make_scaling(IN, "change", count=1))
    world.settle()
    assert (world.scaling_reason("change") == "NotElastic") is not was_elastic
    assert ("draining" in world.states().values()) is was_elastic


def test_a_launcher_of_a_former_version_is_what_the_template_says() -> None:
    world = start()
    world.put("job-launcher", is_elastic=None)
    world.add(make_scaling(IN, "change", count=1))
    world.settle()
    assert world.scaling_reason("change") == "NotElastic"


def test_a_number_that_is_held_holds_from_the_next_launcher_on() -> None:
    world = start(restart_policy="OnFailure")
    world.edit(replicas=3)
    world.settle()
    world.finish(1)
    world.go_on()
    assert world.status.epoch == 2
    assert len(world.workers) == 3
    assert world.config is not None
    assert (world.config.replicas, world.config.min_replicas) == (3, 3)
    assert world.condition("NotElastic") == "False"


def test_a_suspended_job_is_scaled_and_resumed() -> None:
    world = start()
    world.edit(suspend=True)
    world.go_on()
    world.add(make_scaling(OUT, "more", count=1))
    world.go_on()
    assert world.scaling_phase("more") == "ScaleSucceeded"
    world.edit(suspend=False)
    world.go_on()
    assert len(world.workers) == 3


def test_it_starts_with_all_workers_or_not_at_all() -> None:
    world = start(3)
    assert world.config is not None
    assert (world.config.replicas, world.config.min_replicas) == (3, 3)


def test_a_failure_with_a_lost_worker_is_not_the_users() -> None:
    world = start()
    world.delete("job-worker-1")
    world.settle()
    world.finish(1)
    world.settle()
    assert (world.status.failures.user, world.status.failures.infrastructure) == (0, 1)
    assert world.reason("Restarting") == "WorkerLost"
    world.go_on()
    assert world.status.epoch == 2
    assert world.states()["job-worker-2"] == "active"


def lose_workers(times: int, **how: object) -> ModelWorld:
    """One worker after the other is lost, and each time the command ends with it."""
    world = start()
    for _ in range(times):
        world.put(world.workers[-1], phase="Failed", is_container_running=False, **how)
        world.settle()
        world.finish(1)
        world.settle()
        for _ in range(4):
            world.wait(60)
            world.start()
    return world


@pytest.mark.long
def test_workers_that_are_taken_one_after_the_other_fail_no_job() -> None:
    world = lose_workers(30, disruption_reason="EvictionByEvictionAPI")
    assert world.phase() == "Running"
    assert world.status.failures.infrastructure == 30


@pytest.mark.long
def test_workers_that_are_evicted_for_what_they_use_do_at_last() -> None:
    world = lose_workers(21, pod_reason="Evicted")
    assert world.reason("Failed") == "InfrastructureFailures"


def test_a_failure_of_its_own_is() -> None:
    world = start()
    world.finish(1)
    world.settle()
    assert world.phase() == "Failed"
    assert world.reason("Failed") == "LauncherFailed"


def test_a_worker_that_was_lost_before_this_launcher_excuses_nothing() -> None:
    world = start()
    world.delete("job-worker-1")
    world.settle()
    world.finish(1)
    world.go_on()
    world.finish(1)
    world.settle()
    assert world.phase() == "Failed"
