"""Scalings that meet: two at once, another number in the middle of one, one that is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import gates
from tests.e2e.gates import Gate, Match, open_gate
from tests.e2e.playing import play
from tests.e2e.world import RealWorld, build_job, devcluster, scale_in, scale_out, train

pytestmark = pytest.mark.cluster

JOB = "shared"


@pytest.fixture
def gate(world: RealWorld, tmp_path: Path) -> Iterator[Gate]:
    """The operator's writes in the test's namespace, to be held."""
    with open_gate(world, tmp_path) as gate:
        yield gate


def start(world: RealWorld, workers: int) -> list[str]:
    """A job whose processes run; its workers."""
    world.create(build_job(JOB, command=play(), workers=workers))
    world.wait_for_size(JOB, workers)
    return world.worker_names()


def wait_until_quiet(world: RealWorld, workers: int) -> dict[str, Any]:
    """Until nothing is being scaled, so many workers are there and used; the job's status."""

    def look() -> dict[str, Any]:
        job = world.get("trainingjobs", JOB)
        status: dict[str, Any] = job["status"]
        number = job["spec"]["etReplicaSpecs"]["worker"]["replicas"]
        states = {worker["state"] for worker in status.get("workers", [])}
        is_quiet = "scaling" not in status and states <= {"Gone"}
        names = world.worker_names()
        is_met = number == len(names) == workers and set(status["currentWorkers"]) == set(names)
        return status if is_quiet and is_met and len(world.pods("worker")) == workers else {}

    status = world.wait(look, f"{workers} workers and nothing to do", 90)
    world.wait_for_size(JOB, workers)
    assert status["phase"] == "Running"
    assert status["epoch"] == 1, "the launcher was replaced"
    return status


@pytest.mark.point("two-scale-ins")
def test_two_scale_ins_at_once_take_different_workers_one_after_the_other(world: RealWorld) -> None:
    names = start(world, 4)
    for name in ("one", "two"):
        world.create(scale_in(name, JOB, count=1))
    for name in ("three", "four"):
        world.create(scale_in(name, JOB, pods=[names[0]]))

    ended = {n: world.wait_for_scaling("scaleins", n) for n in ("one", "two", "three", "four")}

    victims = [pod for n in ("one", "two") for pod in ended[n]["toDeletePods"]]
    assert [ended[n]["phase"] for n in ("one", "two")] == ["ScaleSucceeded"] * 2
    assert set(victims) == set(names[2:])
    by_name = {ended[n]["phase"]: ended[n] for n in ("three", "four")}
    assert by_name["ScaleSucceeded"]["toDeletePods"] == [names[0]]
    refusal = by_name["ScaleFailed"]["conditions"][-1]
    assert refusal["reason"] == "UnknownPods"
    assert names[0] in refusal["message"]
    outcomes = [w["result"] for s in ended.values() for w in s.get("workers", [])]
    assert outcomes == ["graceful"] * 3
    spans = sorted(
        (s["startTime"], s["completionTime"]) for s in ended.values() if "startTime" in s
    )
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    wait_until_quiet(world, 1)
    assert world.worker_names() == [names[1]]


@pytest.mark.point("opposite-scalings")
def test_a_scale_in_and_a_scale_out_at_once_leave_a_job_that_loses_no_step(
    world: RealWorld,
) -> None:
    command = train("--steps", "1000", "--step-seconds", "0.3")
    world.create(build_job(JOB, command=command, workers=3))
    world.wait_for_size(JOB, 3)

    world.create(scale_out("grow", JOB, 1))
    world.create(scale_in("shrink", JOB, pods=[f"{JOB}-worker-0"]))

    shrink = world.wait_for_scaling("scaleins", "shrink")
    assert shrink["phase"] == "ScaleSucceeded", shrink
    assert [w["result"] for w in shrink["workers"]] == ["graceful"]
    grow = world.wait_for_scaling("scaleouts", "grow")
    # a ScaleIn does not wait for pods of a ScaleOut that are yet to run
    is_stopped = grow["phase"] == "ScaleFailed"
    assert not is_stopped or grow["conditions"][-1]["reason"] == "Preempted", grow
    number = 2 if is_stopped else 3
    world.wait(lambda: len(world.worker_names()) == number, f"{number} workers are there")
    world.wait_for_size(JOB, number)
    steps = [step.number for step in world.steps(JOB)]
    assert steps == list(range(1, len(steps) + 1))
    wait_until_quiet(world, number)


@pytest.mark.point("scale-in-the-middle")
def test_kubectl_scale_in_the_middle_of_a_scaling_wins(world: RealWorld, gate: Gate) -> None:
    names = start(world, 2)

    # of a ScaleOut whose workers have names and no pods yet
    world.create(scale_out("grow", JOB, 3))
    interrupt(world, gate, gates.creates_pod(f"{JOB}-worker-4"), replicas=3)
    assert_superseded(world, "scaleouts", "grow")
    wait_until_quiet(world, 3)
    assert set(names) < set(world.worker_names())

    # of a ScaleIn that has chosen its victim and has not told anybody
    before = world.worker_names()
    world.create(scale_in("undecided", JOB, count=1))
    interrupt(world, gate, gates.applies_replicas, replicas=4)
    assert_superseded(world, "scaleins", "undecided")
    wait_until_quiet(world, 4)
    assert set(before) < set(world.worker_names()), "a victim that was never told must stay"

    # of a ScaleIn whose victim has left: it is not brought back, others come
    world.create(scale_in("shrink", JOB, pods=[names[0]]))
    interrupt(world, gate, gates.deletes_pod, replicas=5)
    assert_superseded(world, "scaleins", "shrink")
    wait_until_quiet(world, 5)
    assert names[0] not in world.worker_names()


def interrupt(world: RealWorld, gate: Gate, match: Match, *, replicas: int) -> None:
    """`kubectl scale` while the operator is about to do this write."""
    with gate.hold(match) as hold:
        hold.wait("gets there")
        devcluster("kubectl", "-n", world.namespace, "scale", f"trainingjob/{JOB}",
                   f"--replicas={replicas}")  # fmt: skip


def assert_superseded(world: RealWorld, plural: str, name: str) -> None:
    status = world.wait_for_scaling(plural, name)
    assert status["phase"] == "ScaleFailed", status
    assert status["conditions"][-1]["reason"] == "Superseded"


@pytest.mark.point("deleted-scaling")
def test_a_scale_out_that_is_deleted_while_it_runs(world: RealWorld, gate: Gate) -> None:
    names = start(world, 2)
    grow = scale_out("grow", JOB, 1)

    delete_at(world, gate, gates.decides_scaling, grow)
    wait_until_quiet(world, 2)
    delete_at(world, gate, gates.creates_worker, grow)
    wait_until_quiet(world, 2)
    assert world.worker_names() == names
    delete_at(world, gate, gates.records_outcome, grow)
    wait_until_quiet(world, 3)

    world.create(grow)
    assert world.wait_for_scaling("scaleouts", "grow")["phase"] == "ScaleSucceeded"
    wait_until_quiet(world, 4)


@pytest.mark.point("deleted-scaling")
def test_a_scale_in_that_is_deleted_while_it_runs(world: RealWorld, gate: Gate) -> None:
    names = start(world, 4)
    shrink = scale_in("shrink", JOB, count=1)

    delete_at(world, gate, gates.decides_scaling, shrink)
    wait_until_quiet(world, 4)
    assert world.worker_names() == names
    delete_at(world, gate, gates.deletes_pod, shrink)  # its victim has left: that is not undone
    wait_until_quiet(world, 3)
    delete_at(world, gate, gates.records_outcome, shrink)
    wait_until_quiet(world, 2)
    assert world.worker_names() == names[:2]

    world.create(shrink)
    assert world.wait_for_scaling("scaleins", "shrink")["phase"] == "ScaleSucceeded"
    wait_until_quiet(world, 1)


def delete_at(world: RealWorld, gate: Gate, match: Match, scaling: dict[str, Any]) -> None:
    """Create a scaling, and delete it while the operator is about to do this write."""
    with gate.hold(match) as hold:
        world.create(scaling)
        hold.wait("gets there")
        world.delete(scaling["kind"].lower() + "s", scaling["metadata"]["name"])
