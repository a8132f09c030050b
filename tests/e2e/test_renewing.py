"""The workers of a job that trains are new, one after the other, and nothing is trained twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.faults import get_spec
from tests.e2e.persons import Person
from tests.e2e.world import RealWorld, build_job, find_condition, train

pytestmark = pytest.mark.cluster


@pytest.mark.point("renewed-workers")
def test_workers_take_an_edited_template_while_the_job_trains(
    world: RealWorld, tmp_path: Path
) -> None:
    person = Person(world, "edit", tmp_path)
    job = build_job("new", command=train("--steps", "100000", "--step-seconds", "0.3"))
    world.create(job)
    world.wait_for_size("new", 2)

    get_spec(job, "worker")["containers"][0]["env"].append({"name": "EDITED", "value": "yes"})
    workers = job["spec"]["etReplicaSpecs"]["worker"]["template"]
    world.patch_job("new", {"spec": {"etReplicaSpecs": {"worker": {"template": workers}}}})
    changed = world.wait(
        lambda: find_condition(world.status("trainingjobs", "new"), "TemplateChanged"), "it is said"
    )
    assert "new-worker-0" in changed["message"]
    assert world.worker_names() == ["new-worker-0", "new-worker-1"], "what runs is left alone"

    said = person.type("restart", "new", "--workers", "--yes")

    pods = {pod.metadata.name: pod for pod in world.pods("worker")}
    for name in ("new-worker-2", "new-worker-3"):
        assert "yes" in [variable.value for variable in pods[name].spec.containers[0].env], said
    world.wait(lambda: world.worker_names() == ["new-worker-2", "new-worker-3"], "the old are gone")
    world.wait_for_size("new", 2)
    numbers = [step.number for step in world.steps("new")]
    assert numbers == list(range(1, len(numbers) + 1)), "no step was trained again"
    assert world.status("trainingjobs", "new")["epoch"] == 1
    changed = find_condition(world.status("trainingjobs", "new"), "TemplateChanged")
    assert "worker" not in changed.get("message", "")
