"""A run from its first event to its last."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest
import torch

from engine.experiment.experiment import Experiment, Precision, layered
from engine.experiment.problem import Kind
from engine.protocol.events import Log, Phase, Started
from engine.protocol.jobs import Control
from engine.training.data.batches import DeviceSource
from engine.training.failures import TrainingError
from engine.training.measuring.telemetry import Telemetry
from engine.training.precision import processor
from engine.training.runs.loop import train

from .conftest import HELLO, refusal, trained

CPU_PRECISIONS = [Precision.FP32, Precision.FP16, Precision.BF16]
DIVERGING = {"optimizer": {"learning_rate": 1_000}}


@pytest.mark.parametrize("precision", CPU_PRECISIONS)
def test_the_loss_falls_in_every_precision(hello: Any, precision: Precision) -> None:
    run = hello(precision=precision, epochs=40)
    assert run.samples.loss[-1] < run.samples.loss[0] / 4
    assert run.summary.steps == 40 and run.summary.epochs == 40


@pytest.mark.slow
@pytest.mark.parametrize("precision", [Precision.FP16, Precision.BF16])
def test_every_precision_starts_from_the_same_weights_and_pictures(fashion, precision):
    # a processor may take long over FP16
    reference, other = (
        fashion(precision=name, batch_size=16, image_size=8) for name in (Precision.FP32, precision)
    )
    assert other.samples.loss == pytest.approx(reference.samples.loss, rel=0.02)
    assert other.samples.loss != reference.samples.loss


def test_the_same_seed_gives_the_same_losses_bit_for_bit(fashion: Any) -> None:
    first, second, other = fashion(), fashion(), fashion(seed=1)
    assert first.samples.loss == second.samples.loss != other.samples.loss
    assert first.epochs[-1].validation_loss == second.epochs[-1].validation_loss


def test_events_come_in_order(fashion: Any) -> None:
    run = fashion(steps=12, measure={"warmup_steps": 5})
    told = [event.name if isinstance(event, Phase) else type(event).__name__ for event in run.events]
    without_samples = [name for name, _ in groupby(name for name in told if name != "Samples")]
    assert without_samples == [
        "Started", "building", "Pictures", "warming up", "measuring", "validating", "Epoch", "Log", "Finished"
    ]  # fmt: skip
    assert run.samples.step == tuple(range(1, 13))
    # twelve steps are too few for a speed, and the log says so
    assert run.events[-2].message == f"Throughput: {run.summary.speed_note}"


def test_a_slow_format_is_noted(hello: Any) -> None:
    notes = hello(precision="fp16").started.notes
    assert bool(notes) is not bool(processor().computes_fp16)
    assert all("slow here" in note for note in notes)


def test_the_rest_of_an_epoch_is_trained_too(hello: Any) -> None:
    run = hello(samples=50, epochs=2)
    assert run.started.steps_per_epoch == 3 and run.started.total_steps == 6
    per_second, seconds = run.samples.samples_per_second, (0.0, *run.samples.seconds)
    assert run.summary.steps == 6
    assert per_second[2] * (seconds[3] - seconds[2]) == pytest.approx(10)
    assert per_second[1] * (seconds[2] - seconds[1]) == pytest.approx(20)


def test_a_run_by_steps_ends_within_an_epoch_and_validates_there(fashion: Any) -> None:
    run = fashion(steps=3)
    assert run.summary.epochs == pytest.approx(3 / 94)
    (epoch,) = run.epochs
    assert epoch.step == 3 and epoch.validation_accuracy == run.summary.final_validation_accuracy
    assert epoch.train_loss == pytest.approx(sum(run.samples.loss) / 3)
    # of the samples asked for
    assert 0 <= epoch.validation_accuracy <= 1 and (epoch.validation_accuracy * 100) % 1 == pytest.approx(0)


def test_figures_that_do_not_apply_are_none(hello: Any) -> None:
    run = hello(epochs=3, validation={"every": 0})
    assert run.epochs[0].validation_loss is None and run.summary.best_validation_accuracy is None
    assert [epoch.epoch for epoch in run.epochs] == [1, 2, 3]
    assert run.summary.final_train_loss == run.epochs[-1].train_loss == run.samples.loss[-1]
    summary = run.summary
    assert summary.final_grad_scale is None and summary.skipped_steps is None
    assert summary.peak_allocated_mib is None and summary.whole_run_peak_mib is None
    assert summary.peak_resident_mib is not None and summary.samples_per_second is None
    assert summary.speed_note is not None and "had 3 steps" in summary.speed_note


def test_a_long_enough_run_has_a_speed(hello: Any) -> None:
    summary = hello(epochs=60, measure={"warmup_steps": 10, "block_steps": 5}).summary
    low, high = summary.samples_per_second_ci
    assert low <= summary.samples_per_second <= high
    assert summary.speed_note is None and summary.step_ms > 0
    assert 0 <= summary.data_wait_fraction <= 1


def test_stop_ends_the_run_after_the_step_in_flight() -> None:
    run = trained(Experiment.model_validate({**HELLO, "steps": 1_000_000}), stop_after=1)
    assert run.finished.stopped and 0 < run.summary.steps < 1_000_000


def test_a_nan_is_told_once_and_stops_or_fails_a_run_that_says_so(hello: Any) -> None:
    run = hello(**DIVERGING, epochs=60)
    assert run.summary.steps == 60 and not run.finished.stopped
    # a busy machine has a warning of its own
    assert sum(isinstance(event, Log) and "NaN" in event.message for event in run.events) == 1
    stopped = hello(**DIVERGING, epochs=60, on_nan="stop")
    assert stopped.finished.stopped and stopped.summary.steps < 60
    with pytest.raises(TrainingError) as raised:
        hello(**DIVERGING, epochs=60, on_nan="fail")
    assert raised.value.problem.kind is Kind.NOT_A_NUMBER
    assert 0 < raised.value.summary.steps < 60


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"model": "resnet17"}, "model"),
        ({"dataset": "fasion"}, "dataset"),
        ({"precision": "tf32"}, "precision"),
        ({"device": "cuda:99"}, "device"),
        ({"batch_size": 6_001}, "batch_size"),
        ({"model": "resnet18", "num_classes": 3}, "num_classes"),
        ({"model": "linear"}, "dataset"),
        ({"model": "vgg11"}, "image_size"),
    ],
)
def test_what_cannot_run_is_refused_before_any_event(settings: dict[str, Any], key: str) -> None:
    experiment = Experiment.model_validate(layered({"device": "cpu"}, settings))
    problem = refusal(next, train(experiment, Control()))
    assert problem.kind is Kind.REQUEST and problem.key == key


def test_an_abandoned_run_leaves_torch_as_it_was() -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    events = train(Experiment.model_validate({"device": "cpu", "precision": "bf16"}), Control())
    assert isinstance(next(events), Started)
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"
    events.close()  # type: ignore[attr-defined]
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_the_shuffle_is_no_steps_time(hello: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    epoch, begin = DeviceSource.epoch, Telemetry.begin
    monkeypatch.setattr(
        DeviceSource, "epoch", lambda source, *at: order.append("shuffle") or epoch(source, *at)
    )
    monkeypatch.setattr(Telemetry, "begin", lambda telemetry: order.append("begin") or begin(telemetry))
    hello(epochs=2)
    assert order == ["shuffle", "begin"] * 2


def test_cudnn_does_not_search_for_the_epochs_last_and_smaller_batch(pictures, monkeypatch):
    seen: list[tuple[int, bool]] = []

    class Watched(torch.nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seen.append((len(inputs), torch.backends.cudnn.benchmark))
            return super().forward(inputs.flatten(1))

    monkeypatch.setattr("engine.training.runs.workload.build_model", lambda *_, **__: Watched(3 * 8 * 8, 4))
    pictures(samples=40, step={"recipe": "channels_last"})
    assert seen == [(16, True), (16, True), (8, False)]
