"""A clean workload file, and the findings of Check on changed versions of it."""

from __future__ import annotations

from engine.protocol.advice import Checked, Finding, FindingKind

CLEAN = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.last = nn.Linear(16, 8)

    def forward(self, x):
        hidden = self.first(x).relu()
        return self.last(hidden)

def model():
    return Net()

def batch(size):
    return torch.randn(size, 8), torch.randint(8, (size,))

def loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)
"""
STEP = """
def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)

def step(train, batch):
    with train.autocast():
        loss = nn.functional.cross_entropy(train.model(batch[0]), batch[1])
    train.backward(loss)
    train.unscale(train.optimizer)
    nn.utils.clip_grad_norm_(train.model.parameters(), 1.0)
    train.step(train.optimizer)
"""
FORWARD = "hidden = self.first(x).relu()"
LAST = "return self.last(hidden)"
LOSS = "return nn.functional.cross_entropy(outputs, targets)"


def alarms(checked: Checked) -> list[Finding]:
    """Findings on the file; that this machine only emulates a precision is not its fault."""
    told = (*checked.errors, *checked.warnings)
    return [finding for finding in told if finding.kind is not FindingKind.EMULATED]
