"""Layers beside a model's file."""

from __future__ import annotations

import torch
from torch import nn


class Generator(nn.Linear):
    """A layer, and a text with \\ and '''."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width)


NOISE = torch.rand(3)
