import random

import torch
from torch import nn
from torch.utils.data import IterableDataset

OFFSET = torch.randn(3)


class Stream(IterableDataset):
    def __iter__(self):
        for _ in range(30):
            inputs = torch.randn(3) + OFFSET
            yield inputs, inputs.sum().reshape(1) * random.random()


def dataset():
    return Stream()


def collate(samples):
    inputs, targets = zip(*samples, strict=True)
    return {"inputs": torch.stack(inputs)}, torch.stack(targets)


def model():
    return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 1))


def forward(model, inputs):
    return model(inputs["inputs"])


def optimizer(model):
    groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}]
    return torch.optim.SGD(groups, lr=0.01, momentum=0.9)
