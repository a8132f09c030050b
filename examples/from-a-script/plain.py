"""A plain PyTorch script, for one process on one machine: elastic.py is the same, elastic."""

import os
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 200
BATCH = 32
LEARNING_RATE = 0.05
CHECKPOINT = "model.pt"

torch.manual_seed(0)
inputs = torch.randn(2048, 16)
data = TensorDataset(inputs, torch.tanh(inputs[:, :4].sum(1, keepdim=True)))
loader = DataLoader(data, batch_size=BATCH, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
epoch = step = 0
if os.path.exists(CHECKPOINT):
    kept = torch.load(CHECKPOINT)
    model.load_state_dict(kept["model"])
    epoch, step = kept["epoch"], kept["step"]


def train(epoch, step):
    while epoch < EPOCHS:
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step}, loss {loss:.4f}")
            time.sleep(0.2)  # stands for real work
        epoch += 1
        kept = {"model": model.state_dict(), "epoch": epoch, "step": step}
        torch.save(kept, CHECKPOINT)


train(epoch, step)
