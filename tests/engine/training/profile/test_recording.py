"""Modules are marked whenever their forward runs, and only while steps are recorded."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from engine.training.profile.recording import MODULE, _module_marks


class Nested(nn.Module):
    """Calls a part twice, itself once more, and has another part recomputed."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Linear(4, 4)
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, inputs: Tensor, depth: int = 1) -> Tensor:
        if depth:
            again: Tensor = self(inputs.tanh(), depth - 1)
            return again
        outputs: Tensor = checkpoint(self.block, self.twice(self.twice(inputs)), use_reentrant=False)
        return outputs


def marks_of(model: nn.Module, inputs: Tensor) -> Counter[str]:
    with profile(activities=[ProfilerActivity.CPU]) as profiler, _module_marks(model):
        model(inputs).sum().backward()
    names = (event.name for event in profiler.events())
    return Counter(name.removeprefix(MODULE) for name in names if name.startswith(MODULE))


def test_each_forward_of_a_module_is_marked_the_recomputed_ones_too():
    model = Nested()
    marks = marks_of(model, torch.randn(2, 4, requires_grad=True))
    assert marks[""] == 2 and marks["twice"] == 2
    assert marks["block"] == marks["block.0"] == 2, "forward, and again in the backward pass"
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_failed_forward_leaves_no_mark_open():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 5))
    with profile(activities=[ProfilerActivity.CPU]) as profiler, _module_marks(model):
        with pytest.raises(RuntimeError):
            model(torch.randn(2, 4))
        torch.ones(3).exp_()
    (exponential,) = [event for event in profiler.events() if event.name == "aten::exp_"]
    assert exponential.cpu_parent is None
