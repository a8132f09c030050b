from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_operator.model.pods import Termination
from et_operator.model.specs import RestartPolicy
from tests.planning_makers import ModelWorld, make_job

GRACE = 30
UNSEEN = 120
OVERDUE = 60


def tell_end(world: ModelWorld, code: int) -> None:
    """The broker's word, and none of the kubelet."""
    assert world.report is not None
    world.report = replace(world.report, ended=code, is_told_to_end=False)
    world.settle()


def start(**spec: object) -> ModelWorld:
    world = ModelWorld(make_job(2, **spec))
    world.start()
    world.settle()
    return world


def wait(world: ModelWorld, seconds: int) -> None:
    world.wait(seconds)
    world.settle()


def list_told(world: ModelWorld) -> list[str]:
    return [event.reason for event in world.events if event.reason == "EndUnseen"]


def test_a_container_that_is_seen_to_end_in_time_costs_no_word() -> None:
    world = start()
    writes = world.writes
    tell_end(world, 0)
    assert world.requeue_after == timedelta(seconds=UNSEEN)
    wait(world, UNSEEN - 1)
    assert world.writes == writes
    world.finish(0)
    world.settle()
    assert world.phase() == "Succeeded"
    assert world.condition("EndUnseen") is None


@pytest.mark.parametrize("shown", [None, 137])
@pytest.mark.parametrize("has_hook", [False, True])
def test_a_told_0_whose_container_is_not_seen_to_end_is_a_success_whatever_is_over_by_then(
    shown: int | None, has_hook: bool
) -> None:
    world = start(active_deadline=timedelta(seconds=UNSEEN - 20))
    world.put("job-launcher", has_pre_stop=has_hook)
    tell_end(world, 0)
    wait(world, UNSEEN)
    assert world.condition("EndUnseen") == "True"
    assert "n1" in world.message("EndUnseen")
    assert list_told(world) == ["EndUnseen"]
    assert world.pods["job-launcher"].is_deleting
    assert world.phase() == "Running"

    if shown is None:
        wait(world, GRACE + OVERDUE - 1)
        assert world.phase() == "Running"
        wait(world, 1)
    else:
        wait(world, GRACE)
        world.end("job-launcher", shown)
        world.settle()
    assert world.phase() == "Succeeded"
    assert world.condition("EndUnseen") == "False"
    assert list_told(world) == ["EndUnseen"]


def test_it_is_one_where_nothing_is_ever_seen_of_its_container() -> None:
    world = start()
    world.put("job-launcher", phase="Pending", is_container_running=False)
    world.put("job-launcher", has_container_started=False)
    tell_end(world, 0)
    wait(world, UNSEEN)
    wait(world, GRACE + OVERDUE)
    assert world.phase() == "Succeeded"


def test_it_is_one_where_its_pod_vanishes() -> None:
    world = start()
    world.put("job-launcher", has_pre_stop=True)
    tell_end(world, 0)
    wait(world, UNSEEN)
    world.reap()
    world.settle()
    assert world.phase() == "Succeeded"


def evict(world: ModelWorld, name: str) -> None:
    end = Termination(137, "Error", finished=world.now)
    world.put(name, phase="Failed", is_container_running=False, termination=end)
    world.put(name, pod_reason="Evicted", disrupted=world.now)
    world.settle()


def end_unseen(world: ModelWorld, *, is_gone: bool = False) -> None:
    wait(world, UNSEEN)
    assert world.condition("EndUnseen") == "True"
    if is_gone:
        world.reap()
    wait(world, GRACE + OVERDUE)


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize("before", [60, 170, 290])
def test_what_was_lost_before_explains_a_told_failure_however_late_it_is_judged(
    before: int, is_gone: bool
) -> None:
    world = start(restart_policy=RestartPolicy.NEVER, minimum=1, is_elastic=True)
    evict(world, "job-worker-1")
    wait(world, before)
    tell_end(world, 1)
    end_unseen(world, is_gone=is_gone)
    assert world.reason("Restarting") == "WorkerLost"


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize("is_elastic", [False, True])
def test_what_is_lost_after_it_explains_nothing(is_elastic: bool, is_gone: bool) -> None:
    world = start(restart_policy=RestartPolicy.NEVER, minimum=1, is_elastic=is_elastic)
    tell_end(world, 7)
    wait(world, UNSEEN - 30)
    evict(world, "job-worker-1")
    end_unseen(world, is_gone=is_gone)
    assert world.phase() == "Failed"


@pytest.mark.parametrize(
    ("code", "is_told_to_end", "phase"),
    [
        pytest.param(143, False, "Failed", id="as the command's own SIGTERM"),
        pytest.param(7, True, "Restarting", id="as one that its node has told to end"),
    ],
)
def test_a_told_end_is_judged_as_one_that_was_seen(
    code: int, is_told_to_end: bool, phase: str
) -> None:
    for is_seen in (True, False):
        world = start(restart_policy=RestartPolicy.NEVER)
        assert world.report is not None
        world.report = replace(world.report, ended=code, is_told_to_end=is_told_to_end)
        world.settle()
        if is_seen:
            world.end("job-launcher", code)
            world.settle()
        else:
            end_unseen(world)
        reason = world.reason("Failed" if phase == "Failed" else "Restarting")
        assert (world.phase(), reason) == (
            phase,
            "LauncherFailed" if code == 143 else "LauncherDisrupted",
        )


@pytest.mark.parametrize("has_hook", [False, True])
def test_a_told_failure_is_one_too_and_its_job_goes_on_as_its_policy_says(has_hook: bool) -> None:
    world = start(restart_policy=RestartPolicy.ON_FAILURE)
    world.put("job-launcher", has_pre_stop=has_hook)
    tell_end(world, 7)
    wait(world, UNSEEN)
    assert world.condition("EndUnseen") == "True"
    wait(world, GRACE + OVERDUE)
    assert world.reason("Restarting") == "LauncherFailed"
    assert "exit code 7" in world.message("Restarting")
    assert world.condition("EndUnseen") == "False"
    wait(world, 1)
    assert "job-launcher-r1" in world.pods


def test_while_nothing_is_heard_of_pods_nobody_is_ended_for_it() -> None:
    world = start()
    tell_end(world, 0)
    for _ in range(20):
        world.complete_since = world.now + timedelta(seconds=30)
        wait(world, 30)
    assert not world.pods["job-launcher"].is_deleting
    assert list_told(world) == []
    wait(world, 60)
    assert world.pods["job-launcher"].is_deleting


def test_a_process_that_begins_anew_waits_anew() -> None:
    world = start()
    tell_end(world, 0)
    wait(world, UNSEEN - 1)
    world.told_since = None
    world.settle()
    wait(world, UNSEEN - 1)
    assert list_told(world) == []
    wait(world, 1)
    assert list_told(world) == ["EndUnseen"]


def test_a_launcher_that_is_suspended_meanwhile_ends_as_any_other() -> None:
    world = start()
    tell_end(world, 0)
    world.edit(suspend=True)
    world.settle()
    assert world.pods["job-launcher"].is_deleting
    wait(world, UNSEEN + GRACE + OVERDUE)
    assert list_told(world) == []
    assert world.phase() == "Succeeded"


def test_the_last_words_of_one_that_is_seen_late_are_kept() -> None:
    world = start(restart_policy=RestartPolicy.NEVER)
    tell_end(world, 7)
    wait(world, UNSEEN)
    world.put("job-launcher", termination=Termination(7, "Error", "out of memory"))
    world.put("job-launcher", phase="Failed", is_container_running=False)
    wait(world, GRACE + OVERDUE)
    assert "out of memory" in world.message("Failed")
