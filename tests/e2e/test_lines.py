"""Who waits in line, for what, and who goes on meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.histories import History
from tests.e2e.light_jobs import find_pods, wait_for_condition
from tests.e2e.pools import Pool, find_admission
from tests.e2e.test_giving import ELASTIC, SLOW, assert_nothing_was_lost
from tests.e2e.world import GROUP, ROOT, RealWorld, find_condition, scale_in, scale_out, train

pytestmark = pytest.mark.cluster

ARENA = ROOT / "examples" / "compatible" / "arena.yaml"
BESIDE_NOBODY = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"no-such": "pod"}},
            }
        ]
    }
}
"""What et-scheduler does not model: it believes that there is room, and nobody finds a node."""


@pytest.mark.point("fallback")
def test_a_gang_that_nobody_can_place_is_taken_back_and_holds_nobody_up(
    world: RealWorld, pool: Pool, history: History
) -> None:
    pool.offer(1, 1)
    queue = pool.open_queue("queue")
    world.create(pool.build("nowhere", queue, (2, 2), affinity=BESIDE_NOBODY))
    world.wait(lambda: len(world.worker_names()) == 2, "its workers look for a node")
    world.create(pool.build("next", queue, (2, 2), build_brief_training(2)))
    wait_for_condition(world, "next", "Admitted", "False")

    world.wait_for_phase("next", "Succeeded", timeout=SLOW)

    assert {step.size for step in world.steps("next")} == {2}
    told = ("NotBound", "of 2 workers 0 had found a node after 60 s")
    assert told in history.list_words("nowhere")
    assert find_pods(world, "nowhere") == {}


@pytest.mark.point("quota-in-queue")
def test_who_may_not_have_its_pods_is_told_by_whom_and_others_start(
    world: RealWorld, pool: Pool
) -> None:
    pool.offer(2, 2)
    queue = pool.open_queue("queue")
    limit_seats(world, pool, 1)
    job = pool.build("wide", queue, (1, 1), build_brief_training(1))
    [container] = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"]
    container["resources"] = pool.request(2)
    world.create(job)
    message = wait_for_refusal(world, "wide")
    assert "exceeded quota: seats" in message
    assert pool.resource in message

    world.create(pool.build("narrow", queue, (1, 1), build_brief_training(1)))
    world.wait_for_phase("narrow", "Succeeded", timeout=SLOW)
    limit_seats(world, pool, 3)

    world.wait_for_phase("wide", "Succeeded", timeout=SLOW)
    for name in ("narrow", "wide"):
        assert_nothing_was_lost(world, name)


@pytest.mark.point("quota-in-queue")
def test_a_gang_of_which_a_quota_refuses_some_is_taken_back(
    world: RealWorld, pool: Pool, history: History
) -> None:
    pool.offer(1, 1)
    queue = pool.open_queue("queue")
    limit_seats(world, pool, 1)
    world.create(pool.build("half", queue, (2, 2)))
    world.wait(lambda: len(world.worker_names()) == 1, "the quota has room for one of two")
    world.create(pool.build("next", queue, (1, 1), build_brief_training(1)))
    wait_for_condition(world, "next", "Admitted", "False")

    # A gang of another test may hold both nodes meanwhile: then the first is tried once more.
    world.wait_for_phase("next", "Succeeded", timeout=SLOW + 60)

    told = ("NeverCreated", "of 2 workers the operator had created 1 after 60 s")
    assert told in history.list_words("half")


@pytest.mark.point("priority")
def test_the_priority_that_arena_sets_decides_who_is_first(world: RealWorld, pool: Pool) -> None:
    pool.offer(1, 1)
    queue, urgent = pool.open_queue("queue"), pool.open_class("urgent", 1000)
    world.create(pool.build("first", queue, (2, 2)))
    wait_for_condition(world, "first", "Running")
    world.create(pool.build("ordinary", queue, (2, 2)))
    wait_for_condition(world, "ordinary", "Admitted", "False")

    world.create(build_arenas(pool, queue, urgent))

    line = [f"{world.namespace}/{name}" for name in ("from-arena", "ordinary")]
    world.wait(lambda: read_line(world, queue) == line, "who came later is first")
    world.delete("trainingjobs", "first")
    world.wait_for_phase("from-arena", "Running")
    assert world.phase("ordinary") == "Waiting"


@pytest.mark.point("scaling-in-queue")
def test_a_scaling_of_a_job_in_a_queue_is_told_what_to_change(world: RealWorld, pool: Pool) -> None:
    pool.offer(1, 1)
    job = pool.build("held", pool.open_queue("queue"), (1, 2), ELASTIC)
    job["spec"]["elasticity"] = "Auto"
    world.create(job)
    world.wait_for_size("held", 2, SLOW)
    before = world.worker_names()

    world.create(scale_in("less", "held", count=1))
    world.create(scale_out("more", "held", 1))

    for plural, name in (("scaleins", "less"), ("scaleouts", "more")):
        told = world.wait_for_scaling(plural, name)["conditions"][-1]
        assert (told["type"], told["reason"]) == ("ScaleFailed", "InQueue")
        assert "change its minReplicas and maxReplicas, or worker.replicas" in told["message"]
    assert world.worker_names() == before
    assert find_admission(world, "held")["workers"] == 2
    seen = len(world.steps("held"))
    world.wait(lambda: len(world.steps("held")) > seen, "it trains on")
    assert world.steps("held")[-1].size == 2
    assert_nothing_was_lost(world, "held")


@pytest.mark.point("scaling-in-queue")
def test_a_fixed_job_is_scaled_within_its_queue(world: RealWorld, pool: Pool) -> None:
    pool.offer(2, 2)
    queue = pool.open_queue("queue", limit=2)
    for name in ("own", "other"):
        job = pool.build(name, queue, (1, 1), ELASTIC)
        job["spec"]["elasticity"] = "Fixed"
        job["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = 2
        world.create(job)
    for name in ("own", "other"):
        world.wait_for_size(name, 1, SLOW)

    world.create(scale_out("more", "own", 1))
    assert "once et-scheduler lets the job have as many" in wait_for_condition(
        world, "own", "Scaling"
    )
    world.wait(lambda: read_replicas(world, "own") == 2, "et-scheduler is asked for another one")
    assert len(world.worker_names()) == 2, "one of each"
    world.delete("trainingjobs", "other")
    assert world.wait_for_scaling("scaleouts", "more")["phase"] == "ScaleSucceeded"
    world.wait_for_size("own", 2, SLOW)

    world.create(scale_in("less", "own", count=1))
    assert world.wait_for_scaling("scaleins", "less")["phase"] == "ScaleSucceeded"
    world.wait(lambda: find_admission(world, "own")["workers"] == 1, "its seat is given back")
    world.wait_for_size("own", 1)
    assert_nothing_was_lost(world, "own")


def build_brief_training(size: int) -> list[str]:
    """The command of a job that trains ten steps with so many workers."""
    return train("--steps", "10", "--step-seconds", "0.2", np=size, minimum=size, maximum=size)


def read_replicas(world: RealWorld, job: str) -> int:
    """What its spec says."""
    worker = world.get("trainingjobs", job)["spec"]["etReplicaSpecs"]["worker"]
    replicas: int = worker["replicas"]
    return replicas


def limit_seats(world: RealWorld, pool: Pool, seats: int) -> None:
    """A quota of so many; the API server enforces it when this returns."""
    name, amounts = "seats", {f"requests.{pool.resource}": str(seats)}
    body = {"metadata": {"name": name}, "spec": {"hard": amounts}}
    if world.core.list_namespaced_resource_quota(world.namespace).items:
        world.core.patch_namespaced_resource_quota(name, world.namespace, body)
    else:
        world.core.create_namespaced_resource_quota(world.namespace, body)
    world.wait(
        lambda: (
            world.core.read_namespaced_resource_quota(name, world.namespace).status.hard == amounts
        ),
        "the quota is in force",
    )


def wait_for_refusal(world: RealWorld, job: str) -> str:
    """Until the job says that its pods would not be created; in whose words."""

    def look() -> str:
        told = find_condition(world.status("trainingjobs", job), "Admitted")
        return str(told["message"]) if told.get("reason") == "PodsRefused" else ""

    return world.wait(look, f"{job} is told that its pods would be refused")


def build_arenas(pool: Pool, queue: str, priority_class: str) -> dict[str, Any]:
    """The job of `arena submit etjob --priority`, in a queue."""
    job: dict[str, Any] = next(yaml.safe_load_all(Path(ARENA).read_text("utf-8")))
    job["spec"]["queue"] = queue
    template = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
    template["priorityClassName"] = priority_class
    template["containers"][0]["resources"] = pool.request(1)
    return job


def read_line(world: RealWorld, queue: str) -> list[str]:
    """Who waits in it, the first first."""
    place = (GROUP, "v1alpha1", "trainingqueues", queue)
    status = world.custom.get_cluster_custom_object(*place).get("status") or {}
    line: list[str] = status.get("line") or []
    return line
