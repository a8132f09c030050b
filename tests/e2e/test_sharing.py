"""Jobs that share what a queue may have, with real Horovod, real pods and et-scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.histories import Bounds, History, judge
from tests.e2e.pools import create_queue, delete_queue, find_admission
from tests.e2e.world import RealWorld, build_job, find_condition, train

pytestmark = pytest.mark.cluster

FOUR_WORKERS = "460m"
"""More CPU than that the jobs of such a queue never have together."""


@pytest.fixture
def queue(world: RealWorld, history: History) -> Iterator[str]:
    """The name of a queue that has room for four workers and a launcher, or two and two of each.

    What must hold has held all the time.
    """
    name = f"q-{world.namespace}"[:60].rstrip("-")
    create_queue(world, name, limits={"cpu": FOUR_WORKERS})
    yield name
    delete_queue(world, name)
    judge(history, Bounds.of_cpu(world, **{name: FOUR_WORKERS}))


def build_member(name: str, queue: str, *, least: int, most: int, steps: int) -> dict[str, Any]:
    """A job in the queue; each worker takes a tenth of a CPU, the launcher's broker a fiftieth."""
    command = train("--steps", str(steps), "--step-seconds", "0.2", np=least, maximum=most)
    job = build_job(name, command=command, workers=least, minimum=least, maximum=most, queue=queue)
    [container] = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "100m"}}
    return job


@pytest.mark.point("line")
def test_who_is_suspended_leaves_the_line_and_waits_in_it_again(
    world: RealWorld, queue: str
) -> None:
    world.create(build_member("first", queue, least=3, most=3, steps=100_000))
    world.wait_for_size("first", 3)
    world.create(build_member("second", queue, least=2, most=2, steps=100_000))
    world.wait_for_phase("second", "Waiting")

    world.patch_job("first", {"spec": {"suspend": True}})
    world.wait_for_size("second", 2)
    told = find_condition(world.status("trainingjobs", "first"), "Admitted")
    assert (told["status"], told["reason"]) == ("False", "Suspended")

    world.patch_job("first", {"spec": {"suspend": False}})
    world.wait(
        lambda: find_admission(world, "first").get("reason") == "AtLimit",
        "a job that is resumed stands in line again",
    )
    assert world.phase("first") == "Waiting"
    world.delete("trainingjobs", "second")
    world.wait_for_size("first", 3)


@pytest.mark.point("queue-gone")
def test_a_queue_that_is_deleted_ends_no_job_and_starts_none(world: RealWorld, queue: str) -> None:
    world.create(build_member("runs", queue, least=1, most=2, steps=100_000))
    world.wait_for_size("runs", 2)
    delete_queue(world, queue)
    world.create(build_member("waits", queue, least=1, most=1, steps=10))
    world.wait(
        lambda: find_admission(world, "waits").get("reason") == "NoQueue",
        "et-scheduler says that there is no such queue",
    )
    assert world.steps("runs")[-1].size == 2
    assert world.phase("waits") == "Waiting"

    create_queue(world, queue, limits={"cpu": FOUR_WORKERS})
    world.wait_for_phase("waits", "Succeeded", timeout=180)
    assert world.status("trainingjobs", "runs")["epoch"] == 1


@pytest.mark.point("fixed-in-queue")
def test_the_number_of_a_fixed_job_is_its_authors_within_the_queue(
    world: RealWorld, queue: str
) -> None:
    job = build_member("fixed", queue, least=1, most=4, steps=100_000)
    job["spec"]["elasticity"] = "Fixed"
    world.create(job)
    world.wait_for_size("fixed", 1)
    world.scale("fixed", 3)
    world.wait_for_size("fixed", 3)
    assert find_admission(world, "fixed")["workers"] == 3

    world.create(build_member("auto", queue, least=1, most=4, steps=100_000))
    world.wait_for_size("auto", 1)
    world.scale("auto", 4)
    world.scale("fixed", 1)
    world.wait_for_size("fixed", 1)
    world.wait_for_size("auto", 3, 120)
    assert find_admission(world, "auto")["workers"] == 3, "what the queue has room for, not four"
    assert world.status("trainingjobs", "fixed")["epoch"] == 1


@pytest.mark.point("ssh-in-queue")
def test_a_job_whose_workers_are_reached_by_ssh_waits_in_line_proven_and_trains(
    world: RealWorld, queue: str
) -> None:
    world.create(build_member("first", queue, least=3, most=3, steps=100_000))
    world.wait_for_size("first", 3)
    job = build_member("ssh", queue, least=2, most=2, steps=20)
    job["spec"]["launcherAttachMode"] = "ssh"
    world.create(job)

    def is_proven() -> bool:
        shapes = world.status("trainingjobs", "ssh").get("shapes") or {}
        pods = shapes.get("pods") or []
        return bool(pods) and all("priority" in pod for pod in pods)

    world.wait(is_proven, "the API server says as what it would create its pods")
    told = find_condition(world.status("trainingjobs", "ssh"), "Admitted")
    assert (told["status"], told["reason"]) == ("False", "Waiting")

    world.delete("trainingjobs", "first")
    world.wait_for_phase("ssh", "Succeeded", timeout=180)
