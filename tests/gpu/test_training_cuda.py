"""Training on a CUDA device: formats, scaler, clock and memory."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.nn.functional import conv2d, cross_entropy

from engine.experiment.experiment import Experiment, Precision, layered
from engine.experiment.problem import Kind
from engine.protocol.events import Event, Finished, Samples, Skipped, Summary
from engine.protocol.jobs import Control
from engine.training.data.datasets import load_source
from engine.training.doctor import device_entries, examine_torch
from engine.training.failures import problem_of
from engine.training.measuring.telemetry import Telemetry
from engine.training.models.build import build_model
from engine.training.precision import float32_mode
from engine.training.runs.loop import train
from engine.training.steps.recipe import build_step

CARD = {"device": "cuda:0", "measure": {"warmup_steps": 5, "block_steps": 2}}
HELLO: dict[str, Any] = {
    **CARD,
    "model": "linear",
    "dataset": "synthetic-regression",
    "samples": 20,
    "batch_size": 20,
    "optimizer": {"name": "sgd", "learning_rate": 0.1},
}
RESNET: dict[str, Any] = {
    **CARD,
    "model": "resnet18",
    "dataset": "synthetic",
    "image_size": 32,
    "num_classes": 10,
    "batch_size": 64,
    "steps": 30,
}


def events_of(base: dict[str, Any], **settings: Any) -> list[Event]:
    return list(train(Experiment.model_validate(layered(base, settings)), Control()))


def summary_in(events: list[Event]) -> Summary:
    assert isinstance(events[-1], Finished)
    return events[-1].summary


def samples_in(events: list[Event]) -> Samples:
    first, *rest = [event for event in events if isinstance(event, Samples)]
    for batch in rest:
        first = first.followed_by(batch)
    return first


def available() -> list[Precision]:
    return [entry.precision for entry in device_entries()[0].precisions if entry.available]


def worst_error(result: torch.Tensor, exact: torch.Tensor) -> float:
    return ((result.double() - exact).abs().max() / exact.abs().max()).item()


def product_errors(precision: Precision) -> tuple[float, float]:
    """How far a matrix product and a convolution are from their values in double precision."""
    generator = torch.Generator("cuda").manual_seed(0)
    left, right = (torch.randn(1_024, 1_024, device="cuda", generator=generator) for _ in range(2))
    pictures = torch.randn(8, 64, 32, 32, device="cuda", generator=generator)
    kernels = torch.randn(64, 64, 3, 3, device="cuda", generator=generator)
    with float32_mode(precision):
        product, convolved = left @ right, conv2d(pictures, kernels)
    exact = left.double() @ right.double()
    exact_convolved = conv2d(pictures.double(), kernels.double())
    return worst_error(product, exact), worst_error(convolved, exact_convolved)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16, Precision.BF16])
def test_float32_is_strict_but_for_tf32(precision: Precision) -> None:
    assert max(product_errors(precision)) < 5e-5


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0), reason="needs an Ampere GPU"
)
def test_tf32_is_on_in_products_and_convolutions() -> None:
    assert min(product_errors(Precision.TF32)) > 5e-5


def test_every_precision_trains_from_the_same_start() -> None:
    losses = {precision: samples_in(events_of(RESNET, precision=precision)).loss for precision in available()}
    for precision, loss in losses.items():
        assert loss[0] == pytest.approx(losses[Precision.FP32][0], rel=0.02), precision
        assert loss[-1] < loss[0], precision
    assert losses[Precision.FP16][0] != losses[Precision.FP32][0]


def test_real_pictures_are_learnt_and_validated() -> None:
    summary = summary_in(events_of({**CARD, "precision": "fp16", "steps": 60}))
    assert summary.final_validation_accuracy is not None and summary.final_validation_accuracy > 0.5


def test_figures_arrive_complete_and_in_order() -> None:
    events = events_of(RESNET, precision="fp16", step={"clip_norm": 1.0})
    samples, summary = samples_in(events), summary_in(events)
    assert samples.step == tuple(range(1, 31)) and samples.seconds == tuple(sorted(samples.seconds))
    assert all(rate > 0 for rate in samples.samples_per_second)
    assert samples.grad_norm is not None and samples.resident_mib is None
    assert samples.allocated_mib is not None and samples.device_used_mib is not None
    assert summary.samples_per_second is not None and summary.step_ms is not None
    assert summary.data_wait_fraction is not None and summary.seconds > 0


def test_peaks_of_training_and_of_the_whole_run_are_kept_apart() -> None:
    summary = summary_in(events_of(RESNET))
    assert summary.peak_allocated_mib is not None and summary.whole_run_peak_mib is not None
    assert summary.peak_reserved_mib is not None and summary.peak_resident_mib is None
    assert 0 < summary.peak_allocated_mib <= summary.whole_run_peak_mib
    assert summary.peak_allocated_mib <= summary.peak_reserved_mib


def test_a_captured_runs_peak_is_that_of_its_step() -> None:
    # replays work in memory that the allocator counts as free; the last batch of an epoch is a smaller one
    settings = {"image_size": 64, "samples": 64 * 9 + 8, "step": {"recipe": "fused"}}
    fused = summary_in(events_of(RESNET, **settings))
    captured = summary_in(events_of(RESNET, **layered(settings, {"step": {"recipe": "fused+capture"}})))
    assert captured.recipe == "fused+capture"
    peaks = fused.peak_allocated_mib, captured.peak_allocated_mib, captured.whole_run_peak_mib
    assert peaks[0] and peaks[1] and peaks[2]
    assert 0.9 * peaks[0] < peaks[1] < 1.3 * peaks[0] and peaks[1] <= peaks[2]


def test_overflows_are_skipped_and_counted() -> None:
    events = events_of(HELLO, precision="fp16", epochs=40, scaler={"init_scale": 2.0**40})
    skipped = [step for event in events if isinstance(event, Skipped) for step in event.steps]
    summary = summary_in(events)
    assert skipped == list(range(1, len(skipped) + 1)) and 20 < len(skipped) < 40
    assert summary.skipped_steps == len(skipped)
    assert summary.final_grad_scale == 2.0 ** (40 - len(skipped))


def test_a_cap_makes_a_large_run_fail_in_plain_words_and_then_ends() -> None:
    with pytest.raises(torch.OutOfMemoryError) as raised:
        events_of(RESNET, image_size=224, batch_size=256, steps=2, memory_cap_gib=1)
    assert problem_of(raised.value).kind is Kind.OUT_OF_MEMORY
    del raised
    torch.cuda.empty_cache()
    assert summary_in(events_of(RESNET, steps=2)).steps == 2


def test_more_steps_than_a_block_holds_arrive_in_order() -> None:
    device = torch.device("cuda:0")
    telemetry = Telemetry(device, ("loss",))
    telemetry.begin()
    arrived = []
    for number in range(2_500):
        telemetry.record(torch.full((1,), float(number), device=device), 1, learning_rate=0.1)
        if number % 100 == 0:
            arrived += telemetry.collect()
    arrived += telemetry.flush()
    assert [step for rows in arrived for step in rows.step.tolist()] == list(range(1, 2_501))
    assert [loss for rows in arrived for loss in rows.figures["loss"].tolist()] == list(range(2_500))


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_a_step_without_a_scaler_never_waits_for_the_device() -> None:
    device = torch.device("cuda:0")
    experiment = Experiment.model_validate({"precision": "bf16", "step": {"clip_norm": 1.0}})
    model = build_model("small-cnn", image_size=28, channels=1, num_classes=10, seed=0)
    step = build_step(model, cross_entropy, experiment, device, is_convolutional=True)
    telemetry = Telemetry(device, step.columns)
    source = load_source(experiment, 1, device)
    batches = source.epoch(1)
    telemetry.begin()
    try:
        for number, (inputs, targets) in enumerate(itertools.islice(batches, 10)):
            if number == 5:  # the first steps load kernels, which may wait
                torch.cuda.set_sync_debug_mode("error")
            telemetry.record(step([(inputs, targets)]), len(targets), learning_rate=0.1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert telemetry.flush()[-1].last_step == 10


def test_the_doctor_is_content() -> None:
    assert all(check.status != "problem" for check in examine_torch())
