"""Pure BF16 against a loop by hand, updates that rounding loses, and torchao's optimizers in few bits."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from engine.experiment.experiment import experiment_from, layered
from engine.protocol.events import PhaseName
from engine.training.measuring.memory import breakdown_of
from engine.training.runs.checkpoints import Checkpoints, capture_state, copy_state, restore_state
from engine.training.runs.run import UnchangedWeights
from engine.training.steps import optimizers
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step
from tests.engine.training.conftest import refusal as refused

CPU = torch.device("cpu")
KINDS = {"adamw-8bit": 8, "adamw-4bit": 4, "adamw-fp8": 8}
PURE = {"precision": "bf16-pure", "device": "cpu"}


def network() -> nn.Module:
    """A weight of 8,192 numbers, and smaller ones."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 4))


def batches(number: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(16, 64, generator=generator), torch.randint(4, (16,), generator=generator))
        for _ in range(number)
    ]


def step_of(*tables: dict[str, Any]) -> PlainStep:
    experiment = experiment_from(layered(PURE, *tables))
    optimizers.check_torchao(experiment, CPU)
    return build_step(network(), cross_entropy, experiment, CPU, is_convolutional=False)


def trained(step: PlainStep, number: int) -> list[float]:
    return [step([batch])[0].item() for batch in batches(number)]


@pytest.fixture
def uncompiled() -> Iterator[None]:
    """torchao's updates as they are written: compiling them takes seconds and changes no result here."""
    torch.compiler.set_stance("force_eager")
    yield
    torch.compiler.set_stance("default")


def test_pure_bf16_is_bit_for_bit_the_loop_by_hand() -> None:
    model = network().to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    expected = []
    for inputs, targets in batches(5):
        loss = cross_entropy(model(inputs.bfloat16()).float(), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    step = step_of()
    assert trained(step, 5) == expected
    state = [value for values in step.optimizer.state.values() for value in values.values() if value.dim()]
    floats = [*step.model.parameters(), *state, *(one.grad for one in step.model.parameters())]
    assert {one.dtype for one in floats} == {torch.bfloat16}
    assert step.model[1].num_batches_tracked == 5


def unchanged(*tables: dict[str, Any]) -> float:
    step = step_of(*tables)
    watch = UnchangedWeights(step.model, total_steps=40)
    for number, batch in enumerate(batches(40)):
        if watch.is_due(number):
            watch.begin()
        step([batch])
        if watch.is_due(number):
            watch.end()
    fraction = watch.fraction
    assert fraction is not None
    return fraction


def test_small_updates_are_lost_and_large_ones_are_not() -> None:
    sgd: dict[str, Any] = {"optimizer": {"name": "sgd", "learning_rate": 1e-7}}
    # only weights that are almost zero move
    assert unchanged(sgd) > 0.95
    assert unchanged({"optimizer": {"learning_rate": 0.05}}) < 0.1


@pytest.mark.usefixtures("uncompiled")
def test_stochastic_rounding_moves_what_rounding_to_the_nearest_leaves() -> None:
    small = {"optimizer": {"learning_rate": 1e-5, "stochastic_rounding": True}}
    weights = []
    for settings in (small, {"optimizer": {"learning_rate": 1e-5}}):
        step = step_of(settings)
        before = step.model[0].weight.detach().clone()
        trained(step, 20)
        weights.append((step.model[0].weight != before).float().mean().item())
    assert weights[0] > 2 * weights[1]


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", KINDS)
def test_only_the_large_weights_have_their_state_in_few_bits(name: str) -> None:
    step = step_of({"precision": "bf16", "optimizer": {"name": name}, "step": {"recipe": "fused+capture"}})
    step.set_learning_rate(0.5)
    rate = step.optimizer.param_groups[0]["lr"]
    trained(step, 1)
    kinds = {type(step.optimizer.state[one]["exp_avg"]).__name__ for one in step.model.parameters()}
    assert kinds == {"Tensor", "OptimStateFp8" if name == "adamw-fp8" else f"OptimState{KINDS[name]}bit"}
    assert isinstance(rate, torch.Tensor) and rate.item() == 0.5
    assert step.record.left_out.keys() == {"fused", "capture"}
    large, small = 64 * 128, 128 + 128 + 128 + 4 * 128 + 4
    by_hand = 2 * (large * KINDS[name] / 8 + 4 * small)
    measured = breakdown_of(step.model, step.optimizer).optimizer_state_mib * 2**20
    assert measured == pytest.approx(by_hand, rel=0.25)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", [*KINDS, "adamw"])
def test_a_run_in_few_bits_resumes_with_the_same_losses(tmp_path: Path, name: str) -> None:
    settings = {"optimizer": {"name": name, "stochastic_rounding": True}}
    first, second = step_of(settings), step_of(settings)
    trained(first, 3)
    state = capture_state(first.model, first.optimizer, first.scaler, {}, CPU)
    Checkpoints(tmp_path).save("last", state)
    kept = copy_state(state)
    expected = trained(first, 3)
    restore_state(Checkpoints(tmp_path).load("last"), second.model, second.optimizer, second.scaler, CPU)
    assert trained(second, 3) == expected
    # a copy is not changed by later steps
    restore_state(kept, second.model, second.optimizer, second.scaler, CPU)
    assert trained(second, 3) == expected


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_the_compiled_update_is_the_one_that_is_written() -> None:
    settings = {"precision": "bf16", "optimizer": {"name": "adamw-8bit"}}
    compiled = step_of(settings)
    assert compiled.next_phase() is PhaseName.COMPILING
    losses = trained(compiled, 4)
    assert compiled.next_phase() is None
    torch.compiler.set_stance("force_eager")
    try:
        assert trained(step_of(settings), 4) == pytest.approx(losses, rel=1e-2)
    finally:
        torch.compiler.set_stance("default")


def refusal(settings: dict[str, Any], device: str = "cpu") -> str:
    asked = experiment_from(layered(PURE, settings))
    problem = refused(optimizers.check_torchao, asked, torch.device(device))
    return f"{problem.message} {problem.remedy}"


def test_what_is_missing_is_said_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    eight, rounding = {"optimizer": {"name": "adamw-8bit"}}, {"optimizer": {"stochastic_rounding": True}}
    assert "torch.compile" in refusal(eight, "mps")
    with monkeypatch.context() as without:
        without.setattr(shutil, "which", lambda name: None)
        assert "no C++ compiler was found" in refusal(rounding)
    with monkeypatch.context() as without:
        without.setattr(optimizers, "_optimizers", lambda: importlib.import_module("torchao.of_old"))
        assert f"does not fit torch {torch.__version__}" in refusal(eight)
    monkeypatch.setattr(optimizers, "find_spec", lambda name: None)
    assert "not installed" in refusal(eight) and "--with torchao" in refusal(eight)
    # other precisions and optimizers need none of it
    optimizers.check_torchao(experiment_from({"precision": "bf16", **rounding}), CPU)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"scaler": {"mode": "on"}}, "scaler.mode"),
        ({"optimizer": {"name": "sgd", "stochastic_rounding": True}}, "optimizer.stochastic_rounding"),
    ],
)
def test_what_contradicts_itself_is_refused(settings: dict[str, Any], key: str) -> None:
    assert refused(experiment_from, layered(PURE, settings)).key == key
