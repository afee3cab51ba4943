"""The parts of a step's memory, on models small enough to count by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from engine.training.measuring.memory import Breakdown, activations_of, breakdown_of

CPU = torch.device("cpu")
MIB = 2**20


class Recomputed(nn.Module):
    """A part of which only the input is kept for the backward."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = checkpoint(self.part, inputs, use_reentrant=False)
        return out


def measured(model: nn.Module, inputs: torch.Tensor) -> float:
    with activations_of(model, CPU) as meter:
        model(inputs).sum().backward()
    assert meter.mib is not None
    return meter.mib * MIB


def test_activations_are_what_the_forward_leaves_for_the_backward() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    # the ReLU's output and the model's own; the first layer's output is not needed again
    assert measured(model, torch.randn(16, 4)) == (16 * 8 + 16 * 2) * 4
    assert measured(model, torch.randn(32, 4)) == (32 * 8 + 32 * 2) * 4


def test_autocast_halves_them_and_adds_its_copies_of_the_weights() -> None:
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Tanh())
    with torch.autocast("cpu", torch.bfloat16):
        found = measured(model, torch.randn(256, 64))
    # the input cast, the weight cast, and the output that tanh keeps
    assert found == (256 * 64 + 64 * 64 + 256 * 64) * 2


def test_what_is_recomputed_is_not_kept() -> None:
    part = nn.Sequential(nn.Linear(4, 512), nn.Tanh(), nn.Linear(512, 4))
    inputs = torch.randn(16, 4)
    assert measured(part, inputs) == (16 * 512 + 16 * 4) * 4
    assert measured(Recomputed(part), inputs) == 16 * 4 * 4


def test_measuring_changes_no_result() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(288, 5)
    )
    inputs, before = torch.randn(4, 3, 8, 8), {k: v.clone() for k, v in model.state_dict().items()}
    outcomes = []
    for is_measured in (False, True):
        model.load_state_dict(before)
        model.zero_grad()
        torch.manual_seed(1)
        if is_measured:
            with activations_of(model, CPU):
                loss = model(inputs).square().sum()
        else:
            loss = model(inputs).square().sum()
        loss.backward()
        grads = [each.grad.clone() for each in model.parameters() if each.grad is not None]
        outcomes.append([loss.detach(), *grads, *(each.clone() for each in model.buffers())])
    assert all(torch.equal(one, other) for one, other in zip(*outcomes, strict=True))


def test_validation_is_no_training_and_no_hook_stays() -> None:
    model = nn.Linear(4, 2)
    with activations_of(model, CPU) as meter:
        with torch.no_grad():
            model(torch.randn(3, 4))
        assert meter.mib is None
    model(torch.randn(3, 4))
    assert meter.mib is None and not model._forward_hooks and not model._forward_pre_hooks


def test_a_forward_that_fails_ends_the_measurement() -> None:
    model = nn.Linear(4, 2)
    with activations_of(model, CPU) as meter:
        with pytest.raises(RuntimeError):
            model(torch.randn(3, 5))
        assert meter.mib is None
        model(torch.randn(3, 4))
    assert meter.mib == 3 * 2 * 4 / MIB


def test_a_compiled_model_is_left_alone() -> None:
    inputs = torch.randn(3, 4)
    compiled = torch.compile(nn.Linear(4, 2), backend="eager")
    in_place = nn.Linear(4, 2)
    in_place.compile(backend="eager")
    for model in (compiled, in_place):
        assert isinstance(model, nn.Module)
        with activations_of(model, CPU) as meter:
            model(inputs).sum().backward()
        assert meter.mib is None


@pytest.mark.parametrize("zeroed", [False, True])
def test_parameters_gradients_and_optimizer_state_are_counted_once(zeroed: bool) -> None:
    model = nn.Sequential(nn.Linear(256, 256, bias=False), nn.BatchNorm1d(256), nn.Linear(256, 256))
    model[2].weight = model[0].weight
    model[1].weight.requires_grad = False
    optimizer = torch.optim.AdamW(each for each in model.parameters() if each.requires_grad)
    model(torch.randn(8, 256)).sum().backward()
    optimizer.step()
    if zeroed:
        optimizer.zero_grad(set_to_none=True)
    trained, whole, buffers = 256 * 256 + 2 * 256, 256 * 256 + 3 * 256, 2 * 256 * 4 + 8
    found = breakdown_of(model, optimizer, 1.5)
    assert found.parameters_mib == (4 * whole + buffers) / MIB
    assert found.gradients_mib == 4 * trained / MIB
    # two moments, and a count of steps for each parameter
    assert found.optimizer_state_mib == (2 * 4 * trained + 3 * 4) / MIB
    assert found.activations_mib == 1.5


def test_the_rest_is_what_the_peak_has_over_the_parts() -> None:
    parts = Breakdown(10.0, 10.0, 20.0, 30.0)
    assert parts.other_mib(100.0) == 30.0
    assert parts.other_mib(60.0) == 0.0
    assert parts.other_mib(None) is None
    assert Breakdown(10.0, 10.0, 20.0, None).other_mib(100.0) is None
