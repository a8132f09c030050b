"""Jobs that are being deleted and do not go: somebody's finalizer holds them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_contract.documents import Report
from et_operator.model.plans import Plan
from et_operator.model.pods import Termination
from et_operator.model.specs import CleanPodPolicy, RestartPolicy
from et_operator.model.statuses import ScalingKind
from tests.planning_makers import ModelWorld, make_job, make_scaling


def delete(world: ModelWorld, **changes: object) -> None:
    world.job = replace(world.job, deletion_requested=world.now, **changes)
    world.settle()


def start(**spec: object) -> ModelWorld:
    world = ModelWorld(make_job(2, **spec))
    world.start()
    return world


def test_it_is_stopped_and_its_end_is_told() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    delete(world)
    assert world.pods["job-launcher"].is_deleting
    assert not world.pods["job-worker-0"].is_deleting  # its command may need it to save
    world.end("job-launcher", 143)
    world.wait(60)
    world.settle()
    assert world.reason("Failed") == "Deleted"
    assert all(pod.is_deleting for pod in world.pods.values() if not pod.is_terminal)
    world.reap()
    world.settle()
    world.wait(3600)
    world.settle()
    assert world.workers == []


def test_a_command_that_had_ended_with_zero_has_succeeded_and_nothing_runs_on() -> None:
    world = start(clean_pod_policy=CleanPodPolicy.NONE, ttl_after_finished=timedelta())
    world.finish(0)
    delete(world)
    assert world.phase() == "Succeeded"
    world.reap()
    assert world.workers == []
    assert not [entry for entry in world.log if "TrainingJob" in entry]


def test_a_failure_of_the_command_is_told_as_such_and_not_restarted() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    world.finish(3)
    delete(world)
    assert world.reason("Failed") == "LauncherFailed"
    assert world.status.epoch == 1


def test_its_scalings_are_told() -> None:
    world = start()
    world.add(make_scaling(ScalingKind.OUT, "more", count=1))
    world.settle()
    world.add(make_scaling(ScalingKind.IN, "less", count=1))
    delete(world)
    world.end("job-launcher", 143)
    world.wait(60)
    world.settle()
    assert {world.scaling_phase(name) for name in ("more", "less")} == {"ScaleFailed"}


def test_one_that_is_suspended_or_cannot_be_planned_is_stopped_too() -> None:
    world = start()
    delete(world, spec=None, invalid="spec.x: change it")
    world.reap()
    world.settle()
    world.reap()
    world.settle()
    assert (world.pods, world.reason("Failed")) == ({}, "Deleted")


def test_pods_that_are_to_outlive_it_do() -> None:
    world = start()
    world.job = replace(world.job, deletion_requested=world.now, is_orphaning=True)
    assert world.step() == Plan()


def test_a_job_of_another_operator_is_left_alone() -> None:
    world = start()
    world.job = replace(world.job, is_foreign=True, deletion_requested=world.now)
    assert world.step() == Plan()


@pytest.mark.parametrize("invalid", ["", "spec.x: change it"])
def test_a_launcher_that_ended_while_nobody_looked_has_told_its_end(invalid: str) -> None:
    world = ModelWorld(make_job(2))
    while world.launcher is None:
        world.step()
    assert world.status.launcher_uid == ""
    world.wait(1)
    world.run()
    pod = world.launcher
    world.report = Report(epoch=1, launcher_uid=pod.uid, broker_start=1)
    world.finish(0)
    delete(world, invalid=invalid)
    assert world.phase() == "Succeeded"


@pytest.mark.long
@pytest.mark.parametrize(("seconds", "reason"), [(-1, "LauncherFailed"), (1, "Deleted")])
def test_a_failure_is_the_commands_own_where_it_came_before_the_deletion(
    seconds: int, reason: str
) -> None:
    world = start()
    world.finish(1)
    at = world.now + timedelta(seconds=seconds)
    world.put("job-launcher", termination=Termination(1, "Error", finished=at))
    for name in world.workers:
        del world.pods[name]  # as a garbage collector that deletes all at once
    world.wait(2)
    world.job = replace(world.job, deletion_requested=at - timedelta(seconds=seconds))
    world.settle()
    assert world.reason("Failed") == reason
