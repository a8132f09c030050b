"""Scalings that are refused, wait, are overtaken, time out, or run a script."""

from __future__ import annotations

import pytest

from tests.e2e.world import RealWorld, build_job, find_condition, scale_in, scale_out, train

pytestmark = pytest.mark.cluster

LONG = ("--steps", "2000", "--step-seconds", "0.3")
NOWHERE = {"nodeSelector": {"no-such": "node"}}


def start(world: RealWorld, name: str, *, workers: int = 2, **spec: object) -> None:
    job = build_job(name, command=train(*LONG), workers=workers, **spec)
    job["metadata"]["annotations"] = {"kai.alibabacloud.com/scaling-scripts": "environment"}
    world.create(job)
    world.wait_for_size(name, workers)


def make_unschedulable(world: RealWorld, job: str) -> None:
    """Workers made from now on find no node."""
    found = world.get("trainingjobs", job)
    template = found["spec"]["etReplicaSpecs"]["worker"]["template"]
    template["spec"].update(NOWHERE)
    world.patch_job(job, {"spec": {"etReplicaSpecs": {"worker": {"template": template}}}})


@pytest.mark.point("below-min")
def test_a_scale_in_below_min_is_refused_and_nothing_changes(world: RealWorld) -> None:
    start(world, "floor", workers=2)
    before = world.worker_names()
    job = world.get("trainingjobs", "floor")

    world.create(scale_in("too-much", "floor", count=2))

    status = world.wait_for_scaling("scaleins", "too-much")
    assert status["phase"] == "ScaleFailed"
    assert "minReplicas" in status["conditions"][-1]["message"]
    assert world.worker_names() == before
    after = world.get("trainingjobs", "floor")
    assert after["spec"] == job["spec"]
    assert world.steps("floor")[-1].size == 2


@pytest.mark.point("pending-victim")
def test_a_worker_that_is_still_pending_leaves_first(world: RealWorld) -> None:
    start(world, "hopeless")
    make_unschedulable(world, "hopeless")
    world.patch_job("hopeless", {"spec": {"etReplicaSpecs": {"worker": {"replicas": 3}}}})
    world.wait(lambda: len(world.worker_names()) == 3, "the third worker's pod is there")

    world.create(scale_in("give-up", "hopeless", count=1))

    status = world.wait_for_scaling("scaleins", "give-up")
    assert status["phase"] == "ScaleSucceeded", status
    assert status["toDeletePods"] == ["hopeless-worker-2"]
    world.wait(lambda: len(world.worker_names()) == 2, "two workers are left")
    assert world.sizes("hopeless") == [2]


@pytest.mark.point("preempted")
def test_a_scale_in_does_not_wait_behind_a_scale_out_that_waits_for_pods(world: RealWorld) -> None:
    start(world, "queue")
    make_unschedulable(world, "queue")
    world.create(scale_out("grow", "queue", 2))
    world.wait(lambda: len(world.worker_names()) == 4, "the pods of the ScaleOut are there")

    world.create(scale_in("shrink", "queue", pods=["queue-worker-1"]))

    status = world.wait_for_scaling("scaleins", "shrink")
    assert status["phase"] == "ScaleSucceeded", status
    grow = world.wait_for_scaling("scaleouts", "grow")
    assert grow["phase"] == "ScaleFailed"
    assert grow["conditions"][-1]["reason"] == "Preempted"
    world.wait(lambda: world.worker_names() == ["queue-worker-0"], "one worker is left")
    world.wait_for_size("queue", 1)


@pytest.mark.point("unschedulable")
def test_a_scale_out_that_cannot_be_scheduled_times_out_and_gives_back(world: RealWorld) -> None:
    start(world, "full")
    make_unschedulable(world, "full")

    world.create(scale_out("grow", "full", 2, timeout=8))

    status = world.wait_for_scaling("scaleouts", "grow")
    assert status["phase"] == "ScaleFailed"
    assert status["conditions"][-1]["reason"] == "TimedOut"
    world.wait(
        lambda: world.worker_names() == ["full-worker-0", "full-worker-1"],
        "the pods are given back",
    )
    spec = world.get("trainingjobs", "full")["spec"]
    assert spec["etReplicaSpecs"]["worker"]["replicas"] == 2
    assert world.sizes("full") == [2]


@pytest.mark.point("script-success")
def test_the_script_of_a_scaling_runs_with_its_environment_and_the_pods_names(
    world: RealWorld,
) -> None:
    start(world, "scripted")

    world.create(
        scale_out(
            "grow",
            "scripted",
            1,
            script="/examples/scripts/announce.sh",
            env=[{"name": "GREETING", "value": "good morning"}],
        )
    )

    status = world.wait_for_scaling("scaleouts", "grow")
    assert status["phase"] == "ScaleSucceeded", status
    assert "good morning: scripted-worker-2:1" in status["scriptOutput"]
    types = [c["type"] for c in status["conditions"]]
    assert "ScriptExecuted" in types


@pytest.mark.point("script-failure")
def test_a_script_that_fails_is_tried_again_and_then_the_scaling_fails(world: RealWorld) -> None:
    start(world, "clumsy")

    world.create(
        scale_out(
            "grow",
            "clumsy",
            1,
            script="/examples/scripts/announce.sh",
            env=[{"name": "FAIL_WITH", "value": "7"}],
            backoffLimit=1,
        )
    )

    status = world.wait_for_scaling("scaleouts", "grow")
    assert status["phase"] == "ScaleFailed"
    assert status["conditions"][-1]["reason"] == "ScriptFailed"
    assert status["scriptAttempts"] == 2
    assert "7" in status["conditions"][-1]["message"]
    assert find_condition(world.status("trainingjobs", "clumsy"), "Failed").get("status") != "True"
    assert world.phase("clumsy") == "Running"
