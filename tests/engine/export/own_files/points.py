from __future__ import annotations

import random

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset


class Points(Dataset):
    def __init__(self, count: int) -> None:
        self.inputs = torch.randn(count, 6)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.inputs[index] + 0.01 * random.random(), int(self.inputs[index].sum() > 0)


def dataset() -> Points:
    return Points(30)


def validation_dataset() -> Points:
    return Points(10)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 2)

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        return {"logits": self.last(nn.functional.dropout(inputs, 0.1, self.training))}
