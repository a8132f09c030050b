from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_operator.model.specs import RestartPolicy, StallPolicy
from tests.planning_makers import ModelWorld, make_job

MINUTE = 60
GRACE = 30


def start(**spec: object) -> ModelWorld:
    world = ModelWorld(make_job(2, **spec))
    world.start()
    world.wait(20)
    world.settle()
    return world


def stall(world: ModelWorld) -> None:
    assert world.report is not None
    world.report = replace(world.report, problems={"DriverStalled": "asks for no hosts"})
    world.settle()
    world.wait(MINUTE + 1)
    world.settle()
    assert world.pods["job-launcher"].is_deleting


def wait_for_grace(world: ModelWorld) -> None:
    """To the last moment at which an end is awaited; the kubelet, in order, ends nothing."""
    world.wait(GRACE + MINUTE - 1)
    world.settle()
    assert world.requeue_after == timedelta(seconds=1)


def pass_grace(world: ModelWorld) -> None:
    world.wait(1)
    world.settle()


@pytest.mark.parametrize("is_evicted", [False, True])
def test_a_launcher_that_cannot_be_ended_has_a_successor_a_minute_after_its_grace(
    is_evicted: bool,
) -> None:
    world = start(stall_policy=StallPolicy.RESTART, restart_policy=RestartPolicy.ON_FAILURE)
    if is_evicted:
        world.delete("job-launcher", GRACE)
        world.put("job-launcher", disruption_reason="EvictionByEvictionAPI")
        world.settle()
    else:
        stall(world)
    wait_for_grace(world)
    assert "job-launcher-r1" not in world.pods
    assert (world.condition("PodsEnding"), world.reason("PodsEnding")) == ("True", "Awaited")

    pass_grace(world)
    world.wait(1)
    world.settle()
    assert "job-launcher-r1" in world.pods
    assert "job-launcher" in world.pods
    assert world.reason("PodsEnding") == "Overdue"
    told = [e for e in world.events if e.reason == "PodsEnding"]
    assert [e.is_warning for e in told] == [False, True]
    assert all("job-launcher" in e.message for e in told)
    assert "n1" in told[-1].message

    world.reap()
    world.settle()
    assert world.condition("PodsEnding") == "False"


def test_a_job_that_was_given_up_gives_its_workers_back_though_its_launcher_cannot_be_ended() -> (
    None
):
    limit = timedelta(seconds=600)
    world = start(active_deadline=limit, ttl_after_finished=timedelta())
    world.wait(600)
    world.settle()
    assert world.reason("Failed") == "DeadlineExceeded"
    wait_for_grace(world)
    assert not any(world.pods[name].is_deleting for name in world.workers)
    assert not world.job_is_gone
    pass_grace(world)
    assert all(world.pods[name].is_deleting for name in world.workers)
    assert world.job_is_gone


def test_a_resume_names_whom_it_waits_for_and_goes_on_without_it() -> None:
    world = start(stall_policy=StallPolicy.RESTART)
    stall(world)
    world.edit(suspend=True)
    world.settle()
    world.edit(suspend=False)
    world.settle()
    message = next(c.message for c in world.status.conditions if c.type == "Suspended")
    assert "job-launcher " in message
    assert "job-launcher-r1" not in message
    wait_for_grace(world)
    assert world.reason("Suspended") == "Resuming"
    pass_grace(world)
    assert world.condition("Suspended") == "False"
    assert "job-launcher-r2" in world.pods


def test_an_end_with_0_that_was_told_is_a_success_though_the_pod_cannot_be_ended() -> None:
    world = start()
    world.delete("job-launcher", GRACE)
    world.settle()
    assert world.report is not None
    world.report = replace(world.report, ended=0)
    wait_for_grace(world)
    assert world.phase() == "Running"
    pass_grace(world)
    assert world.phase() == "Succeeded"


def test_a_worker_that_is_overdue_is_not_gone() -> None:
    world = start()
    world.delete("job-worker-1", GRACE)
    world.settle()
    assert world.config is not None
    before = {m.name: m.state for m in world.config.members}
    world.wait(GRACE + MINUTE)
    world.settle()
    assert {m.name: m.state for m in world.config.members}["job-worker-1"] is before["job-worker-1"]
    assert world.reason("PodsEnding") == "Overdue"


def test_a_clock_that_has_just_jumped_ahead_makes_no_pod_overdue() -> None:
    world = start(stall_policy=StallPolicy.RESTART)
    stall(world)
    world.wait(3600)
    world.complete_since = world.now  # as state/coverage.py says where the clock jumps ahead
    world.settle()
    assert "job-launcher-r1" not in world.pods
    assert world.requeue_after == timedelta(seconds=MINUTE)
    world.wait(MINUTE)
    world.settle()
    assert "job-launcher-r1" in world.pods
