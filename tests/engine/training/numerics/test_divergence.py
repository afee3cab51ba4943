"""The divergence test finds where a precision diverges from FP32. Healthy runs do not diverge."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment, layered
from engine.protocol.numerics import DivergenceTest, PrecisionRun
from engine.statistics import Band, band_of
from engine.training.numerics.bench import StepMetrics
from engine.training.numerics.divergence import _variants, measure_divergence, run_first_steps

from .conftest import own_settings, part_of

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


def losses_of(made: Iterable[StepMetrics]) -> list[float]:
    return [step.loss for step in made]


def by_precision(divergence: DivergenceTest) -> dict[Precision, PrecisionRun]:
    return {run.precision: run for run in divergence.runs}


FP16, UNSCALED = Precision.FP16, Precision.FP16_UNSCALED


@pytest.mark.parametrize(
    ("forward", "factor", "diverging", "module"),
    [
        (HEALTHY, 1.0, [], None),
        (OVERFLOWS, 1.0, [UNSCALED, FP16], "hurdle"),
        (CANCELS, 1.0, [UNSCALED, FP16, Precision.BF16, Precision.BF16_PURE], "hurdle"),
        # gradients that underflow
        (HEALTHY, 1e-7, [UNSCALED], None),
    ],
)
def test_a_precision_diverges_where_the_model_exceeds_it(
    forward, factor, diverging, module, make_bench, tmp_path
):
    own = own_settings(tmp_path, MODEL.format(forward=forward, factor=factor), "Net")
    found = part_of(make_bench(**own, steps=12), measure_divergence)
    assert [run.precision for run in found.runs] == ["fp16-unscaled", "fp16", "bf16", "bf16-pure"]
    assert [run.precision for run in found.runs if run.diverges_at is not None] == diverging
    assert {run.first_module for run in found.runs if run.precision in diverging} <= {module}
    assert found.steps == 12 and [len(run) for run in found.repeats] == [12] * 5
    cause = f"the output of {module} is the first to diverge" if module else "backward pass"
    assert all(cause in run.sentence or "infinite" in run.sentence for run in found.runs if run.diverges_at)


@pytest.mark.slow
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
    bench = make_bench(
        precision="fp16", batch_size=2, samples=16, scaler={"init_scale": 2.0**30, "backoff_factor": 0.02}
    )
    made = list(run_first_steps(bench, bench.experiment, 2))
    alike = make_bench(precision="fp16", batch_size=2, samples=16, scaler={"init_scale": made[0].grad_scale})
    assert made[0].skipped > 0
    assert losses_of(made) == losses_of(run_first_steps(alike, alike.experiment, 2))


def test_a_repeat_differs_by_a_rounding_error_and_the_band_holds_it(make_bench):
    bench = make_bench()
    runs = [
        losses_of(run_first_steps(bench, bench.experiment, 4, rounding=2**-23, repeat=one))
        for one in range(4)
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
