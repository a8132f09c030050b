"""plain.py as an elastic script: what is other is what docs/from-a-script.md explains."""

import os
import time

import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 200
BATCH = 32
LEARNING_RATE = 0.05
CHECKPOINT = os.environ.get("CHECKPOINT", "")
COMMIT_EVERY = 10

hvd.init()
torch.manual_seed(0)
inputs = torch.randn(2048, 16)
data = TensorDataset(inputs, torch.tanh(inputs[:, :4].sum(1, keepdim=True)))
sampler = hvd.elastic.ElasticSampler(data, shuffle=True)
loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
epoch = step = 0
if os.path.exists(CHECKPOINT):
    kept = torch.load(CHECKPOINT)
    model.load_state_dict(kept["model"])
    epoch, step = kept["epoch"], kept["step"]
    sampler.set_epoch(epoch)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


@hvd.elastic.run
def train(state):
    for group in optimizer.param_groups:
        group["lr"] = LEARNING_RATE * hvd.size()
    while state.epoch < EPOCHS:
        for batch, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            state.step += 1
            if hvd.rank() == 0:
                print(f"step {state.step}, {hvd.size()} workers, loss {loss:.4f}", flush=True)
            time.sleep(0.2)  # stands for real work
            sampler.record_batch(batch, BATCH)
            if state.step % COMMIT_EVERY == 0:
                state.commit()
        state.epoch += 1
        sampler.set_epoch(state.epoch)
        kept = {"model": model.state_dict(), "epoch": state.epoch, "step": state.step}
        if hvd.rank() == 0 and CHECKPOINT:
            torch.save(kept, f"{CHECKPOINT}.new")
            os.replace(f"{CHECKPOINT}.new", CHECKPOINT)
        state.commit()


train(hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=epoch, step=step))
