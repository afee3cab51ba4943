"""Batches of graphs in an object, which moves itself to the device and has the targets."""

import torch
from torch import nn


class Graphs:
    def __init__(self, x, of, y):
        self.x, self.of, self.y = x, of, y

    def to(self, device):
        return Graphs(self.x.to(device), self.of.to(device), self.y.to(device))


def dataset():
    return list(range(20))


validation_dataset = dataset


def collate(samples):
    nodes = torch.tensor(samples) % 3 + 2
    of = torch.arange(len(samples)).repeat_interleave(nodes)
    return Graphs(torch.randn(len(of), 4), of, torch.tensor(samples) % 2)


def batch_size(inputs, targets):
    return len(inputs.y)


def model():
    return nn.Linear(4, 2)


def forward(model, graphs):
    pooled = torch.zeros(len(graphs.y), 4, device=graphs.x.device).index_add(0, graphs.of, graphs.x)
    return model(pooled)
