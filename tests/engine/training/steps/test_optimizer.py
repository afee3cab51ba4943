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
from engine.experiment.problem import ProblemError
from engine.training.steps.optimizers import build_optimizer, no_fused_form
from engine.training.steps.plain import learning_rate_at


def made(fused: bool | None = None, **settings: Any) -> torch.optim.Optimizer:
    return build_optimizer(nn.Linear(2, 1), Experiment.model_validate({"optimizer": settings}), fused=fused)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD])
def test_the_form_is_pytorchs_own_unless_another_is_wanted(kind: Any) -> None:
    name, default = kind.__name__.lower(), kind(nn.Linear(2, 1).parameters()).defaults
    for optimizer in (made(name=name), made(name=name, fused=False)):
        assert type(optimizer) is kind
        assert all(optimizer.defaults[form] == default[form] for form in ("fused", "foreach"))
    assert made(name=name, fused=True).defaults["fused"] is True


class Text(nn.Module):
    """Embeddings, a block, a table of biases, and a head whose weight may be the embedding's."""

    def __init__(self, *, is_tied: bool = False) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(7, 4), nn.Embedding(5, 4)
        self.pos_embed, self.bias_table = nn.Parameter(torch.randn(5, 4)), nn.Parameter(torch.randn(3, 3))
        self.up, self.norm, self.down = nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.head = nn.Linear(4, 7, bias=False)
        if is_tied:
            self.head.weight = self.tokens.weight


MUON = Experiment.model_validate({"optimizer": {"name": "muon", "learning_rate": 0.02, "weight_decay": 0.1}})


@pytest.mark.parametrize("is_tied", [False, True])
def test_muon_updates_the_2d_weights_of_hidden_layers_and_adamw_the_rest(is_tied: bool) -> None:
    model = Text(is_tied=is_tied)
    names = {id(weight): name for name, weight in model.named_parameters()}
    muon, rest = build_optimizer(model, MUON).members
    assert [names[id(weight)] for weight in muon.param_groups[0]["params"]] == ["up.weight", "down.weight"]
    assert type(muon) is torch.optim.Muon and type(rest) is torch.optim.AdamW
    others = {names[id(weight)] for weight in rest.param_groups[0]["params"]}
    assert others == set(names.values()) - {"up.weight", "down.weight"}


def by_hand(weight: torch.Tensor, gradients: list[torch.Tensor]) -> torch.Tensor:
    """Muon as in Jordan's post, with the step size of Moonshot's paper. Its iteration is in bfloat16."""
    weight, momentum = weight.clone(), torch.zeros_like(weight)
    for gradient in gradients:
        momentum = 0.95 * momentum + 0.05 * gradient
        direction = (0.05 * gradient + 0.95 * momentum).bfloat16()
        is_tall = weight.shape[0] > weight.shape[1]
        direction = (direction.T if is_tall else direction) / direction.norm().clamp(min=1e-7)
        for _ in range(5):
            # each result is rounded once
            whole = direction.float()
            squared = (whole @ whole.T).bfloat16().float()
            mixed = (-4.775 * squared + 2.0315 * squared @ squared).bfloat16().float()
            direction = (3.4445 * whole + mixed @ whole).bfloat16()
        step = (direction.T if is_tall else direction).float()
        weight = weight * (1 - 0.02 * 0.1) - 0.02 * 0.2 * max(weight.shape) ** 0.5 * step
    return weight


def test_muons_update_is_that_of_a_reference_by_hand_within_rounding() -> None:
    torch.manual_seed(0)
    model = Text()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer, gradients = build_optimizer(model, MUON), {name: [] for name in before}
    for _ in range(3):
        for name, weight in model.named_parameters():
            weight.grad = torch.randn_like(weight)
            gradients[name].append(weight.grad.clone())
        optimizer.step()
    for name in ("up.weight", "down.weight"):
        moved = model.get_parameter(name).detach() - before[name]
        wanted = by_hand(before[name], gradients[name]) - before[name]
        assert (moved - wanted).norm() < 0.01 * wanted.norm()
    assert not torch.equal(model.head.weight, before["head.weight"])


def test_a_model_without_such_weights_is_refused() -> None:
    with pytest.raises(ProblemError, match="has no 2D weights in hidden layers"):
        build_optimizer(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(2, 1)), MUON)


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
