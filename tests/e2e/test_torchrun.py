"""torchrun: its workers come and go, and the training goes on from their checkpoints."""

from __future__ import annotations

import itertools

import pytest

from et.steps import Step
from tests.e2e.light_jobs import get_container
from tests.e2e.test_launchers import read_example
from tests.e2e.world import RealWorld, grow_and_shrink

pytestmark = pytest.mark.cluster

STEPS = 90


@pytest.mark.point("torchrun")
@pytest.mark.point("case-36")
def test_case_36_torchrun_grows_shrinks_and_survives_the_loss_of_its_store(
    world: RealWorld,
) -> None:
    job = read_example("torchrun.yaml")
    command = get_container(job, "launcher")["command"]
    # The example, quicker, and never with one worker while the other one still starts.
    command[1:2] = ["--nnodes=2:6", "--rdzv_conf=last_call_timeout=2"]
    command[command.index("--steps") + 1] = str(STEPS)
    world.create(job)
    world.wait_for_size("torchrun", 2)
    assert "torchrun runs in the workers, with a rendezvous at" in world.log("torchrun-launcher")

    grow_and_shrink(world, "torchrun", by=1, to=3)
    world.wait_for_size("torchrun", 2)
    assert world.sizes("torchrun") == [2, 3, 2]
    assert world.status("trainingjobs", "torchrun")["epoch"] == 1
    trained = world.steps("torchrun")
    # A step is saved before it is told: ranks that are started anew between may leave one untold.
    assert trained[0].number in (1, 2), world.log("torchrun-launcher")[:4000]

    world.core.delete_namespaced_pod("torchrun-launcher", world.namespace, grace_period_seconds=0)
    world.wait_for_phase("torchrun", "Succeeded")
    assert world.status("trainingjobs", "torchrun")["epoch"] == 2
    resumed = world.steps("torchrun")
    assert resumed[-1].number == STEPS
    assert trained[-1].number <= resumed[0].number
    for steps in (trained, resumed):
        assert find_jumps(steps) == []


@pytest.mark.point("torchrun")
def test_torchrun_trains_in_workers_that_are_reached_by_ssh(world: RealWorld) -> None:
    job = read_example("torchrun.yaml")
    job["spec"]["launcherAttachMode"] = "ssh"
    command = get_container(job, "launcher")["command"]
    command[1:2] = ["--nnodes=2", "--rdzv_conf=last_call_timeout=2"]
    command[command.index("--steps") + 1] = "10"
    world.create(job)
    world.wait_for_phase("torchrun", "Succeeded")
    assert world.sizes("torchrun") == [2]
    assert [step.number for step in world.steps("torchrun")] == list(range(1, 11))


def find_jumps(steps: list[Step]) -> list[tuple[int, int]]:
    """Where more than one step was trained again, or told by nobody: every rank saves each."""
    numbers = [step.number or 0 for step in steps]
    return [pair for pair in itertools.pairwise(numbers) if not 0 <= pair[1] - pair[0] <= 2]
