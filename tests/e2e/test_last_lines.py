"""What is known of workers that have gone, and how far those are that run."""

from __future__ import annotations

from pathlib import Path

import pytest

from et_contract.paths import RANK_STATES_DIR
from tests.e2e.faults import find_processes
from tests.e2e.persons import Person
from tests.e2e.world import RealWorld, build_job, scale_in, train

pytestmark = pytest.mark.cluster

TALKING = """
import os, time
import torch, horovod.torch as hvd

hvd.init()
print("here is", os.uname().nodename, flush=True)

@hvd.elastic.run
def run(state):
    while state.step < 150:
        hvd.allreduce(torch.ones(1), name="little")
        state.step += 1
        if hvd.rank() == 0:
            print(f"step={state.step} loss=0 size={hvd.size()}", flush=True)
        time.sleep(0.1)
        state.commit()

run(hvd.elastic.TorchState(step=0))
"""


def read_states(world: RealWorld) -> dict[str, set[str]]:
    """What the ranks of each worker say of how far they are."""
    found = {}
    for pod in world.pods("worker"):
        [agent] = find_processes(pod.metadata.uid, "boot.py agent")
        folder = Path(f"/proc/{agent}/root{RANK_STATES_DIR}")
        found[pod.metadata.name] = {path.read_text() for path in folder.iterdir()}
    return found


@pytest.mark.point("last-lines")
def test_what_a_worker_printed_last_outlives_it(world: RealWorld, tmp_path: Path) -> None:
    person = Person(world, "edit", tmp_path)
    command = train()
    command[command.index("/examples/horovod-torch/train.py") :] = ["-c", TALKING]
    world.create(build_job("talk", command=command))
    world.wait_for_size("talk", 2)

    joined = {"talk-worker-0": {"joined"}, "talk-worker-1": {"joined"}}
    world.wait(lambda: read_states(world) == joined, "each rank says that it is in a ring")
    world.create(scale_in("leave", "talk", pods=["talk-worker-1"]))
    assert world.wait_for_scaling("scaleins", "leave")["phase"] == "ScaleSucceeded"
    assert "here is talk-worker-1" in person.type("logs", "talk", "worker-1")

    world.wait_for_phase("talk", "Succeeded", timeout=180)
    assert world.wait(lambda: not world.pods("worker"), "the workers are gone")
    assert "here is talk-worker-0" in person.type("logs", "talk", "worker-0")
    assert "here is talk-worker-1" in person.type("logs", "talk", "worker-1")
    assert "worker-7" in person.type("logs", "talk", "worker-7", code=1)
