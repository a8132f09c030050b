"""Workers that were lost while nobody looked, and what that explains of their launcher's end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from et_kube.resources import PODS
from et_operator.model.jobs import ScalingKind
from et_operator.model.pods import Termination
from tests.planning_makers import ModelWorld, make_job, make_scaling

ELASTIC = [pytest.param(True, id="elastic"), pytest.param(False, id="fixed")]


def start(*, is_elastic: bool) -> ModelWorld:
    world = ModelWorld(make_job(3, is_elastic=is_elastic, minimum=1))
    world.start()
    world.settle()
    return world


def take(world: ModelWorld, name: str, minutes: int) -> None:
    """A kubelet evicted it so long ago; its pod stays."""
    at = world.now - timedelta(minutes=minutes)
    world.put(
        name,
        phase="Failed",
        is_container_running=False,
        pod_reason="Evicted",
        termination=Termination(137, "Error", finished=at),
    )


@pytest.mark.parametrize("is_elastic", ELASTIC)
@pytest.mark.parametrize("is_pod_there", [False, True])
def test_a_worker_that_was_lost_while_nobody_looked_explains_a_failure(
    *, is_elastic: bool, is_pod_there: bool
) -> None:
    world = start(is_elastic=is_elastic)
    if is_pod_there:
        take(world, "job-worker-1", 1)
    else:
        del world.pods["job-worker-1"]
    world.finish(1)
    world.settle()
    assert world.reason("Restarting") == "WorkerLost"
    assert (world.status.failures.user, world.status.failures.infrastructure) == (0, 1)
    world.go_on()
    assert (world.phase(), world.status.epoch) == ("Running", 2)


def test_so_does_one_that_was_being_deleted_when_it_was_last_seen() -> None:
    world = start(is_elastic=True)
    world.delete("job-worker-1")
    world.settle()
    world.wait(900)
    world.reap()
    world.finish(1)
    world.settle()
    assert world.reason("Restarting") == "WorkerLost"


def test_that_its_pod_is_gone_is_read_before_the_platform_is_blamed() -> None:
    world = start(is_elastic=True)
    del world.pods["job-worker-1"]
    world.finish(1)
    assert (PODS, "job-worker-1") in {(r.resource, r.name) for r in world.step().premises}


def test_one_that_was_scaled_in_while_nobody_looked_excuses_nothing() -> None:
    world = start(is_elastic=True)
    world.add(make_scaling(ScalingKind.IN, "less", pod_names=("job-worker-1",)))
    world.settle()
    world.delete("job-worker-1")
    world.reap()
    world.finish(1)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


def test_nor_does_one_that_no_list_had() -> None:
    world = ModelWorld(make_job(2, minimum=1))
    world.settle()
    world.run()
    world.settle()
    world.serve(list_new=False)
    world.settle()
    del world.pods["job-worker-1"]
    world.finish(1)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_loss_counts_from_when_it_was_and_not_from_when_it_was_noted(*, is_noted: bool) -> None:
    world = start(is_elastic=True)
    world.wait(3600)
    take(world, "job-worker-1", 50)
    if is_noted:
        world.settle()
    world.finish(3)
    world.settle()
    assert world.reason("Failed") == "LauncherFailed"


@pytest.mark.parametrize("is_elastic", ELASTIC)
@pytest.mark.parametrize(
    ("seconds", "reason", "explains"),
    [(59, "", True), (61, "EvictionByEvictionAPI", False), (61, "DeletionByTaintManager", True)],
)
def test_one_that_somebody_took_once_the_launcher_had_ended_explains_nothing(
    seconds: int, reason: str, *, is_elastic: bool, explains: bool
) -> None:
    world = start(is_elastic=is_elastic)
    world.finish(3)
    world.put("job-launcher", termination=Termination(3, "Error", finished=world.now))
    world.wait(seconds)
    world.delete("job-worker-1")
    world.put("job-worker-1", disruption_reason=reason)
    world.settle()
    expected = ("Restarting", "WorkerLost") if explains else ("Failed", "LauncherFailed")
    assert world.reason(expected[0]) == expected[1]


@pytest.mark.parametrize(("minimum", "reason"), [(3, "WorkerLost"), (2, None)])
def test_a_command_that_waits_for_more_workers_until_it_gives_up_was_not_to_blame(
    minimum: int, reason: str | None
) -> None:
    world = ModelWorld(make_job(3, minimum=minimum))
    world.start()
    world.settle()
    world.delete("job-worker-1")
    world.settle()
    world.reap()
    world.settle()
    world.wait(640)  # the next worker finds no node
    world.finish(1)
    world.settle()
    assert world.reason("Restarting") == reason
    assert world.status.failures.user == (0 if reason else 1)
