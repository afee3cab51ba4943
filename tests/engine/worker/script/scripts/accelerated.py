"""Train with Accelerate in BF16, with gradients accumulated over two batches."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2, cpu=True)
network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=4)
network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
for (data,) in loader:
    with accelerator.accumulate(network):
        accelerator.backward(network(data).square().mean())
        optimizer.step()
        optimizer.zero_grad()
