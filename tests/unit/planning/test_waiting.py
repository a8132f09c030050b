"""No wait is longer than it is, whatever the clocks say that were read before."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta

import pytest

from et_operator.model.pods import Node
from et_operator.model.statuses import JobStatus, ScalingKind
from et_operator.planning.waiting import PAUSE, set_clocks_right
from tests.planning_makers import CORDON, START, ModelWorld, make_job, make_scaling
from tests.unit.codec.examples import FULL_JOB_STATUS

HOUR = timedelta(hours=1)
SAID = {".notices[0].deadline", ".launcher_move.deadline"}


def list_times(value: object, path: str = "") -> dict[str, datetime]:
    """Every time in a status, by its path."""
    if isinstance(value, datetime):
        return {path: value}
    if isinstance(value, tuple):
        found = [list_times(item, f"{path}[{i}]") for i, item in enumerate(value)]
    elif is_dataclass(value) and not isinstance(value, type):
        found = [list_times(getattr(value, f.name), f"{path}.{f.name}") for f in fields(value)]
    else:
        return {}
    return {name: time for times in found for name, time in times.items()}


def test_every_recorded_time_that_lies_ahead_is_set_right() -> None:
    recorded = list_times(FULL_JOB_STATUS)
    assert {".start_time", ".completion_time", ".launch_backoff.at"} <= set(recorded)
    assert {".scaling.started", ".scaling.script.next_at"} <= set(recorded)
    now = min(recorded.values()) - HOUR
    right = list_times(set_clocks_right(FULL_JOB_STATUS, now))
    assert set(right) == set(recorded)
    late = {path for path, moment in right.items() if moment > now}
    assert late == {".scaling.script.next_at", *SAID}
    assert right[".scaling.script.next_at"] == now + PAUSE


def test_a_status_without_such_times_is_the_very_same() -> None:
    now = max(list_times(FULL_JOB_STATUS).values()) + HOUR
    assert set_clocks_right(FULL_JOB_STATUS, now) is FULL_JOB_STATUS
    assert set_clocks_right(JobStatus(), START) == JobStatus()


def run_ahead(world: ModelWorld) -> None:
    """The leader's clock was an hour ahead until now; its successor's is right."""
    world.set_back(HOUR)


def start(**spec: object) -> ModelWorld:
    world = ModelWorld(make_job(3, **({"minimum": 1} | spec)))
    world.start()
    world.wait(100)
    world.settle()
    world.now += HOUR
    return world


def test_a_loss_from_ahead_holds_up_its_replacement_for_its_own_wait() -> None:
    world = start()
    for _ in range(5):
        world.end(world.workers[-1], 1, pod_reason="OutOfcpu")
        world.settle()
        world.wait(8)
        world.settle()
    world.end(world.workers[-1], 1, pod_reason="OutOfcpu")
    world.settle()
    assert len(world.workers) == 2
    run_ahead(world)
    world.settle()
    world.wait(16)
    world.settle()
    assert len(world.workers) == 3


def test_a_drain_from_ahead_ends_after_its_time_and_not_before() -> None:
    world = start(drain_timeout=timedelta(seconds=100))
    world.add(make_scaling(ScalingKind.IN, "less", count=1))
    world.settle()
    world.serve(close=False)
    world.settle()
    run_ahead(world)
    world.settle()
    world.wait(99)
    world.settle()
    assert not world.pods["job-worker-2"].is_deleting
    world.wait(1)
    world.settle()
    assert world.pods["job-worker-2"].is_deleting


def test_a_launchers_restart_from_ahead_comes_after_its_own_wait() -> None:
    world = start()
    world.end("job-launcher", 137, pod_reason="Evicted")
    world.step()
    run_ahead(world)
    world.settle()
    world.wait(1)
    world.settle()
    assert "job-launcher-r1" in world.pods


def test_a_deadline_from_ahead_is_counted_from_now() -> None:
    world = ModelWorld(make_job(2, active_deadline=timedelta(seconds=500)))
    world.now += HOUR
    world.settle()
    run_ahead(world)
    world.settle()
    assert world.requeue_after is not None
    world.wait(500)
    world.settle()
    assert world.reason("Failed") == "DeadlineExceeded"


def test_a_finished_job_goes_in_its_time() -> None:
    world = ModelWorld(make_job(2, ttl_after_finished=timedelta(seconds=50)))
    world.start()
    world.now += HOUR
    world.finish(0)
    world.settle()
    run_ahead(world)
    world.reap()
    world.settle()
    world.wait(50)
    world.settle()
    assert world.job_is_gone


@pytest.mark.parametrize("ahead", [timedelta(seconds=2), HOUR])
def test_a_kubelet_whose_clock_is_ahead_does_not_keep_its_worker_out(ahead: timedelta) -> None:
    world = ModelWorld(make_job(3, minimum=1))
    world.settle()
    world.run("job-launcher", "job-worker-0")
    world.put("job-worker-0", started=world.now + ahead)
    world.wait(7)
    world.settle()
    assert set(world.states()) == {"job-worker-0"}


def test_a_view_from_ahead_forces_nobody_later() -> None:
    world = ModelWorld(make_job(3, minimum=1, drain_timeout=timedelta(seconds=100)))
    world.start()
    world.add(make_scaling(ScalingKind.IN, "less", count=1))
    world.settle()
    world.complete_since = world.now + HOUR
    world.wait(10)
    world.serve(close=False)
    world.settle()
    world.wait(100)
    world.settle()
    assert world.pods["job-worker-2"].is_deleting


def test_nothing_is_set_right_twice() -> None:
    world = start()
    world.nodes["n1"] = replace(world.nodes["n1"], notice=CORDON)
    world.nodes["n2"] = Node("n2")
    world.end("job-worker-2", 1)
    world.settle()
    run_ahead(world)
    world.settle()
    before = world.writes
    world.settle()
    assert world.writes == before


def test_a_clock_that_was_ahead_for_a_moment_ends_no_job() -> None:
    world = ModelWorld(make_job(2, active_deadline=timedelta(days=1)))
    world.start()
    world.wait(60)
    world.wait(172800)
    world.complete_since = world.now  # as state/coverage.py says where the clock jumps ahead
    world.settle()
    world.wait(59)
    assert world.step().requeue_after == timedelta(seconds=1)
    assert world.phase() == "Running"
    world.wait(1)  # it was not set right: two days have passed
    world.settle()
    assert world.reason("Failed") == "DeadlineExceeded"


def test_nor_does_it_delete_one_for_its_age() -> None:
    world = ModelWorld(make_job(2, ttl_after_finished=timedelta(days=1)))
    world.start()
    world.finish(0)
    world.settle()
    world.wait(172800)
    world.complete_since = world.now
    world.settle()
    assert not world.job_is_gone
    world.wait(60)
    world.settle()
    assert world.job_is_gone


# ------------------------------------------------------------------ a clock that is behind
def lag(world: ModelWorld, behind: timedelta) -> None:
    """The next leader's clock is behind for two minutes, and then it is right."""
    right = world.now
    world.now = world.complete_since = right - behind
    for _ in range(4):
        world.settle()
        world.wait(30)
    world.now = world.complete_since = right + timedelta(minutes=2)
    world.settle()


def test_a_clock_that_was_behind_ends_no_job_before_its_deadline() -> None:
    world = ModelWorld(make_job(2, active_deadline=HOUR))
    world.start()
    world.wait(60)
    lag(world, timedelta(minutes=70))
    world.wait(60)
    world.settle()
    assert world.phase() == "Running"
    world.wait(3600)
    world.settle()
    assert world.reason("Failed") == "DeadlineExceeded"


def test_nor_ends_it_a_worker_that_leaves_and_trains() -> None:
    world = start()
    world.end("job-worker-0", 137)
    world.settle()
    assert "job-worker-3" in world.pods, "the server's time is told"
    world.run()
    victim = ("job-worker-2",)
    world.add(make_scaling(ScalingKind.IN, "less", created=world.now, pod_names=victim))
    world.settle()
    world.serve(close=False)
    world.settle()
    lag(world, timedelta(minutes=20))
    world.wait(400)
    world.settle()
    assert not world.pods["job-worker-2"].is_deleting
    world.wait(200)
    world.settle()
    assert world.pods["job-worker-2"].is_deleting


def test_what_has_taken_no_time_by_a_clock_that_is_behind_has_taken_none() -> None:
    world = start()
    world.add(make_scaling(ScalingKind.OUT, "more", created=world.now, count=1))
    world.settle()
    world.wait(5)
    world.run()
    world.settle()
    world.serve()
    world.now -= timedelta(minutes=20)
    world.settle()
    assert world.status.resize_seconds == (0,)
    world.add(make_scaling(ScalingKind.IN, "less", created=world.now, count=1))
    world.now += timedelta(minutes=20)
    world.settle()
    world.serve()
    world.now -= timedelta(minutes=20)
    world.go_on(2)
    assert [outcome.seconds for outcome in world.scalings["less-uid"].status.workers] == [0]
