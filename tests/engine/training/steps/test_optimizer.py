"""The optimizers and their forms, and learning rates beside PyTorch's own schedulers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    OneCycleLR,
    SequentialLR,
    StepLR,
)

from engine.experiment.experiment import Experiment, Optimizer, Schedule, all_settings
from engine.training.steps.plain import learning_rate_at, no_fused_form, optimizer_for


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


PEAK, EPOCH = 0.3, 10


def rates(total_steps: int, **settings: Any) -> list[float]:
    optimizer, schedule = Optimizer(learning_rate=PEAK), Schedule(**settings)
    return [learning_rate_at(step, optimizer, schedule, total_steps, EPOCH) for step in range(total_steps)]


def oracle(total_steps: int, make: Callable[[torch.optim.Optimizer], LRScheduler]) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = make(optimizer)
    found = []
    for _ in range(total_steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step() if len(found) < total_steps else None
    return found


def cosine(steps: int, lowest: float) -> Callable[[torch.optim.Optimizer], LRScheduler]:
    return lambda optimizer: CosineAnnealingLR(optimizer, T_max=steps, eta_min=PEAK * lowest)


def one_cycle(steps: int, rise: float) -> Callable[[torch.optim.Optimizer], LRScheduler]:
    return lambda optimizer: OneCycleLR(
        optimizer, PEAK, total_steps=steps, pct_start=rise, cycle_momentum=False
    )


def warmed_up(optimizer: torch.optim.Optimizer) -> LRScheduler:
    rise = LinearLR(optimizer, start_factor=1 / 6, total_iters=5)
    return SequentialLR(optimizer, [rise, cosine(24, 0.1)(optimizer)], milestones=[5])


SCHEDULES: list[tuple[int, dict[str, Any], Callable[[torch.optim.Optimizer], LRScheduler]]] = [
    *(
        (total, {"name": "cosine", "final_fraction": lowest}, cosine(total - 1, lowest))
        for total in (2, 47)
        for lowest in (0.0, 0.1)
    ),
    *(
        (total, {"name": "one-cycle", "rise_fraction": rise}, one_cycle(total, rise))
        for total in (3, 10, 100)
        for rise in (0.3, 0.5)
    ),
    *(
        (
            65,
            {"name": "step", "decay_epochs": 2, "decay_factor": factor},
            partial(StepLR, step_size=2 * EPOCH, gamma=factor),
        )
        for factor in (0.1, 0.5)
    ),
    (12, {"warmup_steps": 4}, partial(LinearLR, start_factor=1 / 5, total_iters=4)),
    (30, {"name": "cosine", "warmup_steps": 5, "final_fraction": 0.1}, warmed_up),
]


@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step")
@pytest.mark.parametrize(("total_steps", "settings", "make"), SCHEDULES)
def test_the_rates_are_those_of_pytorchs_schedulers(total_steps, settings, make) -> None:
    assert rates(total_steps, **settings) == pytest.approx(oracle(total_steps, make), rel=1e-9, abs=1e-12)


def test_a_rate_is_exactly_the_peak_or_its_end() -> None:
    assert rates(5) == [PEAK] * 5
    assert rates(12, warmup_steps=4)[4:] == [PEAK] * 8
    assert rates(47, name="cosine")[0] == PEAK and rates(47, name="cosine")[-1] == 0
    # epochs of the step schedule count from the run's begin
    found = rates(25, name="step", warmup_steps=5, decay_epochs=1)
    assert found[5:10] == [PEAK] * 5 and found[10:20] == pytest.approx([PEAK * 0.1] * 10)


def test_settings_and_guide_say_how_a_warm_up_counts() -> None:
    found = rates(20, name="cosine", warmup_steps=4)
    assert found[:2] == pytest.approx([PEAK / (4 + 1), 2 * PEAK / (4 + 1)])
    assert found[4] == PEAK and found[-1] == 0
    assert "1/(warm-up + 1)" in all_settings()["schedule.warmup_steps"].about
    guide = files("resources").joinpath("guide", "accuracy-differs.md").read_text(encoding="utf-8")
    assert "1/(`w` + 1) of the peak" in guide and "CosineAnnealingLR" in guide
