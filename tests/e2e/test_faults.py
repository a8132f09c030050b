"""What must not stop a job: a lost worker, a restarted API server, a killed operator."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.operators import Operators, send
from tests.e2e.test_launchers import run_in
from tests.e2e.world import RealWorld, build_job, devcluster, scale_in, train

pytestmark = pytest.mark.cluster


@pytest.mark.point("replaced")
def test_a_killed_worker_is_replaced_under_a_new_name(world: RealWorld) -> None:
    command = train("--steps", "600", "--step-seconds", "0.2")
    command[1:1] = ["--gloo-timeout-seconds", "30"]
    world.create(build_job("loss", command=command, workers=3))
    world.wait_for_size("loss", 3)

    world.core.delete_namespaced_pod("loss-worker-1", world.namespace, grace_period_seconds=0)

    world.wait(lambda: "loss-worker-3" in world.worker_names(), "a replacement is there")
    assert "loss-worker-1" not in world.worker_names()
    last = len(world.steps("loss"))
    world.wait(
        lambda: (s := world.steps("loss"))[-1].size == 3 and len(s) > last + 20,
        "three train again",
        120,
    )
    assert world.status("trainingjobs", "loss")["failures"]["user"] == 0


@pytest.mark.point("given-up")
def test_a_worker_whose_rank_was_killed_is_replaced_though_its_pod_lives(world: RealWorld) -> None:
    command = train("--steps", "600", "--step-seconds", "0.2")
    command[1:1] = ["--gloo-timeout-seconds", "20"]
    world.create(build_job("given-up", command=command, workers=3))
    world.wait_for_size("given-up", 3)

    run_in(world, "given-up-worker-1", "pkill -KILL -f '[t]rain.py'")

    told = world.wait(
        lambda: [message for _, why, message in world.events() if why == "WorkerGivenUp"], "told"
    )
    assert "given-up-worker-1" in told[0]
    assert "exit code 137" in told[0]
    world.wait(lambda: "given-up-worker-3" in world.worker_names(), "a replacement is there")
    last = len(world.steps("given-up"))
    world.wait(
        lambda: (s := world.steps("given-up"))[-1].size == 3 and len(s) > last + 20,
        "three train again",
        120,
    )
    world.wait(lambda: "given-up-worker-1" not in world.worker_names(), "it has left")


@pytest.mark.alone
@pytest.mark.point("api-restart")
def test_the_api_server_restarts_while_a_job_trains_and_the_job_notices_nothing(
    world: RealWorld,
) -> None:
    world.create(build_job("calm", command=train("--steps", "150", "--step-seconds", "0.3")))
    world.wait_for_size("calm", 2)
    uids = {p.metadata.uid for p in world.pods()}

    devcluster("fault", "kill-apiserver")
    devcluster("fault", "restart-apiserver")

    world.wait_for_phase("calm", "Succeeded", timeout=180)
    assert world.sizes("calm") == [2]
    assert [s.number for s in world.steps("calm")] == list(range(1, 151))
    status = world.status("trainingjobs", "calm")
    assert status["epoch"] == 1
    exits = world.report("calm")["exits"].values()
    assert all(ended["code"] == 0 for ends in exits for ended in ends)
    assert uids >= {p.metadata.uid for p in world.pods()}


@pytest.mark.alone
@pytest.mark.point("operator-killed")
def test_an_operator_killed_in_the_middle_of_a_scale_in_finishes_with_the_same_victims(
    world: RealWorld,
) -> None:
    command = train("--steps", "300", "--step-seconds", "0.3", "--commit-seconds", "10")
    world.create(build_job("resumed", command=command, workers=3))
    world.wait_for_size("resumed", 3)

    world.create(scale_in("leave", "resumed", count=1))
    victims = world.wait(
        lambda: [
            v["name"]
            for v in (world.status("trainingjobs", "resumed").get("scaling") or {}).get(
                "victims", []
            )
        ],
        "the victims are recorded",
    )
    send(Operators().wait_for_leader(), signal.SIGKILL)

    status = world.wait_for_scaling("scaleins", "leave", timeout=180)
    assert status["phase"] == "ScaleSucceeded", status
    assert status["toDeletePods"] == victims
    assert [w["result"] for w in status["workers"]] == ["graceful"]
    world.wait_for_size("resumed", 2)
    assert set(world.worker_names()).isdisjoint(victims)
