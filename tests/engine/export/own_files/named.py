"""Batches of a dataclass with a mapping in it, which a `forward` of its own takes apart."""

from collections import UserDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Points:
    where: Tensor
    more: UserDict


def dataset():
    return torch.arange(24.0)


def collate(samples):
    where = torch.stack(samples)[:, None] / 24
    return Points(where, UserDict(noise=torch.rand_like(where))), (where[:, 0] > 0.5).long()


def model():
    return nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.2), nn.Linear(8, 2))


def forward(model, inputs):
    return model(torch.cat([inputs.where, inputs.more["noise"]], 1))
