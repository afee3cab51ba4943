"""How often the host waits for the device in a step, counted on fake CUDA tensors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from engine.experiment.experiment import Experiment, Precision, layered
from engine.training.steps.optimizers import build_optimizer
from engine.training.steps.plain import PlainStep, RecipeRecord
from engine.training.steps.recipe import build_step

CARD = torch.device("cuda:0")


class Reads(TorchDispatchMode):
    """Counts what makes the host wait for a card: a value read, or a tensor copied off it."""

    def __init__(self, answer: bool = True) -> None:
        super().__init__()
        self.number = 0
        self._answer = answer

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten._local_scalar_dense.default:
            self.number += args[0].device == CARD
            if args[0].dtype == torch.bool:
                return self._answer
            return 0.0 if args[0].device == CARD else 1.0  # no infinity was found; an optimizer's first step
        if function._schema.name.startswith("aten::_fused_"):
            return None  # nothing is returned by them, and some have no rule for fake tensors
        outputs = function(*args, **(kwargs or {}))
        if function in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default):
            source = args[-1] if function is torch.ops.aten.copy_.default else args[0]
            self.number += source.device == CARD and outputs.device != CARD
        return outputs


class Reading(nn.Module):
    """A module that asks the device a question in its forward pass."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values if values.sum() > 0 else -values


def changed(model: nn.Module, *to: Any, **_: Any) -> nn.Module:
    """The model, which is on the card already; fake parameters change their format only by being replaced."""
    for module in model.modules() if torch.bfloat16 in to else ():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(parameter.detach().bfloat16()))
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, buffer.bfloat16() if buffer.is_floating_point() else buffer)
    return model


@pytest.fixture(autouse=True)
def fake_card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the guards of autocast and of the scaler would find on a card, and tensors that are on none."""
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_: True)
    monkeypatch.setattr(nn.Module, "to", changed)
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def model_of(monkeypatch: pytest.MonkeyPatch, *more: nn.Module) -> nn.Module:
    """A small CNN on the card. Autograd's engine needs a real one, so its gradients are made here."""
    with torch.device("meta"):
        layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)]
        model = nn.Sequential(*layers, *more)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(torch.empty(parameter.shape, device=CARD)))
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, torch.empty(buffer.shape, dtype=buffer.dtype, device=CARD))

    def backward(loss: torch.Tensor) -> None:
        for parameter in model.parameters():
            parameter.grad = torch.empty_like(parameter)

    monkeypatch.setattr(torch.Tensor, "backward", backward)
    return model


def experiment_of(**settings: Any) -> Experiment:
    return Experiment.model_validate(layered({"batch_size": 4, "device": "cuda:0"}, settings))


def reads_in(step: PlainStep, batches: int) -> int:
    """Host reads in a step after the first, with a new learning rate."""
    group = [
        (torch.empty(4, 3, 8, 8, device=CARD), torch.empty(4, dtype=torch.long, device=CARD))
        for _ in range(batches)
    ]
    with Reads() as reads:
        step(group)
        reads.number = 0
        step.set_learning_rate(0.02)
        step(group)
        step.record.pop_notes()
        step.next_phase()
    return reads.number


@pytest.mark.slow
@pytest.mark.parametrize("precision", [precision.value for precision in Precision])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_the_host_reads_only_where_a_scaler_asks_an_unfused_optimizer(monkeypatch, optimizer, precision):
    recipes = ("plain", "channels_last+fused")
    for recipe, (clip_norm, batches) in itertools.product(recipes, ((None, 1), (1.0, 2))):
        experiment = experiment_of(
            precision=precision,
            optimizer={"name": optimizer},
            step={"recipe": recipe, "clip_norm": clip_norm, "gradient_accumulation": batches},
        )
        step = build_step(model_of(monkeypatch), cross_entropy, experiment, CARD, is_convolutional=True)
        assert not step.record.left_out and step.scaler.is_enabled() == (precision == "fp16")
        expected = 1 if precision == "fp16" and "fused" not in recipe else 0
        assert reads_in(step, batches) == expected, (recipe, clip_norm, batches)


@pytest.mark.parametrize("precision", [precision.value for precision in Precision])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_the_step_that_is_captured_never_reads(monkeypatch, optimizer, precision):
    settings = {"optimizer": {"name": optimizer}, "step": {"clip_norm": 1.0}}
    experiment = experiment_of(precision=precision, **settings)
    model = model_of(monkeypatch)
    # when it is made, Adam asks whether its learning rate is at least 0, and SGD whether it is below
    with Reads(answer=optimizer != "sgd"):
        capturable = build_optimizer(model, experiment, fused=True, capturable=True)
    record = RecipeRecord(("fused", "capture"))
    step = PlainStep(
        model, cross_entropy, experiment, CARD, optimizer=capturable, record=record, cache_casts=False
    )
    assert reads_in(step, 2) == 0


def test_a_model_that_reads_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(monkeypatch, Reading())
    step = build_step(model, cross_entropy, experiment_of(), CARD, is_convolutional=True)
    assert reads_in(step, 2) == 2
