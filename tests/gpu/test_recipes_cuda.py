"""The recipes on a CUDA device: synchronizations, losses, and all that must work under capture."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from day.waits import WARM, waits_in
from engine.experiment.experiment import Experiment, layered
from engine.protocol.events import PhaseName
from engine.training.measuring.speed import validate
from engine.training.models.build import build_model
from engine.training.precision import float32_mode
from engine.training.steps.plain import PlainStep
from engine.training.steps.recipe import build_step

pytestmark = [
    pytest.mark.usefixtures("compiled_in_this_process"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
    # torch 2.11 uses what it deprecates as it loads its compiler
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
    pytest.mark.timeout(600),  # compiling a large model takes its time
]
Batch = tuple[torch.Tensor, torch.Tensor]

CARD = torch.device("cuda:0")
STEADY = {"measure": {"warmup_steps": 3}}
RECIPES = ("plain", "fused", "fused+capture", "fast")
NO_NORMS = {"host_counters": "the model has no BatchNorm counters to move"}


def pictures(number: int, *, size: int = 32, side: int = 16, classes: int = 10) -> list[Batch]:
    generator = torch.Generator(CARD).manual_seed(1)
    return [
        (
            torch.randn(size, 3, side, side, device=CARD, generator=generator),
            torch.randint(classes, (size,), device=CARD, generator=generator),
        )
        for _ in range(number)
    ]


def step_of(recipe: str, *tables: Any, model: nn.Module | None = None) -> PlainStep:
    experiment = Experiment.model_validate(layered(STEADY, {"step": {"recipe": recipe}}, *tables))
    if model is None:
        model = build_model("small-cnn", image_size=16, channels=3, num_classes=10, seed=0)
    return build_step(model, cross_entropy, experiment, CARD, is_convolutional=True)


def train(step: PlainStep, groups: list[list[Batch]], rates: list[float] | None = None) -> torch.Tensor:
    """Rows of figures (steps, columns), on the CPU."""
    rows = []
    for number, group in enumerate(groups):
        if rates is not None:
            step.set_learning_rate(rates[number])
        rows.append(step(group).clone())
    return torch.stack(rows).cpu()


def column(step: PlainStep, rows: torch.Tensor, name: str) -> list[float]:
    found: list[float] = rows[:, step.columns.index(name)].tolist()
    return found


@pytest.mark.parametrize("clip_norm", [None, 1.0])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_only_the_plain_recipes_scaler_waits_for_the_device(
    recipe: str, precision: str, clip_norm: float | None
) -> None:
    step = step_of(recipe, {"precision": precision, "step": {"clip_norm": clip_norm}})
    expected = 5 if recipe == "plain" and precision == "fp16" else 0
    assert waits_in(step, pictures(5)) == expected


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_no_fast_optimizer_waits_for_the_device(optimizer: str) -> None:
    momentum = 0.9 if optimizer == "sgd" else 0.0
    settings = {"precision": "fp16", "optimizer": {"name": optimizer, "momentum": momentum}}
    step = step_of("fused+capture", settings)
    assert waits_in(step, pictures(5)) == 0 and step.record.recipe == "fused+capture"


def test_the_fast_recipe_is_had_whole_and_says_what_it_does() -> None:
    step = step_of("fast", {"precision": "fp16"})
    phases = []
    for batch in pictures(1) * 6:
        phases.append(step.next_phase())
        step([batch])
    assert phases[:4] == [
        PhaseName.COMPILING, PhaseName.WARMING_UP, PhaseName.WARMING_UP, PhaseName.CAPTURING
    ]  # fmt: skip
    assert phases[4:] == [None, None]
    assert step.record.left_out == NO_NORMS and len(step.record.pop_notes()) == 1
    assert step.compile_seconds and step.capture_seconds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "of_loss", "of_norm"), [("fp32", 1e-3, 0.01), ("bf16", 0.01, 0.1), ("fp16", 0.01, 0.1)]
)
def test_fast_and_plain_lose_the_same_from_the_same_weights(
    precision: str, of_loss: float, of_norm: float
) -> None:
    """Each step begins anew from plain's weights: left alone, rounding alone parts two runs of AdamW."""
    # a limit that no gradient reaches: the norm is told, and nothing is clipped
    settings = {"precision": precision, "scaler": {"init_scale": 1024}, "step": {"clip_norm": 1e9}}
    batches = pictures(4, size=64, side=224, classes=1_000)
    with float32_mode(Experiment.model_validate(settings).precision):
        steps = []
        for recipe in ("plain", "fast"):
            model = build_model("resnet50", image_size=224, channels=3, num_classes=1_000, seed=0)
            steps.append(step_of(recipe, settings, model=model))
        rows: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
        for number in range(20):
            for step, told in zip(steps, rows, strict=True):
                told.append(step([batches[number % 4]]).cpu())
            align(*steps)
    assert steps[1].record.recipe == "fast"
    plain, fast = (torch.stack(told) for told in rows)
    for name, tolerance in (("loss", of_loss), ("grad_norm", of_norm)):
        at = steps[0].columns.index(name)
        torch.testing.assert_close(fast[:, at], plain[:, at], rtol=tolerance, atol=0.0)


def align(model: PlainStep, copy: PlainStep) -> None:
    """Give one step's weights, buffers and optimizer state to another, in the memory that is there."""
    with torch.no_grad():
        for one, other in zip(tensors_of(model), tensors_of(copy), strict=True):
            other.copy_(one)


def tensors_of(step: PlainStep) -> list[torch.Tensor]:
    parameters = list(step.model.parameters())
    state = [step.optimizer.state[parameter] for parameter in parameters]
    # BatchNorm's counters on the host are no buffers
    buffers = [buffer for buffer in step.model.buffers() if buffer.is_floating_point()]
    return [*parameters, *buffers, *(entry[name] for entry in state for name in sorted(entry))]


@pytest.mark.parametrize("recipe", ["fused+capture", "fast"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_odd_groups_schedules_clipping_and_validation_work_under_capture(precision: str, recipe: str) -> None:
    whole, odd = pictures(2, size=16), pictures(1, size=7)
    # two epochs whose last group has fewer batches, the last of them smaller
    groups = [[whole[0], whole[1]]] * 7 + [[whole[0], odd[0]]] + [[whole[1], whole[0]]] * 4 + [odd]
    rates = [0.05 / (number + 1) for number in range(len(groups))]
    settings = {
        "precision": precision,
        "optimizer": {"name": "sgd", "momentum": 0.9},
        "scaler": {"init_scale": 1024},
        "step": {"clip_norm": 1.0, "gradient_accumulation": 2},
    }
    found = []
    for name in ("plain", recipe):
        step = step_of(name, settings)
        rows = [train(step, groups[:8], rates[:8])]
        experiment = Experiment.model_validate({"precision": precision})
        seen = validate(
            step.model,
            whole,
            cross_entropy,
            precision=experiment.precision,
            device=CARD,
            must_end=lambda: False,
        )
        assert seen is not None
        rows.append(train(step, groups[8:], rates[8:]))
        found.append((torch.cat(rows), torch.tensor([seen.loss])))
        assert step.record.left_out == (NO_NORMS if name == "fast" else {})
    tolerance = 1e-3 if precision == "fp32" else 2e-2
    torch.testing.assert_close(found[1][0], found[0][0], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found[1][1], found[0][1], rtol=tolerance, atol=tolerance)


def test_a_learning_rate_of_zero_under_capture_moves_nothing() -> None:
    step = step_of("fused+capture")
    batches = pictures(2)
    train(step, [[batches[0]]] * WARM)
    before = [parameter.detach().clone() for parameter in step.model.parameters()]
    step.set_learning_rate(0.0)
    step([batches[1]])
    assert all(torch.equal(one, other) for one, other in zip(step.model.parameters(), before, strict=True))
    step.set_learning_rate(0.1)
    step([batches[1]])
    assert not torch.equal(next(step.model.parameters()), before[0])


@pytest.mark.parametrize("clip_norm", [None, 1.0])
@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_an_infinite_gradient_skips_exactly_its_step(
    recipe: str, optimizer: str, clip_norm: float | None
) -> None:
    momentum = 0.9 if optimizer == "sgd" else 0.0
    step = step_of(
        recipe,
        {
            "precision": "fp16",
            "optimizer": {"name": optimizer, "momentum": momentum},
            "scaler": {"init_scale": 1024},
            "step": {"clip_norm": clip_norm},
        },
    )
    good = pictures(1)[0]
    bad = (torch.full_like(good[0], torch.inf), good[1])
    # first while it warms up, in the very first step, then among replays
    at = (0, WARM + 1)
    rows = []
    for number in range(WARM + 4):
        before = values_of(step)
        rows.append(step([bad if number in at else good]).clone())
        if number == WARM + 1:
            assert all(torch.equal(one, other) for one, other in zip(values_of(step), before, strict=True))
    table = torch.stack(rows).cpu()
    assert column(step, table, "found_inf") == [float(number in at) for number in range(WARM + 4)]
    scales = [1024.0 / 2 ** sum(number > skipped for skipped in at) for number in range(WARM + 4)]
    assert column(step, table, "grad_scale") == scales
    assert all(torch.isfinite(value).all() for value in values_of(step))


def values_of(step: PlainStep) -> list[torch.Tensor]:
    """Parameters and the optimizer's state."""
    state = [value for entry in step.optimizer.state.values() for value in entry.values()]
    return [tensor.detach().clone() for tensor in (*step.model.parameters(), *state)]


class Peeking(nn.Module):
    """Reads a value on the host, which no graph can hold; drops some at random."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(3 * 16 * 16, 10)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        flat = nn.functional.dropout(inputs.flatten(1), 0.5, training=self.training)
        outputs: torch.Tensor = self.last(flat)
        return outputs * (1.0 if outputs.sum().item() > 0 else 0.5)


def test_a_model_that_cannot_be_captured_trains_on_as_if_it_had_never_been_tried() -> None:
    losses = []
    for recipe in ("fused", "fused+capture"):
        torch.manual_seed(0)
        step = step_of(recipe, {"precision": "fp16", "scaler": {"init_scale": 1024}}, model=Peeking())
        losses.append(train(step, [[batch] for batch in pictures(4) * 3]))
    assert "capture" in step.record.left_out and step.record.recipe == "fused" and step.next_phase() is None
    assert len(step.record.pop_notes()) == 1
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-3, atol=1e-3)


def test_random_numbers_differ_from_replay_to_replay() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(3 * 16 * 16, 10))
    step = step_of("fused+capture", model=model)
    step.set_learning_rate(0.0)
    losses = train(step, [[batch] for batch in pictures(1) * (WARM + 6)])[:, 0]
    assert step.record.recipe == "fused+capture" and len(set(losses[WARM:].tolist())) == 6


def test_batches_that_keep_changing_their_shape_go_without_capture() -> None:
    step = step_of("fused+capture")
    train(step, [[pictures(1, side=16 + number)[0]] for number in range(12)])
    assert step.record.left_out == {"capture": "the shape of the batches changes"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"precision": "fp16"}, "the loss scaler synchronizes with the GPU unless the optimizer is fused"),
        ({"optimizer": {"name": "sgd"}}, "SGD reads its learning rate on the host unless it is fused"),
    ],
)
def test_capture_needs_a_fused_optimizer_where_another_would_wait(
    settings: dict[str, Any], reason: str
) -> None:
    assert step_of("capture", settings).record.left_out == {"capture": reason}
    assert step_of("capture", {"precision": "bf16"}).record.left_out == {}


def test_unfused_adam_is_captured_where_there_is_no_scaler() -> None:
    step = step_of("capture", {"precision": "bf16", "step": {"clip_norm": 1.0}})
    assert waits_in(step, pictures(5)) == 0 and step.record.recipe == "capture"
