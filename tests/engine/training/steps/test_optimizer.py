"""The optimizers and their forms."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from engine.experiment.experiment import Experiment
from engine.training.steps.plain import no_fused_form, optimizer_for


def made(fused: bool | None = None, **settings: Any) -> torch.optim.Optimizer:
    return optimizer_for(nn.Linear(2, 1), Experiment.model_validate({"optimizer": settings}), fused=fused)


def test_each_optimizer_takes_its_settings() -> None:
    sgd = made(name="sgd", momentum=0.9, weight_decay=0.1)
    assert isinstance(sgd, torch.optim.SGD)
    assert (sgd.defaults["momentum"], sgd.defaults["weight_decay"]) == (0.9, 0.1)
    adam = made(name="adam", weight_decay=0.1)
    assert type(adam) is torch.optim.Adam and adam.defaults["weight_decay"] == 0.1
    adamw = made(weight_decay=0.01, learning_rate=0.5)
    assert type(adamw) is torch.optim.AdamW
    assert (adamw.defaults["weight_decay"], adamw.defaults["lr"]) == (0.01, 0.5)


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
def test_the_form_is_pytorchs_own_unless_another_is_wanted(name: str) -> None:
    reference = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name]
    default = reference(nn.Linear(2, 1).parameters()).defaults
    for optimizer in (made(name=name), made(name=name, fused=False)):
        assert (optimizer.defaults["fused"], optimizer.defaults["foreach"]) == (
            default["fused"],
            default["foreach"],
        )
    assert made(name=name, fused=True).defaults["fused"] is True
    assert made(fused=True, name=name).defaults["fused"] is True


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fused_sgd_steps_as_the_default_form_does(momentum: float) -> None:
    weights = []
    for fused in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        settings = {"name": "sgd", "momentum": momentum, "weight_decay": 0.1, "learning_rate": 0.1}
        optimizer = optimizer_for(model, Experiment.model_validate({"optimizer": settings}), fused=fused)
        for number in range(3):
            optimizer.zero_grad()
            model(torch.full((4, 3), float(number + 1))).sum().backward()
            optimizer.step()
        weights.append(model.weight.detach())
    torch.testing.assert_close(weights[1], weights[0])


def test_a_device_without_fused_optimizers_is_named() -> None:
    assert no_fused_form(nn.Linear(2, 1), torch.device("cpu")) is None
    assert no_fused_form(nn.Linear(2, 1), torch.device("cuda:0")) is None
    assert "hpu" in str(no_fused_form(nn.Linear(2, 1), torch.device("hpu")))
