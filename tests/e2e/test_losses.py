"""What the loss of a worker in the middle of a step costs the others."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from devcluster.cgroups import find_parent
from tests.e2e.faults import find_processes, get_spec, kill
from tests.e2e.test_hardening import harden
from tests.e2e.world import RealWorld, build_job, train

pytestmark = pytest.mark.cluster

STEPS = """
import os, time
import torch, horovod.torch as hvd
from horovod.common.basics import HorovodBasics
from horovod.common.elastic import ObjectState, run_fn

torch.set_num_threads(1)
hvd.init()
print("rank", hvd.rank(), hasattr(HorovodBasics.init, "__wrapped__"), os.environ.get("PYTHONPATH"),
      flush=True)
much = torch.ones(2000000)

def train(state):
    while state.step < 100000:
        hvd.allreduce(much, name="much")
        state.step += 1
        if hvd.rank() == 0:
            print(f"step={state.step} loss=0 size={hvd.size()} t={time.time():.2f}", flush=True)
        if state.step % 5 == 0:
            state.commit()

def reset():
    hvd.shutdown()
    hvd.init()

"""
"""Each step is its allreduce: whoever is lost is lost in the middle of one."""
OF_TORCH = "hvd.elastic.run(train)(hvd.elastic.TorchState(step=0))"
OF_ALL = """
run_fn(train, reset)(ObjectState(bcast_object=hvd.broadcast_object, get_rank=hvd.rank, step=0))
"""
"""The base of all elastic states, as those of TensorFlow and Keras use it (not installed here)."""
FEW = 60
"""Seconds, with those that a new worker's imports take on a busy machine: the others wait for it.

Without us it is Gloo's time-out, 120 s."""
_TIME = re.compile(r"step=\d+ .* t=([\d.]+)$", re.MULTILINE)


def build_ring(name: str, state: str = OF_TORCH) -> dict[str, Any]:
    """A job of three workers that are in an allreduce at any time."""
    command = train(np=3)
    command[command.index("/examples/horovod-torch/train.py") :] = ["-c", STEPS + state]
    return build_job(name, command=command, workers=3)


def wait_until_it_trains(world: RealWorld, name: str) -> None:
    """For 20 steps with all three."""
    world.wait_for_size(name, 3, 180)
    before = len(world.steps(name))
    world.wait(lambda: len(world.steps(name)) > before + 20, "all train")


def read_times(world: RealWorld, name: str = "broken") -> list[float]:
    """When rank 0, whoever that was, said each step."""
    return sorted(map(float, _TIME.findall(world.log(f"{name}-launcher"))))


def find_longest_wait(world: RealWorld, name: str) -> float:
    """Seconds between two steps."""
    return max(after - before for before, after in pairwise(read_times(world, name)))


def read_ranks(world: RealWorld) -> list[tuple[str, str]]:
    """Of each rank that has begun: whether its init is wrapped, and its PYTHONPATH."""
    return re.findall(r"rank \d (\w+) (.+)", world.log("broken-launcher"))


@pytest.mark.point("broken-ring")
def test_a_worker_that_is_killed_in_the_middle_of_a_step_costs_the_others_seconds(
    world: RealWorld,
) -> None:
    kill_one(world, build_ring("broken"), 0)


@pytest.mark.point("broken-ring")
def test_so_it_does_without_root_under_restricted_with_the_base_of_all_elastic_states(
    restricted: RealWorld,
) -> None:
    job = build_ring("broken", OF_ALL)
    harden(job)
    kill_one(restricted, job, 1)


def kill_one(world: RealWorld, job: dict[str, Any], rank: int) -> None:
    """The worker of that rank is killed; all train on, and another one with them."""
    get_spec(job, "worker")["containers"][0]["env"].append({"name": "PYTHONPATH", "value": "/libs"})
    world.create(job)
    wait_until_it_trains(world, "broken")
    lost = next(pod for pod in world.pods("worker") if pod.metadata.name == f"broken-worker-{rank}")

    kill(find_processes(lost.metadata.uid, "boot.py agent"))

    world.wait(lambda: len(read_ranks(world)) == 4, "another one trains in its place", 90)
    wait_until_it_trains(world, "broken")
    assert find_longest_wait(world, "broken") < FEW
    assert world.status("trainingjobs", "broken")["epoch"] == 1
    assert set(read_ranks(world)) == {("True", "/libs")}, "ours is in each, and nowhere to be seen"


@pytest.mark.point("ring-without-an-end")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_that_is_lost_without_closing_its_connections_costs_the_others_seconds(
    world: RealWorld, rank: int
) -> None:
    world.create(build_ring("silent"))
    wait_until_it_trains(world, "silent")
    lost = next(pod for pod in world.pods("worker") if pod.metadata.name == f"silent-worker-{rank}")

    kill([find_parent(pid) for pid in find_processes(lost.metadata.uid, " agent --")])

    world.wait(lambda: "silent-worker-3" in find_names(world), "another one comes", 60)
    wait_until_it_trains(world, "silent")
    assert find_longest_wait(world, "silent") < FEW
    assert world.status("trainingjobs", "silent")["epoch"] == 1


def find_names(world: RealWorld) -> set[str]:
    """Of the workers that there are."""
    return {pod.metadata.name for pod in world.pods("worker")}
