"""The speed of a run, on known numbers, and its validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from engine.experiment.experiment import Measure, Precision
from engine.training.data.batches import Batch
from engine.training.measuring import speed as speeds
from engine.training.measuring.speed import Speed, Tally, ValidationResult, validate
from engine.training.measuring.telemetry import Rows
from engine.training.models.build import build_loss


def rows_of(samples: Sequence[int], seconds: Sequence[float], first: int = 1) -> Rows:
    """Completed steps from number `first` on."""
    nothing = np.zeros(len(seconds))
    return Rows(
        step=np.arange(first, first + len(seconds)),
        samples=np.array(samples),
        seconds=np.cumsum(seconds),
        step_seconds=np.array(seconds, dtype=float),
        wait_seconds=nothing,
        learning_rate=nothing,
        figures={"loss": nothing},
    )


def speed_of(samples: Sequence[int], seconds: Sequence[float], block_steps: int, warmup_steps: int) -> Speed:
    tally = Tally(Measure(block_steps=block_steps, warmup_steps=warmup_steps))
    tally.add(rows_of(samples, seconds), warmup_steps)
    return tally.speed()


@pytest.mark.parametrize(
    ("samples", "seconds", "warmup_steps", "speed"),
    [
        ([64] * 60, [9.0] * 10 + [0.02] * 50, 10, 3_200),
        ([64] * 50, [0.02] * 7 + [5.0] + [0.02] * 42, 0, 3_200),
        (([64] * 9 + [16]) * 5, [0.01] * 50, 0, (64 * 9 + 16) / 0.1),
    ],
    ids=["a slow warm-up", "one slow block", "smaller batches"],
)
def test_the_speed_is_the_median_over_blocks(samples, seconds, warmup_steps, speed) -> None:
    found = speed_of(samples, seconds, 10, warmup_steps)
    assert found.samples_per_second == pytest.approx(speed) and found.note is None
    assert found.step_ms == pytest.approx(1e3 * np.median(seconds))


def test_measured_steps_in_which_something_was_compiled_are_in_no_block() -> None:
    seconds = [3.0, *[0.02] * 19, 5.0, *[0.02] * 41]
    tally = Tally(Measure(block_steps=10, warmup_steps=10))
    # the first is part of the warm-up
    for first in (0, 31):
        rows = rows_of([64] * 31, seconds[first : first + 31], first + 1)
        tally.add(rows, 10, [1, 21, 40])
    found = tally.summary(steps_per_epoch=62, is_scaled=False)
    assert tally.speed().interval == pytest.approx((3_200, 3_200))
    assert (tally.recompiled.steps, tally.recompiled.seconds) == (2, pytest.approx(5.02))
    assert found.warmup_steps == 10 and tally.measured.steps == 52


def test_a_step_that_compiled_again_is_named_where_the_run_is_too_short() -> None:
    tally = Tally(Measure(block_steps=10, warmup_steps=10))
    tally.add(rows_of([64] * 60, [0.02] * 60, 1), 10, [30])
    assert tally.speed().note == (
        "The run had 60 steps. At least 61 are needed to measure throughput "
        "(10 to warm up, 1 to compile again, 5 blocks of 10)."
    )


@pytest.mark.parametrize("steps", [1, 29, 59])
def test_a_short_run_says_why_it_has_no_speed(steps: int) -> None:
    speed = speed_of([64] * steps, [0.02] * steps, block_steps=10, warmup_steps=10)
    assert speed.samples_per_second is speed.interval is speed.step_ms is None
    assert speed.note is not None and speed.note.startswith(f"The run had {steps} step")
    assert speed.note.endswith(
        "At least 60 are needed to measure throughput (10 to warm up, 5 blocks of 10)."
    )


def test_a_run_that_was_slow_for_a_while_is_less_steady_than_one_that_was_slow_now_and_then() -> None:
    slow = np.random.default_rng(0).random(400) < 0.5
    now_and_then = speed_of([64] * 400, np.where(slow, 0.022, 0.02).tolist(), 4, 0).interval
    for_a_while = speed_of([64] * 400, np.where(np.sort(slow), 0.022, 0.02).tolist(), 4, 0).interval
    assert now_and_then is not None and for_a_while is not None
    assert for_a_while[1] - for_a_while[0] > 2 * (now_and_then[1] - now_and_then[0])


@given(st.lists(st.floats(1e-5, 10), min_size=15, max_size=60), st.integers(1, 3))
def test_the_interval_holds_the_median_of_the_blocks(seconds: list[float], block_steps: int) -> None:
    speed = speed_of([8] * len(seconds), seconds, block_steps, 0)
    assert speed.samples_per_second is not None and speed.interval is not None
    low, high = speed.interval
    assert 8 / max(seconds) * 0.999 <= low <= speed.samples_per_second <= high <= 8 / min(seconds) * 1.001


def test_steps_count_alike_however_they_arrive() -> None:
    seconds = np.random.default_rng(0).uniform(0.01, 0.03, 997).tolist()
    tally = Tally(Measure(block_steps=7, warmup_steps=10))
    for first in range(0, len(seconds), 50):
        part = seconds[first : first + 50]
        tally.add(rows_of([8] * len(part), part, 1 + first), 10)
    assert tally.speed() == speed_of([8] * len(seconds), seconds, 7, 10)
    assert (tally.warm_up.steps, tally.measured.steps, tally.measured.samples) == (10, 987, 987 * 8)
    assert tally.measured.seconds == pytest.approx(sum(seconds[10:]))


def test_what_is_compiled_late_makes_all_before_it_warm_up() -> None:
    tally = Tally(Measure(block_steps=1, warmup_steps=2))
    tally.add(rows_of([8] * 20, [0.5] * 20), 2)
    tally.add(rows_of([8] * 20, [9.0] + [0.1] * 19, 21), 21)
    assert (tally.warm_up.steps, tally.measured.steps) == (21, 19)
    assert tally.summary(steps_per_epoch=10, is_scaled=False).warmup_seconds == pytest.approx(19.0)
    assert tally.speed().samples_per_second == pytest.approx(80)


def test_a_run_of_any_length_keeps_a_bounded_number_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeds, "MOST_BLOCKS", 64)
    generator = np.random.default_rng(0)
    seconds = generator.uniform(0.01, 0.03, 100_000)
    blocks = speeds.Blocks(5)
    for part in np.array_split(seconds, 731):
        blocks.add(np.full(len(part), 8), part)
    assert 32 <= len(blocks.seconds) == len(blocks.samples) < 64
    kept = len(blocks.seconds) * blocks.steps
    assert 100_000 - kept < blocks.steps and sum(blocks.samples) == 8 * kept
    np.testing.assert_allclose(blocks.seconds, seconds[:kept].reshape(-1, blocks.steps).sum(axis=1))


CPU = torch.device("cpu")


class Echo(nn.Module):
    """Is sure of what it is given; remembers how it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(10.0))
        self.was_training = True
        self.autocasts: list[bool] = []

    def forward(self, classes: torch.Tensor) -> torch.Tensor:
        self.was_training = self.training
        self.autocasts.append(torch.is_autocast_enabled("cpu"))
        return nn.functional.one_hot(classes, 4) * self.weight


def validated(
    batches: list[Batch],
    *,
    model: Echo | None = None,
    task: Any = "classification",
    precision: Precision = Precision.FP32,
    must_end: Callable[[], bool] = lambda: False,
) -> ValidationResult | None:
    return validate(
        model or Echo(), batches, build_loss(task), precision=precision, device=CPU, must_end=must_end
    )


def test_a_small_last_batch_counts_for_its_samples_alone() -> None:
    right, wrong = torch.tensor([0, 1, 2]), torch.tensor([3])
    found = validated([(right, right), (wrong, torch.tensor([0]))])
    assert found is not None and found.accuracy == 0.75
    sure = torch.tensor([10.0, 0, 0, 0]).log_softmax(0)
    assert found.loss == pytest.approx(-(3 * float(sure[0]) + float(sure[1])) / 4)


def test_a_sequence_counts_each_of_its_tokens() -> None:
    inputs = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 0]])
    targets = torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
    found = validated([(inputs, targets)], task="language")
    assert found is not None and found.accuracy == 0.75


def test_the_model_is_in_evaluation_mode_meanwhile_and_trains_again_afterwards() -> None:
    model, classes = Echo(), torch.tensor([0, 1])
    found = validated([(classes, classes)], model=model, precision=Precision.BF16)
    assert found is not None and found.accuracy == 1
    assert not model.was_training and model.training and model.weight.grad is None
    assert model.autocasts == [True]


def test_it_ends_early_when_asked() -> None:
    model, classes = Echo(), torch.tensor([0, 1])
    found = validated([(classes, classes)] * 3, model=model, must_end=lambda: bool(model.autocasts))
    assert found is None and len(model.autocasts) == 1 and model.training
