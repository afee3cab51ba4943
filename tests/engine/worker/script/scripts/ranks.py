"""Train in the processes that torchrun starts, each on batches of its own."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
network = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(5):
    network(torch.randn(6 + dist.get_rank(), 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
