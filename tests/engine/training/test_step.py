"""Loss scaling and clipping, step by step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from engine.experiment import Experiment
from engine.training.step import PlainStep, optimizer_for, scaler_for

CPU = torch.device("cpu")


def make_step(model: nn.Module, **settings: Any) -> PlainStep:
    experiment = Experiment.model_validate(settings)
    return PlainStep(
        model,
        mse_loss,
        optimizer_for(model, experiment),
        scaler_for(experiment, CPU),
        device=CPU,
        precision=experiment.precision,
        clip_norm=experiment.step.clip_norm,
    )


def test_overflows_are_skipped_counted_and_halve_the_scale(hello: Any) -> None:
    run = hello(precision="fp16", epochs=40, scaler={"init_scale": 2.0**40})
    skipped = run.summary.skipped_steps
    assert run.skipped_steps == list(range(1, skipped + 1)) and 20 < skipped < 40
    assert run.samples.grad_scale[: skipped + 1] == tuple(2.0 ** (40 - n) for n in range(skipped + 1))
    assert run.summary.final_grad_scale == 2.0 ** (40 - skipped)
    untouched = run.samples.loss[: skipped + 1]
    assert untouched == pytest.approx([untouched[0]] * (skipped + 1), rel=1e-6), (
        "weights moved in a skipped step"
    )
    assert run.samples.loss[-1] < run.samples.loss[0]


def test_the_largest_scale_is_survived(hello: Any) -> None:
    run = hello(precision="fp16", epochs=5, scaler={"init_scale": 2.0**127})
    assert run.skipped_steps == [1, 2, 3, 4, 5]
    assert run.summary.final_grad_scale == 2.0**122


def test_the_scale_grows_after_clean_steps(hello: Any) -> None:
    run = hello(precision="fp16", epochs=6, scaler={"init_scale": 8, "growth_interval": 2})
    assert run.samples.grad_scale == (8, 8, 16, 16, 32, 32)
    assert run.summary.final_grad_scale == 64 and run.summary.skipped_steps == 0


def test_bf16_takes_a_scaler_when_asked(hello: Any) -> None:
    assert hello(precision="bf16").summary.final_grad_scale is None
    assert hello(precision="bf16", scaler={"mode": "on"}).summary.final_grad_scale == 65_536


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_gradients_are_clipped_after_unscaling(precision: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(10, 1)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    step = make_step(
        model,
        precision=precision,
        scaler={"init_scale": 256},
        optimizer={"name": "sgd", "learning_rate": 1},
        step={"clip_norm": 0.01},
    )
    figures = step(torch.randn(20, 10), 5 + torch.randn(20, 1))
    moved = [now - then for now, then in zip(model.parameters(), before, strict=True)]
    assert torch.cat([part.flatten() for part in moved]).norm().item() == pytest.approx(0.01, rel=1e-3)
    assert figures["grad_norm"].item() > 1


def test_a_small_gradient_is_not_clipped(hello: Any) -> None:
    free, clipped = hello(epochs=5), hello(epochs=5, step={"clip_norm": 1e6})
    assert clipped.samples.loss == pytest.approx(free.samples.loss)
    assert free.samples.grad_norm is None and len(clipped.samples.grad_norm) == 5


def test_figures_stay_on_the_device_as_tensors() -> None:
    step = make_step(nn.Linear(10, 1), precision="fp16", step={"clip_norm": 1.0})
    figures = step(torch.randn(4, 10), torch.randn(4, 1))
    assert tuple(figures) == ("loss", "grad_scale", "grad_norm", "found_inf")
    assert set(step.columns) == set(figures)
    assert all(isinstance(figure, torch.Tensor) and figure.ndim == 0 for figure in figures.values())


def test_sgd_and_adamw_take_their_settings() -> None:
    model = nn.Linear(2, 1)
    sgd = optimizer_for(model, Experiment.model_validate({"optimizer": {"name": "sgd", "momentum": 0.9}}))
    adamw = optimizer_for(model, Experiment.model_validate({"optimizer": {"weight_decay": 0.01}}))
    assert isinstance(sgd, torch.optim.SGD) and sgd.defaults["momentum"] == 0.9
    assert isinstance(adamw, torch.optim.AdamW) and adamw.defaults["weight_decay"] == 0.01
