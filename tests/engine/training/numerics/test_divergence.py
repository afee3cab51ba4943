"""The divergence test finds where a precision diverges from FP32. Healthy runs do not diverge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import Tensor

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment, layered
from engine.protocol.numerics.numerics import DivergenceTest, PrecisionRun
from engine.statistics import Band, band_of
from engine.training.data.batches import Batch
from engine.training.numerics import band
from engine.training.numerics.band import Made, first_step, first_steps
from engine.training.numerics.bench import StepMetrics, Trainee
from engine.training.numerics.divergence import _variants, measure_divergence

from .conftest import MakeBench, own_settings, part_of

MODEL = """
import torch
from torch import nn


class Hurdle(nn.Module):
    def forward(self, x):
        {forward}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.hurdle = Hurdle()
        self.last = nn.Linear(16, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.hurdle(self.first(x))))


def batch(size):
    x = torch.randn(size, 8)
    return x, x.sum(1, keepdim=True)


def loss(outputs, targets):
    return nn.functional.mse_loss(outputs.float(), targets) * {factor}
"""
HEALTHY = "return x * 2"
OVERFLOWS = "return (x * 300).square().sqrt() / 300 * x.sign()"
CANCELS = "return (x + 1000.0) - 1000.0"


def losses_of(made: Iterable[Made]) -> list[float]:
    return [step.loss for step in made]


def divergence_of(make_bench: MakeBench, folder: Path, forward: str, factor: float = 1.0) -> DivergenceTest:
    own = own_settings(folder, MODEL.format(forward=forward, factor=factor), "Net")
    return part_of(make_bench(**own, steps=12), measure_divergence)


def by_precision(divergence: DivergenceTest) -> dict[Precision, PrecisionRun]:
    return {run.precision: run for run in divergence.runs}


def test_a_healthy_model_diverges_nowhere(make_bench, tmp_path):
    divergence = divergence_of(make_bench, tmp_path, HEALTHY)
    assert [run.precision for run in divergence.runs] == ["fp16-unscaled", "fp16", "bf16", "bf16-pure"]
    assert [(run.diverges_at, run.first_module) for run in divergence.runs] == [(None, None)] * 4
    assert (
        divergence.steps == 12
        and {len(run) for run in divergence.repeats} == {12}
        and len(divergence.repeats) == 5
    )
    assert "No precision diverges" in divergence.sentence


@pytest.mark.parametrize("forward", [OVERFLOWS, CANCELS])
def test_the_module_that_breaks_fp16_is_named(make_bench, tmp_path, forward):
    runs = by_precision(divergence_of(make_bench, tmp_path, forward))
    for precision in (Precision.FP16_UNSCALED, Precision.FP16):
        assert runs[precision].first_module == "hurdle"
        assert runs[precision].diverges_at is not None
        assert "hurdle" in runs[precision].sentence


def test_gradients_that_underflow_diverge_only_without_the_scaler(make_bench, tmp_path):
    runs = by_precision(divergence_of(make_bench, tmp_path, HEALTHY, factor=1e-7))
    assert runs[Precision.FP16_UNSCALED].diverges_at is not None
    assert runs[Precision.FP16_UNSCALED].first_module is None
    assert "backward pass" in runs[Precision.FP16_UNSCALED].sentence
    assert runs[Precision.FP16].diverges_at is None and runs[Precision.BF16].diverges_at is None


def test_pure_bf16_diverges_alone_where_its_weights_take_no_small_update(make_bench, tmp_path):
    own = own_settings(tmp_path, MODEL.format(forward=HEALTHY, factor=1.0), "Net")
    slow = {"optimizer": {"name": "adam", "learning_rate": 5e-5}, "batch_size": 64, "steps": 60}
    divergence = part_of(make_bench(**own, **slow, step={"fp32_modules": ["hurdle"]}), measure_divergence)
    assert [run.label for run in divergence.runs if run.diverges_at] == ["Pure BF16"]
    assert "BF16 AMP keeps the weights in FP32" in divergence.sentence


def test_fp8_is_tried_where_the_run_is_in_it_and_its_layers_are_coarser_than_bf16s(make_bench, tmp_path):
    pytest.importorskip("torchao")
    text = (
        MODEL.format(forward=HEALTHY, factor=1.0)
        .replace("8, 16)", "8, 32)")
        .replace("Hurdle()", "nn.Linear(32, 32)")
    )
    own = own_settings(tmp_path, text.replace("16, 1)", "32, 1)"), "Net")
    runs = by_precision(part_of(make_bench(**own, steps=12, precision="fp8"), measure_divergence))
    assert list(runs)[-2:] == [Precision.BF16_PURE, Precision.FP8]
    errors = {
        precision: {error.module: error.relative_error for error in runs[precision].errors}
        for precision in (Precision.BF16, Precision.FP8)
    }
    assert errors[Precision.FP8]["hurdle"] > 4 * errors[Precision.BF16]["hurdle"]
    assert errors[Precision.FP8]["first"] == errors[Precision.BF16]["first"]
    assert runs[Precision.FP8].diverges_at is None


def test_a_run_that_rounds_stochastically_is_tried_without_and_with_it(make_bench):
    bench = make_bench(precision="bf16-pure", optimizer={"name": "adamw"})
    rounding = layered(bench.experiment.model_dump(), {"optimizer": {"stochastic_rounding": True}})
    variants = dict(_variants(Experiment.model_validate(rounding), Precision.BF16_PURE))
    assert {label: settings.rounds_stochastically for label, settings in variants.items()} == {
        "Pure BF16": False,
        "Pure BF16 with stochastic rounding": True,
    }
    assert list(dict(_variants(bench.experiment, Precision.BF16_PURE))) == ["Pure BF16"]


def test_a_skipped_step_is_made_again_with_its_batch(make_bench):
    bench = make_bench(precision="fp16", batch_size=2, scaler={"init_scale": 2.0**30})
    made = list(first_steps(bench, bench.experiment, 2))
    alike = make_bench(precision="fp16", batch_size=2, scaler={"init_scale": made[0].grad_scale})
    assert made[0].skipped > 0
    assert losses_of(made) == losses_of(first_steps(alike, alike.experiment, 2))


def test_a_repeat_differs_by_a_rounding_error_and_the_band_holds_it(make_bench):
    bench = make_bench()
    runs = [
        losses_of(first_steps(bench, bench.experiment, 4, rounding=2**-23, repeat=one)) for one in range(4)
    ]
    assert len({tuple(run) for run in runs}) > 1
    assert all(run == pytest.approx(runs[0], rel=1e-3) for run in runs)
    assert band_of(runs).first_step_outside(runs[-1]) is None


def test_a_blip_is_no_divergence_and_a_return_is_none_either():
    band = Band(low=(0.0,) * 20, high=(1.0,) * 20)
    assert band.first_step_outside([0.5] * 20) is None
    assert band.first_step_outside([0.5] * 8 + [9.0] + [0.5] * 11) is None
    assert band.first_step_outside([0.5] * 8 + [9.0] * 12) == 9
    assert band.first_step_outside([9.0] * 8 + [0.5] * 12) is None
    assert band.first_step_outside([0.5] * 8 + [9.0] * 6 + [0.5] + [9.0] * 5) == 9
    assert band.first_step_outside([0.5] * 19 + [9.0]) is None
    assert band.first_step_outside([0.5] * 4 + [math.nan] * 16) == 5


def test_where_fp32_is_not_finite_nothing_diverges():
    band = band_of([[1.0, math.nan], [1.1, math.inf]])
    assert band.first_step_outside([1.0, math.nan]) is None


WATCHED_SECONDS, STEP_SECONDS = 30.0, 0.25


class Behind:
    """A device's clock: what it was given takes time only when the host waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.pending = 0.0
        go_back, train = Trainee.go_back, Trainee.train

        def gone_back(trainee: Trainee, group: Sequence[Batch]) -> Tensor:
            self.pending += WATCHED_SECONDS
            return go_back(trainee, group)

        def trained(trainee: Trainee, group: Sequence[Batch]) -> StepMetrics:
            self.pending += STEP_SECONDS
            metrics = train(trainee, group)
            self.wait()
            return metrics

        monkeypatch.setattr(Trainee, "go_back", gone_back)
        monkeypatch.setattr(Trainee, "train", trained)
        monkeypatch.setattr(Trainee, "wait", lambda trainee: self.wait())
        monkeypatch.setattr(band, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def wait(self) -> None:
        self.now, self.pending = self.now + self.pending, 0.0


def test_the_time_of_a_step_holds_nothing_of_the_watched_pass_before_it(make_bench, monkeypatch):
    bench = make_bench()
    Behind(monkeypatch)
    found, seconds = first_step(bench, bench.experiment)
    assert found and seconds == STEP_SECONDS
