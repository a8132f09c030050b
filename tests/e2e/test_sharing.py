"""Jobs that share what a queue may have, with real Horovod, real pods and et-scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.pools import create_queue, delete_queue, find_admission
from tests.e2e.world import RealWorld, build_job, find_condition, scale_out, train

pytestmark = pytest.mark.cluster

FOUR_WORKERS = {"limits": {"cpu": "460m"}}
"""More than that the jobs of such a queue never have together."""


@pytest.fixture
def queue(world: RealWorld) -> Iterator[str]:
    """The name of a queue that has room for four workers and a launcher, or two and two of each."""
    name = f"q-{world.namespace}"[:60].rstrip("-")
    create_queue(world, name, **FOUR_WORKERS)
    yield name
    delete_queue(world, name)


def build_member(name: str, queue: str, *, least: int, most: int, steps: int) -> dict[str, Any]:
    """A job in the queue; each worker takes a tenth of a CPU, the launcher's broker a fiftieth."""
    command = train("--steps", str(steps), "--step-seconds", "0.2", np=least, maximum=most)
    job = build_job(name, command=command, workers=least, minimum=least, maximum=most, queue=queue)
    [container] = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "100m"}}
    return job


@pytest.mark.point("shares")
def test_a_job_takes_what_is_idle_gives_it_back_and_takes_it_again(
    world: RealWorld, queue: str
) -> None:
    world.create(build_member("large", queue, least=1, most=4, steps=100_000))
    world.wait_for_size("large", 4)

    world.create(build_member("small", queue, least=2, most=2, steps=60))
    world.wait_for_size("small", 2, 120)
    world.wait_for_size("large", 2)
    assert find_admission(world, "large")["workers"] == 2

    world.wait_for_phase("small", "Succeeded", timeout=120)
    world.wait_for_size("large", 4, 120)
    numbers = [step.number for step in world.steps("large")]
    assert numbers == list(range(1, len(numbers) + 1)), "a resize costs no step"
    assert world.status("trainingjobs", "large")["epoch"] == 1
    assert world.get("trainingjobs", "large")["spec"]["etReplicaSpecs"]["worker"]["replicas"] == 1


@pytest.mark.point("gang")
def test_a_gang_waits_whole_and_says_for_what(world: RealWorld, queue: str) -> None:
    world.create(build_member("first", queue, least=3, most=3, steps=100_000))
    world.wait_for_size("first", 3)
    world.create(build_member("second", queue, least=2, most=2, steps=20))
    world.wait(
        lambda: find_admission(world, "second").get("reason") == "AtLimit",
        "et-scheduler says why the second job waits",
    )

    def find_answer() -> str:
        told = find_condition(world.status("trainingjobs", "second"), "Admitted")
        return told["message"] if told["status"] == "False" and queue in told["message"] else ""

    assert world.wait(find_answer, "the operator passes its sentence on")
    assert world.phase("second") == "Waiting"
    assert [p.metadata.name for p in world.pods() if "second" in p.metadata.name] == []

    world.create(scale_out("wish", "first", 1))
    refused = world.wait_for_scaling("scaleouts", "wish")
    assert refused["conditions"][-1]["reason"] == "InQueue"

    world.delete("trainingjobs", "first")
    world.wait_for_phase("second", "Succeeded", timeout=180)


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

    create_queue(world, queue, **FOUR_WORKERS)
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
