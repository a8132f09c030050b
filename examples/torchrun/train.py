"""Elastic training with torchrun and PyTorch, small enough for a laptop.

A network of two layers learns a function of its own making: nothing is downloaded. torchrun ends
all processes and starts them again whenever workers come or go, or one has failed: what counts is
the checkpoint. Here each process writes its own, into its own pod, and at the start all go on with
the newest of them: no storage has to be shared, and whoever is left has the state.

Rank 0 prints one line per step, and at the end `done steps=..`:

    step=12 loss=0.103521 size=2 epoch=0 rank=0 host=torchrun-worker-0 t=1767322980.11
"""

from __future__ import annotations

import argparse
import os
import socket
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FEATURES = 16
BATCH = 64
STEPS_PER_EPOCH = 50
LEARNING_RATE = 0.1


def parse_arguments() -> argparse.Namespace:
    """What a user may set on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-seconds", type=float, default=0.2, help="shortest time of a step")
    parser.add_argument("--save-every", type=int, default=1, metavar="STEPS")
    parser.add_argument("--checkpoint", default="/tmp/checkpoint", help="beginning of its name")  # noqa: S108 (the pod's own)
    return parser.parse_args()


def make_batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What this rank learns from in this step."""
    source = torch.Generator().manual_seed(1_000_003 * step + rank)
    inputs = torch.randn(BATCH, FEATURES, generator=source)
    return inputs, torch.tanh(inputs[:, :4].sum(dim=1, keepdim=True))


def save(path: str, model: torch.nn.Module, step: int) -> None:
    """Write the checkpoint so that one that is there is whole."""
    torch.save({"model": model.state_dict(), "step": step}, f"{path}.new")
    os.replace(f"{path}.new", path)


def restore(path: str, model: torch.nn.Module) -> int:
    """Take the newest checkpoint that any rank has; its step, 0 where there is none."""
    kept = torch.load(path) if os.path.exists(path) else {"step": 0}
    steps = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(steps, torch.tensor([kept["step"]]))
    numbers = [int(step) for step in steps]
    newest = numbers.index(max(numbers))
    if newest == dist.get_rank() and "model" in kept:
        model.load_state_dict(kept["model"])
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=newest)
    return numbers[newest]


def train(arguments: argparse.Namespace, path: str) -> None:
    """Train to the last step, from wherever the checkpoints are."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    )
    step = restore(path, model)
    shared = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    rank, size, host = dist.get_rank(), dist.get_world_size(), socket.gethostname()
    print(f"joined rank={rank} size={size} host={host} restored={step}", flush=True)
    while step < arguments.steps:
        began = time.monotonic()
        inputs, wanted = make_batch(step, rank)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(shared(inputs), wanted)
        loss.backward()
        optimizer.step()
        step += 1
        if step % arguments.save_every == 0:
            save(path, model, step)
        if rank == 0:
            now = time.time()  # noqa: TID251 (an example has no clock of its own)
            print(
                f"step={step} loss={loss.item():.6f} size={size} "
                f"epoch={(step - 1) // STEPS_PER_EPOCH} rank=0 host={host} t={now:.2f}",
                flush=True,
            )
        time.sleep(max(0.0, arguments.step_seconds - (time.monotonic() - began)))  # noqa: TID251 (the same)
    if rank == 0:
        print(f"done steps={step}", flush=True)


def main() -> None:
    """Join the other processes and train."""
    arguments = parse_arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(arguments, f"{arguments.checkpoint}-{os.environ['LOCAL_RANK']}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
