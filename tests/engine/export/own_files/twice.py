"""A model that calls one of its blocks twice."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, inputs):
        return inputs + self.last(self.first(inputs).sigmoid())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(8, 3)

    def forward(self, inputs):
        first, second = self.blocks
        return self.head(second(first(first(inputs))))


def batch(size):
    return torch.randn(size, 8), torch.randint(3, (size,))
