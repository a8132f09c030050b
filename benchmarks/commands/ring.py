"""An elastic Horovod training that is all allreduce: who is lost is lost in the middle of a step.

The user's command of benchmarks, in a pod. In a worker where there is a file of that name its ranks
take memory until somebody ends them.
"""

from __future__ import annotations

import time
from pathlib import Path

import horovod.torch as hvd
import torch

NUMBERS = 2_000_000
COMMIT_EVERY = 5
HUNGER = Path("/hunger")
MUCH = 2**25


def train(state: hvd.elastic.TorchState) -> None:
    """One step after the other, for ever; rank 0 says each, and each ring."""
    much = torch.ones(NUMBERS)
    if hvd.rank() == 0:
        print(f"joined size={hvd.size()} t={time.time():.2f}", flush=True)
    while True:
        hvd.allreduce(much, name="much")
        state.step += 1
        if hvd.rank() == 0:
            print(f"step={state.step} loss=0 size={hvd.size()} t={time.time():.2f}", flush=True)
        if state.step % COMMIT_EVERY == 0:
            state.commit()
        taken = []
        while HUNGER.exists():
            taken.append(b"x" * MUCH)


torch.set_num_threads(1)
hvd.init()
hvd.elastic.run(train)(hvd.elastic.TorchState(step=0))
