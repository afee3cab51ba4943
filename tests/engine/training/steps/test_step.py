"""The plain step against a loop by hand; loss scaling, clipping and accumulation, step by step."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from engine.experiment.experiment import Experiment, layered
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step

CPU = torch.device("cpu")
DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16, "fp16-unscaled": torch.float16}
OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, float]]] = {
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.1}),
    "adam": (torch.optim.Adam, {"weight_decay": 0.1}),
    "sgd": (torch.optim.SGD, {"weight_decay": 0.1, "momentum": 0.9}),
}


def small_cnn() -> nn.Module:
    """A CNN so small that a CPU which only emulates FP16 trains it fast."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(144, 4))


def pictures(number: int, size: int = 4) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(size, 1, 8, 8, generator=generator), torch.randint(4, (size,), generator=generator))
        for _ in range(number)
    ]


def step_of(model: nn.Module, *tables: Any, loss: Any = cross_entropy) -> PlainStep:
    experiment = Experiment.model_validate(layered(*tables))
    return build_step(model, loss, experiment, CPU, is_convolutional=True)


def figure(step: PlainStep, row: torch.Tensor, name: str) -> float:
    return row[step.columns.index(name)].item()


def losses_by_hand(
    precision: str, optimizer_name: str, clip_norm: float | None, accumulation: int
) -> list[float]:
    """The loop as the guides write it."""
    model = small_cnn()
    kind, settings = OPTIMIZERS[optimizer_name]
    optimizer = kind(model.parameters(), lr=0.01, **settings)  # type: ignore[call-arg]
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16", init_scale=1024, growth_interval=3)
    dtype, losses, loss_of_step = DTYPES[precision], [], 0.0
    for number, (inputs, targets) in enumerate(pictures(8), start=1):
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = cross_entropy(model(inputs), targets) / accumulation
        scaler.scale(loss).backward()
        loss_of_step = loss.detach() + loss_of_step
        if number % accumulation == 0:
            if clip_norm is not None:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            losses.append(loss_of_step.item())
            loss_of_step = 0.0
    return losses


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize(
    ("optimizer", "clip_norm", "accumulation"),
    [("adamw", None, 1), ("adam", 0.1, 4), ("sgd", 0.1, 2)],
)
def test_losses_are_bit_for_bit_those_of_a_loop_by_hand(precision, optimizer, clip_norm, accumulation):
    step = step_of(
        small_cnn(),
        {
            "precision": precision,
            "optimizer": {"name": optimizer, "learning_rate": 0.01, **OPTIMIZERS[optimizer][1]},
            "scaler": {"init_scale": 1024, "growth_interval": 3},
            "step": {"clip_norm": clip_norm, "gradient_accumulation": accumulation},
        },
    )
    batches = iter(pictures(8))
    groups = [list(itertools.islice(batches, accumulation)) for _ in range(8 // accumulation)]
    losses = [step(group)[0].item() for group in groups]
    assert losses == losses_by_hand(precision, optimizer, clip_norm, accumulation)


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


def test_the_largest_scale_is_survived_and_a_small_one_grows_after_clean_steps(hello: Any) -> None:
    run = hello(precision="fp16", epochs=5, scaler={"init_scale": 2.0**127})
    assert run.skipped_steps == [1, 2, 3, 4, 5] and run.summary.final_grad_scale == 2.0**122
    run = hello(precision="fp16", epochs=6, scaler={"init_scale": 8, "growth_interval": 2})
    assert run.samples.grad_scale == (8, 8, 16, 16, 32, 32)
    assert run.summary.final_grad_scale == 64 and run.summary.skipped_steps == 0


def test_bf16_takes_a_scaler_when_asked(hello: Any) -> None:
    assert hello(precision="bf16").summary.final_grad_scale is None
    assert hello(precision="bf16", scaler={"mode": "on"}).summary.final_grad_scale == 65_536


def values_of(step: PlainStep) -> list[torch.Tensor]:
    """Parameters and the optimizer's state."""
    state = [value for entry in step.optimizer.state.values() for value in entry.values()]
    return [tensor.detach().clone() for tensor in (*step.model.parameters(), *state)]


@pytest.mark.parametrize("clip_norm", [None, 0.1])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
@pytest.mark.parametrize("at", [0, 2])
def test_an_infinite_gradient_skips_exactly_its_step(optimizer, fused, clip_norm, at):
    model = small_cnn()
    step = step_of(
        model,
        {
            "precision": "bf16",
            "optimizer": {"name": optimizer, "fused": fused, "momentum": 0.9 if optimizer == "sgd" else 0},
            "scaler": {"mode": "on", "init_scale": 1024},
            "step": {"clip_norm": clip_norm},
        },
    )
    weight = next(model.parameters())
    rows = []
    for number, batch in enumerate(pictures(5)):
        # The first step of an optimizer has no state yet: what it makes then must be as if it had not been.
        before = values_of(step)
        hook = weight.register_hook(lambda gradient: gradient * torch.inf) if number == at else None
        rows.append(step([batch]).clone())
        if hook is not None:
            hook.remove()
            after = values_of(step)
            assert all(torch.equal(now, then) for now, then in zip(after, before, strict=False))
            assert not any(extra.any() for extra in after[len(before) :])
    found = [figure(step, row, "found_inf") for row in rows]
    scales = [figure(step, row, "grad_scale") for row in rows]
    assert found == [float(number == at) for number in range(5)]
    assert scales == [1024.0 if number <= at else 512.0 for number in range(5)]
    assert all(torch.isfinite(value).all() for value in values_of(step))


def test_fused_and_unfused_agree_after_a_skipped_first_step() -> None:
    settings = {"precision": "bf16", "scaler": {"mode": "on"}}
    sgd = {"name": "sgd", "momentum": 0.9, "weight_decay": 0.1}
    ended = []
    for fused in (False, True):
        model = small_cnn()
        step = step_of(model, settings, {"optimizer": {**sgd, "fused": fused}})
        hook = next(model.parameters()).register_hook(lambda gradient: gradient * torch.inf)
        batches = pictures(4)
        step(batches[:1])
        hook.remove()
        for batch in batches[1:]:
            step([batch])
        ended.append(values_of(step))
    for unfused, fused_one in zip(*ended, strict=True):
        torch.testing.assert_close(fused_one, unfused)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_gradients_are_clipped_after_unscaling(precision: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(10, 1)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    step = step_of(
        model,
        {
            "precision": precision,
            "scaler": {"init_scale": 256},
            "optimizer": {"name": "sgd", "learning_rate": 1},
            "step": {"clip_norm": 0.01},
        },
        loss=mse_loss,
    )
    row = step([(torch.randn(20, 10), 5 + torch.randn(20, 1))])
    moved = [now - then for now, then in zip(model.parameters(), before, strict=True)]
    assert torch.cat([part.flatten() for part in moved]).norm().item() == pytest.approx(0.01, rel=1e-3)
    assert figure(step, row, "grad_norm") > 1


def test_a_small_gradient_is_not_clipped(hello: Any) -> None:
    free, clipped = hello(epochs=5), hello(epochs=5, step={"clip_norm": 1e6})
    assert clipped.samples.loss == pytest.approx(free.samples.loss)
    assert free.samples.grad_norm is None and len(clipped.samples.grad_norm) == 5


@pytest.mark.parametrize(("precision", "sizes"), [("fp32", [4] * 4), ("fp16", [4] * 4), ("fp32", [11, 5])])
def test_accumulating_parts_equals_the_whole_each_sample_alike(precision: str, sizes: list[int]) -> None:
    settings = {
        "precision": precision,
        "scaler": {"init_scale": 1024},
        "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9},
        "step": {"clip_norm": 1.0},
    }
    whole, parts = step_of(small_cnn(), settings), step_of(small_cnn(), settings)
    tolerance = 1e-5 if precision == "fp32" else 2e-3
    for batch in pictures(5, size=16):
        group = list(zip(batch[0].split(sizes), batch[1].split(sizes), strict=True))
        expected = whole([batch])
        torch.testing.assert_close(parts(group), expected, rtol=tolerance, atol=tolerance)
    for one, other in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=tolerance, atol=tolerance)


def test_the_learning_rate_can_be_set_for_each_step() -> None:
    model = nn.Linear(10, 1)
    step = step_of(model, {"optimizer": {"name": "sgd", "learning_rate": 1}}, loss=mse_loss)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    step.set_learning_rate(0.0)
    step([(torch.randn(4, 10), torch.randn(4, 1))])
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))
    step.set_learning_rate(0.5)
    step([(torch.randn(4, 10), torch.randn(4, 1))])
    assert torch.equal(model.weight, before[0] - 0.5 * model.weight.grad)
