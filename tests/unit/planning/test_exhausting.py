"""Workers whose hosts a command has given up are replaced, within bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from et_operator.model.blacklists import GivenUp, Moment
from et_operator.model.jobs import TrainingJob
from et_operator.model.pods import Termination
from et_operator.model.statuses import ScalingKind, WorkerState
from et_operator.planning.exhausting import MOST_MOMENTS
from tests.planning_makers import ModelWorld, make_job, make_scaling

GOOD = 3600
"""Seconds: longer than a place waits for anything."""


def start(workers: int = 3, job: TrainingJob | None = None, **spec: object) -> ModelWorld:
    world = ModelWorld(job or make_job(workers, **({"minimum": 1} | spec)))
    world.start()
    world.wait(GOOD)
    world.settle()
    return world


def use_up(world: ModelWorld, *names: str, code: int = 137) -> None:
    """The broker says so of these workers."""
    assert world.report is not None
    codes = {world.pods[name].uid: code for name in names}
    world.report = replace(world.report, used_up={**world.report.used_up, **codes})
    world.settle()


def find_reason(world: ModelWorld, name: str) -> str:
    return next(r.reason for r in world.status.workers if r.name == name)


def told(world: ModelWorld, reason: str) -> list[str]:
    return [event.message for event in world.events if event.reason == reason]


def test_a_worker_that_is_used_up_leaves_and_is_replaced_under_a_new_name() -> None:
    world = start()
    use_up(world, "job-worker-1")
    [record] = [r for r in world.status.workers if r.name == "job-worker-1"]
    assert (record.state, record.reason, record.taken) == (WorkerState.LEAVING, "UsedUp", False)
    assert world.states()["job-worker-1"] == "draining"
    assert not world.pods["job-worker-1"].is_deleting, "its agent is asked first"
    [message] = told(world, "WorkerGivenUp")
    assert "job-worker-1" in message
    assert "exit code 137" in message
    assert "job-launcher" in message
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-2", "job-worker-3"]
    assert (world.status.decided_replicas, world.replicas) == (3, 3)
    assert told(world, "WorkerLost") == []
    assert world.condition("RanksFailing") is None


def test_those_of_one_code_are_told_at_once_and_each_is_replaced() -> None:
    world = start(4)
    use_up(world, "job-worker-1", "job-worker-2", code=134)
    assert len(told(world, "WorkerGivenUp")) == 1
    world.go_on()
    assert len(world.workers) == 4
    assert {"job-worker-4", "job-worker-5"} <= set(world.workers)


def test_a_report_that_says_nothing_of_it_changes_nothing() -> None:
    world = start()
    writes = world.writes
    world.settle()
    assert world.writes == writes


@pytest.mark.parametrize("code", [0, 1])
def test_nobody_is_replaced_once_the_command_has_ended(code: int) -> None:
    world = start()
    assert world.report is not None
    world.report = replace(world.report, ended=code, is_told_to_end=False)
    use_up(world, "job-worker-1")
    assert told(world, "WorkerGivenUp") == []
    assert "job-worker-3" not in world.pods


def test_nor_where_the_command_cannot_do_with_another_worker() -> None:
    world = start(is_elastic=False)
    use_up(world, "job-worker-1")
    assert "job-worker-3" not in world.pods


def test_nor_by_the_word_of_a_former_launcher() -> None:
    world = start()
    old = world.report
    assert old is not None
    uid = world.pods["job-worker-1"].uid
    world.end("job-launcher", 137, pod_reason="Evicted")
    world.go_on()
    assert world.status.epoch == 2
    world.report = replace(old, used_up={uid: 137})
    world.settle()
    assert told(world, "WorkerGivenUp") == []


def test_a_worker_that_a_scale_in_has_chosen_leaves_for_that() -> None:
    world = start()
    world.add(make_scaling(ScalingKind.IN, "less", pod_names=("job-worker-1",)))
    world.settle()
    use_up(world, "job-worker-1")
    assert find_reason(world, "job-worker-1") != "UsedUp"
    world.go_on()
    assert world.workers == ["job-worker-0", "job-worker-2"]
    assert world.scaling_phase("less") == "ScaleSucceeded"


def fail_again(world: ModelWorld, lives: int = 1) -> timedelta:
    """The newest worker is used up some seconds after it came; how long its place then waits."""
    newest = max(world.workers, key=lambda name: int(name.rpartition("-")[2]))
    world.wait(lives)
    before, asked = set(world.workers), world.now
    use_up(world, newest)
    for _ in range(200):
        if set(world.workers) - before:
            break
        world.wait(1)
        world.settle()
    waited = world.now - asked
    world.run()
    world.settle()
    world.serve()
    world.settle()
    world.reap()
    return waited


@pytest.mark.long
def test_its_place_waits_as_after_a_loss() -> None:
    world = start(20)
    waits = [fail_again(world).total_seconds() for _ in range(12)]
    assert waits[:8] == [0, 0, 1, 3, 7, 15, 31, 59], "it lives for one of 1, 2, 4 ... 60 seconds"
    assert waits[8:] == [59] * 4
    assert world.condition("WorkersFailing") is None


@pytest.mark.long
def test_more_than_three_for_each_in_an_hour_are_not_replaced_and_the_job_goes_on() -> None:
    world = start(2)
    for _ in range(6):
        fail_again(world, lives=120)
    assert world.condition("RanksFailing") is None
    stays = max(world.workers, key=lambda name: int(name.rpartition("-")[2]))
    fail_again(world, lives=120)
    assert stays in world.workers
    assert not world.pods[stays].is_deleting
    assert world.condition("RanksFailing") == "True"
    [message] = told(world, "RanksFailing")
    assert stays in message
    assert len(told(world, "WorkerGivenUp")) == 6
    assert (world.phase(), world.status.completion_time) == ("Running", None)
    world.wait(2 * 3600)
    use_up(world, "job-worker-0")
    assert world.condition("RanksFailing") == "True", "not by time"
    assert "job-worker-0" in world.workers


@pytest.mark.long
def test_a_worker_that_the_platform_takes_is_replaced_then_too() -> None:
    world = start(1)
    for _ in range(4):
        fail_again(world, lives=120)
    assert world.condition("RanksFailing") == "True"
    [name] = world.workers
    world.end(name, 137, pod_reason="Evicted")
    world.go_on()
    assert len(world.workers) == 1
    assert world.workers != [name]


@pytest.mark.long
def test_an_hour_ago_does_not_count() -> None:
    world = start(1)
    for _ in range(12):
        fail_again(world, lives=1300)
    assert world.condition("RanksFailing") is None
    assert world.status.given_up is not None
    assert len(world.status.given_up.moments) == 3


@pytest.mark.long
@pytest.mark.parametrize("has_passed", [False, True])
def test_a_new_command_is_given_new_ones_after_the_hour(*, has_passed: bool) -> None:
    """It uses those that stay; that its launcher failed is no reason to begin to count anew."""
    world = start(1)
    for _ in range(4):
        fail_again(world, lives=120)
    assert world.condition("RanksFailing") == "True"
    world.end("job-launcher", 137, pod_reason="Evicted")
    world.go_on()
    assert world.condition("RanksFailing") == "False"
    [name] = world.workers
    if has_passed:
        world.wait(3600)
    use_up(world, name)
    reasons = [r.reason for r in world.status.workers if r.name == name]
    assert reasons == (["UsedUp"] if has_passed else [])
    assert world.condition("RanksFailing") == ("False" if has_passed else "True")


@pytest.mark.long
def test_what_the_last_command_gave_up_is_not_for_the_pass_that_begins_the_next() -> None:
    world = start(1)
    for _ in range(4):
        fail_again(world, lives=120)
    [name] = world.workers
    told_before = len(told(world, "WorkerGivenUp"))
    world.end("job-launcher", 137, pod_reason="Evicted")
    world.go_on()
    assert world.status.epoch == 2
    assert world.workers == [name]
    assert len(told(world, "WorkerGivenUp")) == told_before
    assert world.status.given_up is None or world.status.given_up.epoch == 1


@pytest.mark.long
def test_so_is_a_job_that_is_resumed() -> None:
    world = start(1)
    for _ in range(4):
        fail_again(world, lives=120)
    world.edit(suspend=True)
    world.go_on()
    world.edit(suspend=False)
    world.go_on()
    assert world.condition("RanksFailing") == "False"


@pytest.mark.long
def test_what_comes_within_a_minute_is_one_moment() -> None:
    world = start(40)
    for index in range(0, 30, 3):
        use_up(world, *(f"job-worker-{index + n}" for n in range(3)))
        world.wait(5)
    assert world.status.given_up is not None
    assert [moment.count for moment in world.status.given_up.moments] == [30]


@pytest.mark.long
def test_a_scale_in_takes_first_who_does_nothing() -> None:
    world = start(1)
    for _ in range(4):
        fail_again(world, lives=120)
    [idle] = world.workers
    world.edit(replicas=2)
    world.go_on()
    world.add(make_scaling(ScalingKind.IN, "less", count=1))
    world.go_on()
    assert idle not in world.workers
    assert len(world.workers) == 1
    assert any("used no more" in message for message in told(world, "Scaling"))


def fail_command(world: ModelWorld) -> None:
    """The launcher's command ends with 1, a moment after."""
    assert world.report is not None
    world.wait(20)
    world.report = replace(world.report, ended=1, is_told_to_end=False)
    end = Termination(1, "Error", "the tail", finished=world.now)
    world.end("job-launcher", 1)
    world.put("job-launcher", termination=end)
    world.settle()


@pytest.mark.parametrize("least", [0, 3])
def test_it_neither_excuses_a_failure_of_the_command_nor_blames_the_platform(least: int) -> None:
    world = start(3, command_least=least)
    use_up(world, "job-worker-1")
    world.settle()
    world.serve()
    world.settle()
    world.reap()
    world.settle()
    assert "job-worker-1" not in world.workers
    assert world.status.shortage is None
    fail_command(world)
    assert world.reason("Failed") == "LauncherFailed"
    assert world.status.failures.infrastructure == 0


def test_a_clock_that_was_ahead_leaves_no_more_moments_than_the_status_takes() -> None:
    world = start(30)
    ahead = [Moment(world.now + timedelta(hours=1, minutes=m), 1) for m in range(MOST_MOMENTS)]
    noted = GivenUp(world.status.epoch, tuple(ahead))
    world.job = replace(world.job, status=replace(world.status, given_up=noted))
    world.settle()
    world.wait(90)
    use_up(world, "job-worker-1")
    assert world.status.given_up is not None
    assert len(world.status.given_up.moments) == MOST_MOMENTS
    assert world.status.given_up.moments[-1].at == world.now
