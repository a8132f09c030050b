"""An elastic script that commits rarely, and after each step while a worker's end is known.

While it is said for sure that a worker or its node ends, /etc/edl/notice is there in that worker,
and goes with the notice. Horovod takes a worker off at a commit: where commits are far apart, the
next one may come too late, and the steps since the last one are lost.
"""

import json
import os
import time

import horovod.torch as hvd
import torch

NOTICE = "/etc/edl/notice"
STEPS = int(os.environ.get("STEPS", "2000"))
COMMIT_EVERY = int(os.environ.get("COMMIT_EVERY", "100"))

hvd.init()
torch.manual_seed(0)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def is_anyone_to_end():
    """Whether any rank's worker has a notice: all ranks commit together, so all must agree."""
    own = torch.tensor([float(os.path.exists(NOTICE))])
    return hvd.allreduce(own, op=hvd.Sum, name="notices").item() > 0


def read_notice():
    """What is said of the end of this pod; None where nothing is (any more)."""
    try:
        with open(NOTICE) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


@hvd.elastic.run
def train(state):
    told = None
    while state.step < STEPS:
        inputs = torch.randn(32, 16)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        time.sleep(0.1)  # stands for real work
        state.step += 1
        if is_anyone_to_end() or state.step % COMMIT_EVERY == 0:
            state.commit()
        notice = read_notice()
        if notice != told:
            told = notice
            print(f"rank {hvd.rank()}: {notice or 'it stays'}", flush=True)
    if hvd.rank() == 0:
        print(f"done: {state.step} steps", flush=True)


train(hvd.elastic.TorchState(model, optimizer, step=0))
