from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_contract.admissions import AdmissionState
from et_operator.model.admissions import Admission
from et_operator.model.pods import Termination
from et_operator.model.specs import RestartPolicy
from et_operator.model.statuses import ScalingKind
from tests.planning_makers import ModelWorld, make_job, make_scaling, make_shipped


def start(**spec: object) -> ModelWorld:
    world = ModelWorld(make_job(3, **spec))
    world.start()
    world.wait(20)
    return world


def test_a_job_that_is_made_suspended_is_told_to_be_so_and_not_that_pods_end() -> None:
    world = ModelWorld(make_job(3, suspend=True))
    world.settle()
    assert [e.message for e in world.events] == [
        "made suspended: nothing of it is started until the job is resumed"
    ]
    world.edit(suspend=False)
    world.go_on(2)
    world.edit(suspend=True)
    world.settle()
    assert world.events[-1].message == "all pods are ended until the job is resumed"


def test_suspend_ends_the_launcher_first_and_then_the_workers() -> None:
    world = start()
    world.edit(suspend=True)
    world.settle()
    assert world.pods["job-launcher"].is_deleting
    assert not any(world.pods[name].is_deleting for name in world.workers)
    world.reap()
    world.settle()
    assert all(world.pods[name].is_deleting for name in world.workers)
    world.reap()
    world.settle()
    assert world.pods == {}
    assert world.phase() == "Suspended"
    assert world.status.failures.infrastructure == 0


def test_resume_starts_a_new_epoch_with_new_names() -> None:
    world = start()
    world.edit(suspend=True)
    world.go_on(3)
    world.shipped = make_shipped("d2")
    world.edit(suspend=False)
    world.start()
    assert world.phase() == "Running"
    assert sorted(world.workers) == ["job-worker-3", "job-worker-4", "job-worker-5"]
    assert world.launcher is not None
    assert world.launcher.name == "job-launcher-r1"
    assert world.status.restart_count == 0
    assert world.status.runtime is not None
    assert world.status.runtime.digest == "d2"


def test_a_pod_that_stays_on_a_lost_node_keeps_a_resumed_job_on_no_old_runtime() -> None:
    world = start()
    world.put("job-worker-0", node="n2")
    del world.nodes["n2"]
    world.edit(suspend=True)
    for _ in range(3):
        world.settle()
        world.reap("job-launcher", "job-worker-1", "job-worker-2")
    assert list(world.pods) == ["job-worker-0"]
    world.shipped = make_shipped("d2")
    world.edit(suspend=False)
    world.start()
    assert world.status.runtime is not None
    assert world.status.runtime.digest == "d2"
    assert world.phase() == "Running"


def test_resume_half_way_keeps_the_workers_that_were_not_ended_yet() -> None:
    world = start()
    world.edit(suspend=True)
    world.settle()
    world.edit(suspend=False)
    world.settle()
    world.reap()
    world.go_on(2)
    assert sorted(world.workers) == ["job-worker-0", "job-worker-1", "job-worker-2"]
    assert world.phase() == "Running"
    assert world.status.epoch == 2
    assert world.status.failures.infrastructure == 0


def test_it_has_stopped_once_nobody_is_awaited_though_a_pod_stays_on_a_lost_node() -> None:
    world = start()
    node = world.pods["job-worker-0"].node
    world.edit(suspend=True)
    world.settle()
    assert world.reason("Suspended") == "Stopping"
    world.reap("job-launcher")
    world.settle()
    world.reap("job-worker-1", "job-worker-2")
    world.settle()
    assert world.reason("Suspended") == "Stopping"
    assert node is not None
    del world.nodes[node]
    world.settle()
    assert "job-worker-0" in world.pods
    assert world.reason("Suspended") == "JobSuspended"


def resume_while_it_saves() -> ModelWorld:
    world = start()
    world.edit(suspend=True)
    world.settle()
    world.put("job-launcher", deletion_grace_seconds=300)
    world.wait(10)
    world.edit(suspend=False)
    world.settle()
    return world


def test_a_resume_waits_for_a_launcher_whose_command_saves_its_state() -> None:
    world = resume_while_it_saves()
    world.wait(100)
    world.settle()
    assert [name for name in world.pods if "launcher" in name] == ["job-launcher"]
    assert (world.phase(), world.reason("Suspended")) == ("Suspended", "Resuming")
    assert world.status.epoch == 1
    assert not any(world.pods[name].is_deleting for name in world.workers)

    world.finish(0, is_told_to_end=True)
    world.go_on(2)
    assert (world.phase(), world.status.epoch) == ("Running", 2)
    assert sorted(world.workers) == ["job-worker-0", "job-worker-1", "job-worker-2"]


def test_workers_stay_while_a_resume_waits_for_the_launchers_last_word() -> None:
    world = resume_while_it_saves()
    ended = Termination(0, "Completed", "", world.now)
    world.put("job-launcher", is_container_running=False, termination=ended)
    world.settle()
    assert world.phase() == "Suspended"
    assert not any(world.pods[name].is_deleting for name in world.workers)


def test_a_job_that_is_suspended_again_while_it_waits_stays_so() -> None:
    world = resume_while_it_saves()
    world.edit(suspend=True)
    world.settle()
    assert world.reason("Suspended") == "Stopping"
    world.reap()
    world.settle()
    assert all(world.pods[name].is_deleting for name in world.workers)


def test_a_resume_waits_for_no_launcher_on_a_node_that_is_lost() -> None:
    world = resume_while_it_saves()
    node = world.pods["job-launcher"].node
    assert node is not None
    del world.nodes[node]
    world.settle()
    assert (world.phase(), world.status.epoch) != ("Suspended", 1)


def test_a_job_can_be_created_suspended() -> None:
    world = ModelWorld(make_job(suspend=True))
    world.settle()
    assert world.log == ["status"]
    assert world.phase() == "Suspended"
    world.edit(suspend=False)
    world.start()
    assert world.phase() == "Running"
    assert world.launcher is not None
    assert world.launcher.name == "job-launcher"


def test_suspend_in_the_middle_of_a_drain() -> None:
    world = start()
    world.add(make_scaling(ScalingKind.IN, "less", count=1))
    world.settle()
    world.edit(suspend=True)
    world.go_on(3)
    assert world.scaling_reason("less") == "Suspended"
    assert world.replicas == 2
    assert world.pods == {}
    world.edit(suspend=False)
    world.start()
    assert len(world.workers) == 2
    assert world.phase() == "Running"


def test_suspend_in_the_middle_of_a_bare_growth_keeps_the_number() -> None:
    world = start()
    world.edit(replicas=5)
    world.settle()
    world.edit(suspend=True)
    world.go_on(3)
    assert world.replicas == 5
    world.edit(suspend=False)
    world.start()
    assert len(world.workers) == 5


def test_while_suspended_a_scaling_only_changes_the_number() -> None:
    world = start()
    world.edit(suspend=True)
    world.go_on(3)
    world.add(make_scaling(ScalingKind.OUT, "more", count=2, created=world.now))
    world.settle()
    assert world.scaling_phase("more") == "ScaleSucceeded"
    assert world.replicas == 5
    assert world.pods == {}
    world.edit(replicas=4)
    world.settle()
    world.edit(suspend=False)
    world.start()
    assert len(world.workers) == 4


def test_a_job_whose_command_saves_its_state_on_suspension_can_be_resumed() -> None:
    world = start(ttl_after_finished=timedelta(), restart_policy=RestartPolicy.NEVER)
    world.edit(suspend=True)
    world.settle()
    world.finish(0, is_told_to_end=True)
    world.go_on(3)
    assert world.phase() == "Suspended"
    assert not world.job_is_gone
    world.edit(suspend=False)
    world.go_on()
    assert world.phase() == "Running"
    assert world.status.failures.infrastructure == 0


def test_success_wins_over_suspend() -> None:
    world = start()
    world.finish(0)
    world.edit(suspend=True)
    world.settle()
    assert world.phase() == "Succeeded"


@pytest.mark.parametrize("is_evicted", [False, True])
def test_so_does_a_failure_of_the_commands_own(*, is_evicted: bool) -> None:
    """Whatever a suspension or an eviction does comes after it."""
    world = start(queue="research" if is_evicted else "")
    if is_evicted:
        world.job = replace(world.job, admission=Admission(1, AdmissionState.ADMITTED, workers=3))
        world.start()
    world.finish(3)
    if is_evicted:
        world.job = replace(world.job, admission=Admission(1, AdmissionState.WAITING))
    else:
        world.edit(suspend=True)
    world.settle()
    assert world.phase() == "Failed"
    assert world.status.failures.user == 1


def end_untold(world: ModelWorld, code: int, **changes: object) -> None:
    """The launcher's container has ended; its broker, beside it, has yet to tell."""
    ended = Termination(code, "Error", "", world.now)
    world.put("job-launcher", is_container_running=False, termination=ended, **changes)


def pause(world: ModelWorld, *, is_evicted: bool) -> None:
    if is_evicted:
        world.job = replace(world.job, admission=Admission(1, AdmissionState.WAITING))
    else:
        world.edit(suspend=True)


def start_told(*, is_queued: bool) -> ModelWorld:
    world = start(queue="research" if is_queued else "")
    if is_queued:
        world.job = replace(world.job, admission=Admission(1, AdmissionState.ADMITTED, workers=3))
        world.start()
    return world


@pytest.mark.parametrize("is_evicted", [False, True])
@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
@pytest.mark.parametrize("is_told", [False, True])
def test_so_it_does_where_its_broker_tells_it_a_moment_later_or_never(
    code: int, phase: str, *, is_told: bool, is_evicted: bool
) -> None:
    world = start_told(is_queued=is_evicted)
    end_untold(world, code)
    world.wait(10)
    pause(world, is_evicted=is_evicted)
    world.settle()
    launcher = world.launcher
    assert launcher is not None
    assert not launcher.is_deleting, "its broker could not tell then"
    assert world.condition("Suspended") != "True"
    if is_told:
        assert world.report is not None
        world.report = replace(world.report, ended=code, is_told_to_end=False)
    else:
        world.wait(51)
    world.settle()
    assert world.phase() == phase


@pytest.mark.parametrize("code", [0, 3])
def test_a_launcher_of_which_all_has_ended_is_judged_before_a_suspension(code: int) -> None:
    world = start()
    world.end("job-launcher", code)
    world.edit(suspend=True)
    world.settle()
    assert world.phase() == ("Failed" if code else "Succeeded")


@pytest.mark.parametrize("is_evicted", [False, True])
def test_what_the_platform_has_ended_is_suspended_with_its_verdict_open(
    *, is_evicted: bool
) -> None:
    world = start_told(is_queued=is_evicted)
    end_untold(world, 137, disruption_reason="PreemptionByScheduler")
    pause(world, is_evicted=is_evicted)
    world.wait(61)
    world.go_on(4)
    assert world.phase() == ("Waiting" if is_evicted else "Suspended")
    assert (world.pods, world.status.failures.infrastructure) == ({}, 0)
    assert world.condition("Admitted") == ("False" if is_evicted else None)


def test_where_the_job_allows_another_try_it_counts_and_comes_with_the_resume() -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE, backoff_limit=1)
    world.finish(3)
    world.edit(suspend=True)
    world.go_on(3)
    assert world.phase() == "Suspended"
    assert world.status.failures.user == 1
    world.edit(suspend=False)
    world.go_on()
    assert world.phase() == "Running"
    assert world.condition("Restarting") == "False"
    world.finish(3)
    world.edit(suspend=True)
    world.go_on()
    assert world.phase() == "Failed"
    assert world.reason("Failed") == "BackoffLimitExceeded"


def test_what_it_ended_with_as_it_was_told_to_is_none_of_its_own() -> None:
    world = start()
    world.edit(suspend=True)
    world.settle()
    world.finish(3, is_told_to_end=True)
    world.go_on(3)
    world.edit(suspend=False)
    world.go_on()
    assert world.phase() == "Running"
    assert world.status.failures.user == 0


def test_suspended_and_cancelled_at_once_still_puts_the_number_right() -> None:
    world = start()
    scaling = world.add(make_scaling(ScalingKind.OUT, "more", count=2))
    world.settle()
    del world.scalings[scaling.uid]
    world.edit(suspend=True)
    world.go_on(2)
    assert world.replicas == 3
    assert world.status.scaling is None


def test_the_record_of_a_suspended_job_is_small() -> None:
    world = start()
    world.edit(suspend=True)
    world.go_on(3)
    writes = world.writes
    world.job = replace(world.job)
    world.wait(1000)
    world.settle()
    assert world.writes == writes


def test_what_lives_on_beside_a_launcher_that_has_ended_goes_with_the_suspension() -> None:
    world = ModelWorld(make_job(2, restart_policy=RestartPolicy.ON_FAILURE))
    world.start()
    ended = Termination(1, "Error", "", world.now)
    world.put("job-launcher", is_container_running=False, termination=ended)
    world.edit(suspend=True)
    world.wait(61)
    world.go_on(2)
    assert (world.pods, world.phase()) == ({}, "Suspended")
