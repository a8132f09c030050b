"""What the loss of a worker costs, as `et rehearse` says it, and as the training has it."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from et_kube.notices import LEAVING_AT
from tests.e2e.persons import Person
from tests.e2e.world import RealWorld, build_job, train

pytestmark = pytest.mark.cluster

JOB = "rehearsed"


def rehearse(person: Person, *flags: str) -> str:
    """What `et rehearse` says; a ring that is broken may take a minute or two to be built again."""
    with person.running("rehearse", JOB, *flags, "--yes", "--timeout", "4m") as process:
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def count_repeats(world: RealWorld) -> int:
    """Steps that the training has told of twice."""
    numbers = [step.number for step in world.steps(JOB)]
    return len(numbers) - len(set(numbers))


def wait_for_hosts(world: RealWorld, *indexes: int) -> None:
    """Until these are listed, as the job's status says."""

    def look() -> bool:
        status: dict[str, Any] = world.status("trainingjobs", JOB)
        listed = {i for one in status.get("listings", ()) for i in one["indexes"]}
        return listed >= set(indexes) and status["phase"] == "Running"

    world.wait(look, f"{indexes} are hosts")


@pytest.mark.point("rehearsed")
def test_what_a_loss_costs_is_said_before_the_night(world: RealWorld, tmp_path: Path) -> None:
    person = Person(world, "edit", tmp_path)
    command = train("--steps", "100000", "--step-seconds", "0.3", "--commit-every", "5")
    world.create(build_job(JOB, command=command))
    world.wait_for_size(JOB, 2)
    wait_for_hosts(world, 0, 1)

    killed = rehearse(person, "--kind", "kill")
    repeated = count_repeats(world)
    assert f"{JOB}-worker-1 is killed" in killed
    assert re.search(r"^  no (step for [\d.]+ s|pause: )", killed, re.MULTILINE), killed
    assert f"with {JOB}-worker-2 in its place" in killed
    assert "  2 hosts again " in killed
    words = f"{repeated} step{'s' if repeated > 1 else ''}" if repeated else "no step"
    assert f"  {words} trained again\n" in killed
    assert world.steps(JOB)[-1].size == 2

    wait_for_hosts(world, 0, 2)
    moved = rehearse(person, "--worker", "2", "--in", "30s")
    assert f"{JOB}-worker-2 is told that it ends at " in moved
    assert re.search(
        rf"^  {JOB}-worker-2 left: graceful, \d+ s before its end$", moved, re.MULTILINE
    )
    assert "  no step trained again\n" in moved
    assert count_repeats(world) == repeated
    assert world.worker_names() == [f"{JOB}-worker-0", f"{JOB}-worker-3"]
    assert world.status("trainingjobs", JOB)["epoch"] == 1


@pytest.mark.point("rehearsed")
def test_who_is_interrupted_takes_the_notice_back(world: RealWorld, tmp_path: Path) -> None:
    person = Person(world, "edit", tmp_path)
    world.create(build_job(JOB, command=train("--steps", "100000", "--step-seconds", "0.3")))
    world.wait_for_size(JOB, 2)
    wait_for_hosts(world, 0, 1)

    def is_told() -> bool:
        [pod] = [pod for pod in world.pods("worker") if pod.metadata.name == f"{JOB}-worker-1"]
        return LEAVING_AT in (pod.metadata.annotations or {})

    with person.running("rehearse", JOB, "--in", "30m", "--yes") as process:
        world.wait(is_told, "the worker is told")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)

    assert process.returncode == 130, said
    assert f"what {JOB}-worker-1 was told is taken back, and it stays" in said
    assert not is_told()
    assert world.worker_names() == [f"{JOB}-worker-0", f"{JOB}-worker-1"]
