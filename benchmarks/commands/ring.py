"""An elastic Horovod training that is all allreduce: who is lost is lost in the middle of a step.

The user's command of benchmarks, in a pod.
"""

from __future__ import annotations

import time

import horovod.torch as hvd
import torch

NUMBERS = 2_000_000
COMMIT_EVERY = 5


def train(state: hvd.elastic.TorchState) -> None:
    """One step after the other, for ever; rank 0 says each."""
    much = torch.ones(NUMBERS)
    while True:
        hvd.allreduce(much, name="much")
        state.step += 1
        if hvd.rank() == 0:
            print(f"step={state.step} loss=0 size={hvd.size()} t={time.time():.2f}", flush=True)
        if state.step % COMMIT_EVERY == 0:
            state.commit()


torch.set_num_threads(1)
hvd.init()
hvd.elastic.run(train)(hvd.elastic.TorchState(step=0))
