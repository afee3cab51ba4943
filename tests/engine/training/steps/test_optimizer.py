"""The optimizers and their forms, and learning rates beside PyTorch's own schedulers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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

from engine.experiment.experiment import Experiment, Optimizer, Schedule
from engine.training.steps.plain import build_optimizer, learning_rate_at, no_fused_form


def made(fused: bool | None = None, **settings: Any) -> torch.optim.Optimizer:
    return build_optimizer(nn.Linear(2, 1), Experiment.model_validate({"optimizer": settings}), fused=fused)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD])
def test_the_form_is_pytorchs_own_unless_another_is_wanted(kind: Any) -> None:
    name, default = kind.__name__.lower(), kind(nn.Linear(2, 1).parameters()).defaults
    for optimizer in (made(name=name), made(name=name, fused=False)):
        assert type(optimizer) is kind
        assert all(optimizer.defaults[form] == default[form] for form in ("fused", "foreach"))
    assert made(name=name, fused=True).defaults["fused"] is True


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


STEP_DECAY = {"name": "step", "decay_epochs": 2, "decay_factor": 0.5}
SCHEDULES: list[tuple[int, dict[str, Any], Callable[[torch.optim.Optimizer], LRScheduler]]] = [
    (2, {"name": "cosine", "final_fraction": 0.1}, cosine(1, 0.1)),
    (47, {"name": "cosine"}, cosine(46, 0.0)),
    (3, {"name": "one-cycle", "rise_fraction": 0.5}, one_cycle(3, 0.5)),
    (100, {"name": "one-cycle", "rise_fraction": 0.3}, one_cycle(100, 0.3)),
    (65, STEP_DECAY, partial(StepLR, step_size=2 * EPOCH, gamma=0.5)),
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
