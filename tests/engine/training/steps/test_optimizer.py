"""The optimizers and their forms."""

from __future__ import annotations

from collections.abc import Callable
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


def warmed_up(
    optimizer: torch.optim.Optimizer, steps: int, rest: Callable[[torch.optim.Optimizer], LRScheduler]
) -> LRScheduler:
    rise = LinearLR(optimizer, start_factor=1 / (steps + 1), total_iters=steps)
    return SequentialLR(optimizer, [rise, rest(optimizer)], milestones=[steps])


def test_settings_and_guide_say_how_a_warm_up_counts() -> None:
    found = rates(20, name="cosine", warmup_steps=4)
    assert (
        found[:2] == pytest.approx([PEAK / (4 + 1), 2 * PEAK / (4 + 1)])
        and found[4] == PEAK
        and found[-1] == 0
    )
    assert "1/(warm-up + 1)" in all_settings()["schedule.warmup_steps"].about
    guide = files("resources").joinpath("guide", "accuracy.md").read_text(encoding="utf-8")
    assert "1/(`w` + 1) of the peak" in guide and "CosineAnnealingLR" in guide


def test_a_constant_rate_stays() -> None:
    assert rates(5) == [PEAK] * 5


@pytest.mark.parametrize("final_fraction", [0.0, 0.1])
@pytest.mark.parametrize("total_steps", [2, 47])
def test_cosine_is_pytorch_s_and_ends_at_its_final_rate(total_steps: int, final_fraction: float) -> None:
    found = rates(total_steps, name="cosine", final_fraction=final_fraction)
    lowest = PEAK * final_fraction
    expected = oracle(total_steps, lambda o: CosineAnnealingLR(o, T_max=total_steps - 1, eta_min=lowest))
    assert found == pytest.approx(expected, abs=1e-12)
    assert found[0] == PEAK and found[-1] == pytest.approx(lowest, abs=1e-12)


@pytest.mark.parametrize("rise_fraction", [0.3, 0.5])
@pytest.mark.parametrize("total_steps", [3, 10, 100])
def test_one_cycle_is_pytorch_s(total_steps: int, rise_fraction: float) -> None:
    found = rates(total_steps, name="one-cycle", rise_fraction=rise_fraction)
    expected = oracle(
        total_steps,
        lambda o: OneCycleLR(o, PEAK, total_steps=total_steps, pct_start=rise_fraction, cycle_momentum=False),
    )
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("decay_factor", [0.1, 0.5])
def test_the_step_schedule_is_pytorch_s(decay_factor: float) -> None:
    found = rates(65, name="step", decay_epochs=2, decay_factor=decay_factor)
    expected = oracle(65, lambda o: StepLR(o, step_size=2 * EPOCH, gamma=decay_factor))
    assert found == pytest.approx(expected, rel=1e-12)
    assert len(set(found)) == 4


def test_a_warm_up_rises_in_a_straight_line_to_the_peak() -> None:
    found = rates(12, warmup_steps=4)
    expected = oracle(12, lambda o: LinearLR(o, start_factor=1 / 5, total_iters=4))
    assert found == pytest.approx(expected, rel=1e-12)
    assert found[0] > 0 and found[4:] == [PEAK] * 8


@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step")
def test_cosine_follows_its_warm_up() -> None:
    found = rates(30, name="cosine", warmup_steps=5, final_fraction=0.1)
    expected = oracle(
        30,
        lambda o: warmed_up(o, 5, lambda inner: CosineAnnealingLR(inner, T_max=24, eta_min=PEAK * 0.1)),
    )
    assert found == pytest.approx(expected, rel=1e-9)


def test_epochs_of_the_step_schedule_count_from_the_run_s_begin() -> None:
    found = rates(25, name="step", warmup_steps=5, decay_epochs=1)
    assert found[5:10] == [PEAK] * 5
    assert found[10:20] == pytest.approx([PEAK * 0.1] * 10)


@pytest.mark.parametrize("name", ["constant", "cosine", "one-cycle", "step"])
def test_a_run_of_one_step_has_a_rate(name: str) -> None:
    (rate,) = rates(1, name=name)
    assert 0 < rate <= PEAK


def test_a_warm_up_longer_than_the_run_never_reaches_the_peak() -> None:
    found = rates(5, name="cosine", warmup_steps=9)
    assert found == sorted(found) and found[-1] == pytest.approx(PEAK / 2)
