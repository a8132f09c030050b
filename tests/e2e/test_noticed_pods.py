"""Notices that come when something else goes on, by the word on the pods themselves."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from datetime import timedelta

import pytest

from et_kube.clock import SystemClock
from et_kube.notices import LEAVING_AT
from et_kube.times import format_time
from tests.e2e.light_jobs import find_pods
from tests.e2e.operators import Operators, send
from tests.e2e.test_drained_nodes import count_resets
from tests.e2e.world import RealWorld, build_job, devcluster, scale_in, scale_out, train

pytestmark = pytest.mark.cluster

JOB = "noticed"
SOON = timedelta(seconds=90)
"""Enough for another worker to come before, on a busy machine too."""


@pytest.mark.point("noticed-busy")
def test_half_of_the_workers_change_places_in_at_most_two_resets(world: RealWorld) -> None:
    start(world, 4)
    say(world, SOON, 1, 3)
    wait_until_moved(world, {0, 2, 4, 5})
    assert_nothing_is_lost(world)
    assert set(world.sizes(JOB)) == {4}, "the number of workers has never fallen"
    assert count_resets(world, JOB) <= 2


@pytest.mark.point("noticed-busy")
def test_a_notice_during_a_scaling_moves_one_and_the_scaling_has_its_end(world: RealWorld) -> None:
    start(world, 2)
    world.create(scale_out("more", JOB, 2))
    say(world, SOON, 1)
    assert world.wait_for_scaling("scaleouts", "more")["phase"] == "ScaleSucceeded"
    world.wait(lambda: "noticed-worker-1" not in find_pods(world, JOB), "the first has moved")
    wait_for_workers(world, 4)

    kept = sorted(int(name.rpartition("-")[2]) for name in world.worker_names())
    world.create(scale_in("less", JOB, count=2))
    say(world, SOON, kept[1])
    assert world.wait_for_scaling("scaleins", "less")["phase"] == "ScaleSucceeded"
    world.wait(lambda: f"{JOB}-worker-{kept[1]}" not in find_pods(world, JOB), "the next has moved")
    wait_for_workers(world, 2)
    assert_nothing_is_lost(world)


@pytest.mark.point("noticed-busy")
def test_a_notice_before_anybody_trains_costs_the_start_and_nothing_else(world: RealWorld) -> None:
    world.create(build(2))
    world.wait(lambda: len(world.worker_names()) == 2, "the workers are created")
    say(world, timedelta(), 1)
    wait_until_moved(world, {0, 2})
    assert_nothing_is_lost(world)


@pytest.mark.alone
@pytest.mark.point("noticed-busy")
def test_a_notice_is_heard_by_the_next_operator_and_after_an_outage(world: RealWorld) -> None:
    start(world, 2)
    say(world, SOON, 1)
    operators = Operators()
    send(operators.wait_for_leader(), signal.SIGKILL)
    devcluster("fault", "restart-apiserver")
    wait_until_moved(world, {0, 2})
    assert_nothing_is_lost(world)
    assert count_resets(world, JOB) <= 2
    operators.renew()


def build(workers: int) -> dict[str, object]:
    command = train("--steps", "100000", "--step-seconds", "0.2", np=workers, minimum=1)
    return build_job(JOB, command=command, workers=workers)


def start(world: RealWorld, workers: int) -> None:
    """So many train."""
    world.create(build(workers))
    world.wait_for_size(JOB, workers, 150)


def say(world: RealWorld, span: timedelta, *indexes: int, job: str = JOB) -> None:
    """These workers end so soon, all at one moment."""
    moment = format_time((SystemClock().now() + span).replace(microsecond=0))
    body = {"metadata": {"annotations": {LEAVING_AT: moment}}}
    for index in indexes:
        world.core.patch_namespaced_pod(f"{job}-worker-{index}", world.namespace, body)


def wait_until_moved(world: RealWorld, indexes: Iterable[int]) -> None:
    """Until exactly these workers are there, and all of them train."""
    names = [f"{JOB}-worker-{index}" for index in sorted(indexes)]
    world.wait(lambda: sorted(world.worker_names()) == names, f"the workers are {names}", 180)
    wait_for_workers(world, len(names))


def wait_for_workers(world: RealWorld, count: int) -> None:
    """Until so many train, after what was said so far."""
    before = len(world.steps(JOB))
    world.wait(
        lambda: (steps := world.steps(JOB)[before:]) and steps[-1].size == count,
        f"{count} train",
        180,
    )


def assert_nothing_is_lost(world: RealWorld) -> None:
    """No step, no launcher, and no failure."""
    numbers = [step.number for step in world.steps(JOB)]
    assert numbers == list(range(1, len(numbers) + 1))
    status = world.status("trainingjobs", JOB)
    assert status["epoch"] == 1
    assert not status["failures"].get("user")
