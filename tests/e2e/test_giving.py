"""Who gives way for whom, and what it costs: nobody loses a step, nobody falls below his least."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.light_jobs import wait_for_condition
from tests.e2e.pools import Pool, find_admission
from tests.e2e.world import IMAGE, RealWorld, train

pytestmark = pytest.mark.cluster

LONG = ("--steps", "100000", "--step-seconds", "0.2")
FEW = 5
SLOW = 180
"""Seconds for a start where many train at once: importing Horovod and torch is work."""
ELASTIC = train(*LONG, np=1, maximum=2)


@pytest.mark.point("reclaim")
def test_a_queue_takes_its_share_back_from_one_that_borrows_it(
    world: RealWorld, pool: Pool
) -> None:
    pool.offer(1, 1)
    borrowing, owning = pool.open_queue("borrowing"), pool.open_queue("owning")
    world.create(pool.build("borrower", borrowing, (1, 2), ELASTIC))
    world.wait_for_size("borrower", 2, SLOW)

    world.create(pool.build("owner", owning, (1, 2), ELASTIC))

    world.wait_for_size("owner", 1, SLOW)
    world.wait_for_size("borrower", 1)
    assert find_admission(world, "owner")["workers"] == 1, "each has half"
    for job in ("borrower", "owner"):
        assert_nothing_was_lost(world, job)


@pytest.mark.point("evicted")
def test_a_job_that_was_evicted_goes_on_from_its_checkpoint(
    world: RealWorld, pool: Pool, tmp_path: Path
) -> None:
    pool.offer(1, 1)
    queue, urgent = pool.open_queue("queue"), pool.open_class("urgent", 1000)
    folder = {"name": "kept", "hostPath": {"path": str(tmp_path), "type": "Directory"}}
    command = train(*LONG, "--checkpoint", "/kept/state", np=1, maximum=1)
    job = pool.build("low", queue, (1, 1), command, volumes=[folder])
    [container] = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "kept", "mountPath": "/kept"}]
    world.create(job)
    world.wait(lambda: len(world.steps("low")) > FEW, "some steps are trained", SLOW)
    before = find_admission(world, "low")
    pool.age("low")

    world.create(pool.build("high", queue, (2, 2), priorityClassName=urgent))
    wait_for_condition(world, "high", "Running")
    assert wait_for_condition(world, "low", "Admitted", "False")
    assert find_admission(world, "low")["queuedAt"] == before["queuedAt"], "its old place in line"
    world.delete("trainingjobs", "high")

    world.wait_for_size("low", 1, SLOW)
    numbers = [step.number for step in world.steps("low")]
    assert numbers[0] > FEW
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert not any(world.status("trainingjobs", "low")["failures"].values())


@pytest.mark.point("big-gang")
def test_elastic_jobs_shrink_for_a_large_gang_and_none_below_its_least(
    world: RealWorld, pool: Pool
) -> None:
    pool.offer(2, 2)
    queue = pool.open_queue("queue")
    for name in ("small", "little"):
        world.create(pool.build(name, queue, (1, 2), ELASTIC))
    for name in ("small", "little"):
        world.wait_for_size(name, 2, SLOW)

    brief = train("--steps", "10", "--step-seconds", "0.2", np=2, minimum=2, maximum=2)
    world.create(pool.build("large", queue, (2, 2), brief))

    world.wait_for_phase("large", "Running", timeout=SLOW)
    for name in ("small", "little"):
        assert find_admission(world, name)["workers"] == 1
    world.wait_for_phase("large", "Succeeded", timeout=SLOW)
    for name in ("small", "little"):
        world.wait_for_size(name, 2, SLOW)  # what the large one has left is theirs again
        assert {step.size for step in world.steps(name)} == {1, 2}
        assert_nothing_was_lost(world, name)


@pytest.mark.point("services-first")
def test_workers_make_room_for_a_service_and_come_back_after_it(
    world: RealWorld, pool: Pool
) -> None:
    pool.offer(3)
    queue, urgent = pool.open_queue("queue"), pool.open_class("urgent", 1000)
    world.create(pool.build("elastic", queue, (1, 3), train(*LONG, np=1, maximum=3)))
    world.wait_for_size("elastic", 3, SLOW)

    world.apps.create_namespaced_deployment(world.namespace, build_service(pool, urgent))

    world.wait(lambda: is_ready(world), "the service runs")  # who is faster: kube-scheduler, or we
    world.wait(lambda: world.steps("elastic")[-1].size < 3, "it trains with fewer workers")
    world.apps.delete_namespaced_deployment("service", world.namespace)
    world.wait_for_size("elastic", 3, SLOW)
    assert_nothing_was_lost(world, "elastic")


def assert_nothing_was_lost(world: RealWorld, job: str) -> None:
    """Its steps have no gap and no repetition, and its first launcher still runs."""
    numbers = [step.number for step in world.steps(job)]
    assert numbers == list(range(1, len(numbers) + 1)), "a resize costs no step"
    assert world.status("trainingjobs", job)["epoch"] == 1


def build_service(pool: Pool, priority_class: str) -> dict[str, Any]:
    """A Deployment of a pod that takes a seat."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "resources": pool.request(1),
    }
    spec = {
        "containers": [container],
        "priorityClassName": priority_class,
        "terminationGracePeriodSeconds": 0,
    }
    labels = {"app": "service"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": "service"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def is_ready(world: RealWorld) -> bool:
    status = world.apps.read_namespaced_deployment_status("service", world.namespace).status
    return bool(status.ready_replicas)
