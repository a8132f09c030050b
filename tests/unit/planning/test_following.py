"""Jobs that are only followed for the moment: nothing is concluded that could not be taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Node, Termination
from et_operator.model.specs import RestartPolicy
from et_operator.model.statuses import ScalingKind
from et_operator.planning.drafts import Draft
from tests.planning_makers import ModelWorld, make_job, make_scaling

INVALID = "spec.x: change it"
UNREAD = {"scaling": "status.scaling.kind: is 'NewKind', which is unknown"}


def make_invalid(job: TrainingJob) -> TrainingJob:
    return replace(job, spec=None, invalid=INVALID)


def make_unreadable(job: TrainingJob) -> TrainingJob:
    return replace(job, unread=UNREAD)


def preempt(world: ModelWorld) -> None:
    world.put(
        "job-launcher",
        phase="Failed",
        is_container_running=False,
        disruption_reason="PreemptionByScheduler",
        termination=Termination(143, "Error", "", finished=world.now),
    )


def crash(world: ModelWorld) -> None:
    world.end("job-launcher", 1)


def vanish(world: ModelWorld) -> None:
    del world.pods["job-launcher"]


FAULTS = pytest.mark.parametrize("fault", [make_invalid, make_unreadable])
Fault = Callable[[TrainingJob], TrainingJob]


def follow(fault: Fault, **spec: object) -> ModelWorld:
    world = ModelWorld(make_job(2, **spec))
    world.start()
    world.job = fault(world.job)
    world.settle()
    return world


def correct(world: ModelWorld, **spec: object) -> None:
    """The author, or the operator that wrote the status, is back."""
    world.job = replace(world.job, spec=make_job(2, **spec).spec, invalid="", unread={})
    world.settle()


@FAULTS
@pytest.mark.parametrize("end", [preempt, crash, vanish])
def test_an_end_is_judged_when_the_fault_is_corrected(
    fault: Fault, end: Callable[[ModelWorld], None]
) -> None:
    spec = {"restart_policy": RestartPolicy.ON_FAILURE}
    world = follow(fault, **spec)
    end(world)
    world.settle()
    world.wait(3600)
    world.settle()
    assert world.condition("Failed") is None
    assert world.condition("Running") == "False"
    told = [
        c.message for c in world.status.conditions if c.type in {"InvalidSpec", "StatusDamaged"}
    ]
    assert "its launcher has ended" in told[0]
    correct(world, **spec)
    assert world.phase() == "Restarting"
    world.go_on()
    assert world.phase() == "Running"
    assert world.status.epoch == 2


@FAULTS
def test_the_commands_own_failure_is_one_once_the_fault_is_corrected(fault: Fault) -> None:
    world = follow(fault)
    crash(world)
    world.settle()
    assert world.condition("Failed") is None
    correct(world)
    assert world.reason("Failed") == "LauncherFailed"


@FAULTS
def test_a_success_that_was_told_before_the_platform_came_is_one_at_once(fault: Fault) -> None:
    world = follow(fault)
    assert world.report is not None
    world.report = replace(world.report, ended=0)
    world.put("job-launcher", phase="Failed", is_container_running=False, pod_reason="NodeShutdown")
    world.settle()
    assert world.phase() == "Succeeded"


def test_a_scaling_whose_record_cannot_be_read_is_not_said_to_be_lost() -> None:
    world = ModelWorld(make_job(3))
    world.start()
    world.add(make_scaling(ScalingKind.IN, "less", count=1))
    world.settle()
    good = world.job
    assert good.status.scaling is not None
    world.job = replace(make_unreadable(good), status=replace(good.status, scaling=None))
    world.settle()
    assert world.scaling_phase("less") == "Scaling"
    world.job = good
    world.go_on()
    assert world.scaling_phase("less") == "ScaleSucceeded"


@FAULTS
def test_a_scaling_that_goes_on_is_followed_too_and_its_job_judged(fault: Fault) -> None:
    world = ModelWorld(make_job(3))
    world.start()
    world.add(make_scaling(ScalingKind.IN, "less", count=1))
    world.settle()
    world.serve(close=False)
    world.settle()
    world.wait(15)
    world.settle()
    world.job = fault(world.job)
    world.settle()
    assert world.scaling_phase("less") == "Scaling"
    world.finish(0)
    world.settle()
    assert world.phase() == "Succeeded"
    assert world.scaling_reason("less") == "JobFinished"


def test_a_suspended_job_that_is_edited_into_an_invalid_one_waits_for_its_author() -> None:
    world = ModelWorld(make_job(2, suspend=True))
    world.settle()
    world.job = make_invalid(world.job)
    world.settle()
    assert (world.condition("Failed"), world.condition("InvalidSpec")) == (None, "True")
    assert world.phase() == "Suspended"
    correct(world)
    world.start()
    assert world.phase() == "Running"


def test_a_job_that_runs_and_whose_status_was_removed_is_not_one_that_never_began() -> None:
    world = follow(make_invalid)
    world.job = replace(world.job, status=type(world.status)())
    world.settle()
    assert (world.condition("Failed"), world.condition("InvalidSpec")) == (None, "True")


@FAULTS
def test_of_a_launcher_that_is_deleted_on_a_lost_node_it_is_told_once(fault: Fault) -> None:
    """Its container is said to run, for nobody is there to say otherwise."""
    world = follow(fault)
    world.tick = timedelta(milliseconds=50)
    assert world.condition("Running") == "True"
    world.delete("job-launcher")
    world.nodes["n1"] = Node("n1", is_ready=False, is_unreachable=True)
    writes = world.writes
    world.settle()
    assert world.condition("Running") == "False"
    assert world.writes == writes + 1


def test_a_condition_that_is_as_it_was_has_not_changed_whatever_it_was_meanwhile() -> None:
    world = ModelWorld(make_job(2))
    world.start()
    draft = Draft(world.snapshot(), world.now + timedelta(hours=1))
    draft.set_condition("Running", "False", "NotRunning")
    draft.set_condition("Running", "True", "JobRunning", world.message("Running"))
    assert draft.status == world.status
