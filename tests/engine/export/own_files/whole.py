"""A model that takes its inputs as one dict."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, features):
        return self.last(self.first(features["left"] + features["right"]).relu())


def batch(size):
    return {"left": torch.randn(size, 4), "right": torch.randn(size, 4)}, torch.randint(3, (size,))
