"""Elastic training with Horovod and PyTorch, small enough for a laptop.

A network of two layers learns a function of its own making: nothing is downloaded, and the same
step on the same rank sees the same data in every run. Rank 0 prints one line per step:

    step=12 loss=0.103521 size=2 epoch=0 rank=0 host=elastic-training-worker-0 t=1767322980.11

and at the end `done steps=.. sizes=2,4,3 repeated=0 loss=..`: the numbers of workers in the order
in which the training saw them, and how many steps were lost with a worker and trained again.
"""

from __future__ import annotations

import argparse
import os
import socket
import time

import horovod.torch as hvd
import torch

FEATURES = 16
BATCH = 64
STEPS_PER_EPOCH = 50
LEARNING_RATE = 0.1


def parse_arguments() -> argparse.Namespace:
    """What a user may set on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-seconds", type=float, default=0.2, help="shortest time of a step")
    parser.add_argument("--commit-every", type=int, default=1, metavar="STEPS")
    parser.add_argument("--commit-seconds", type=float, default=0.0, help="instead of steps")
    parser.add_argument("--checkpoint", default="", help="file to go on from after a restart")
    parser.add_argument("--sleep-before-init", type=float, default=0.0)
    return parser.parse_args()


def build_model() -> torch.nn.Module:
    """A small model, with the same first weights on every worker."""
    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    )


def make_batch(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What this rank learns from in this step."""
    source = torch.Generator().manual_seed(1_000_003 * step + rank)
    inputs = torch.randn(BATCH, FEATURES, generator=source)
    return inputs, torch.tanh(inputs[:, :4].sum(dim=1, keepdim=True))


class Trainer:
    """One process's view of the training: what it has done, whatever is restored in `state`."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.loss = torch.nn.MSELoss()
        self.host = os.environ.get("HOROVOD_HOSTNAME") or socket.gethostname()
        self.newest = 0
        self.repeated = 0
        self.committed = time.monotonic()

    def run(self, state: hvd.elastic.TorchState) -> None:
        """Train to the last step; called again whenever workers have come or gone."""
        print(f"joined rank={hvd.rank()} size={hvd.size()} host={self.host}", flush=True)
        while state.step < self.arguments.steps:
            began = time.monotonic()
            loss, is_commit_due = self.train_step(state)
            state.step += 1
            if not state.sizes or state.sizes[-1] != hvd.size():
                state.sizes = (*state.sizes, hvd.size())
            self.note_step(state, loss)
            pause(self.arguments.step_seconds - (time.monotonic() - began))
            if is_commit_due:
                self.commit(state)
        if hvd.rank() == 0:
            sizes = ",".join(map(str, state.sizes))
            print(
                f"done steps={state.step} sizes={sizes} repeated={self.repeated} "
                f"loss={state.loss:.6f}",
                flush=True,
            )

    def train_step(self, state: hvd.elastic.TorchState) -> tuple[float, bool]:
        """The mean loss of all workers, and whether they are to commit: all of them, or none."""
        inputs, wanted = make_batch(state.step, hvd.rank())
        state.optimizer.zero_grad()
        loss = self.loss(state.model(inputs), wanted)
        loss.backward()
        state.optimizer.step()
        due = float(hvd.rank() == 0 and self.is_commit_due(state.step + 1))
        shared = hvd.allreduce(torch.tensor([loss.item(), due]), name="loss")
        return shared[0].item(), shared[1].item() > 0

    def is_commit_due(self, step: int) -> bool:
        """By the clock of rank 0 where seconds were given, else by the number of steps."""
        if self.arguments.commit_seconds > 0:
            return time.monotonic() - self.committed >= self.arguments.commit_seconds
        return step % self.arguments.commit_every == 0

    def commit(self, state: hvd.elastic.TorchState) -> None:
        """Keep this step; raises HostsUpdatedInterrupt where workers have come or are to go."""
        self.committed = time.monotonic()
        path = self.arguments.checkpoint
        if path and hvd.rank() == 0:
            kept = {"model": state.model.state_dict(), "step": state.step, "sizes": state.sizes}
            torch.save(kept, f"{path}.new")
            os.replace(f"{path}.new", path)
        state.commit()

    def note_step(self, state: hvd.elastic.TorchState, loss: float) -> None:
        """Count it, and let rank 0 tell."""
        state.loss = loss
        self.repeated += state.step <= self.newest
        self.newest = max(self.newest, state.step)
        if hvd.rank() == 0:
            now = time.time()  # noqa: TID251 (an example has no clock of its own)
            print(
                f"step={state.step} loss={loss:.6f} size={hvd.size()} "
                f"epoch={(state.step - 1) // STEPS_PER_EPOCH} rank=0 host={self.host} t={now:.2f}",
                flush=True,
            )


def pause(seconds: float) -> None:
    """Wait, if there is something to wait for."""
    if seconds > 0:
        time.sleep(seconds)  # noqa: TID251 (an example has no clock of its own)


def main() -> None:
    """Join the other workers and train."""
    arguments = parse_arguments()
    pause(arguments.sleep_before_init)
    torch.set_num_threads(1)
    hvd.init()
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, sizes=(), loss=0.0)
    if arguments.checkpoint and os.path.exists(arguments.checkpoint):
        kept = torch.load(arguments.checkpoint)
        model.load_state_dict(kept["model"])
        state.step, state.sizes = kept["step"], kept["sizes"]
        state.save()
    hvd.elastic.run(Trainer(arguments).run)(state)


if __name__ == "__main__":
    main()
