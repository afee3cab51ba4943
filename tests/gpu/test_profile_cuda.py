"""Profiles on a CUDA device: every kernel that matters is known, and the bar adds up to the step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.experiment.experiment import Experiment, Precision
from engine.protocol import jobs
from engine.protocol.events import Profiled
from engine.protocol.timing.bar import StepPart
from engine.protocol.timing.limits import Limits, Peak
from engine.protocol.timing.profile import StepProfile
from engine.training.profiling.profile import profile
from engine.training.runs.control import Control

LIMITS = Limits(peaks=(Peak(format="fp32", tflops=20.0),), gb_per_second=1_000)
PICTURES: dict[str, Any] = {"dataset": "fakedata", "image_size": 224, "batch_size": 32}
MODELS: dict[str, dict[str, Any]] = {
    "resnet50": PICTURES,
    "vit_b_16": PICTURES,
    "causal-lm-tiny": {"dataset": "synthetic-tokens", "batch_size": 8},
}


def profiled(model: str, precision: str, device: str = "cuda:0") -> StepProfile:
    settings = {"model": model, "precision": precision, "device": device, "steps": 60, **MODELS[model]}
    job = jobs.Profile(experiment=Experiment.model_validate(settings), limits=LIMITS)
    (found,) = [event.profile for event in profile(job, Control()) if isinstance(event, Profiled)]
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("model", MODELS)
def test_no_kernel_above_a_hundredth_of_the_time_is_unknown(model: str, precision: str) -> None:
    if precision == Precision.BF16 and not torch.cuda.is_bf16_supported():
        pytest.skip("needs BF16")
    found = profiled(model, precision)
    whole = sum(row.ms for row in found.kernels)
    assert whole
    unknown = [row for row in found.kernels if row.part is StepPart.OTHER and row.ms > 0.01 * whole]
    assert not unknown
    assert found.bar.total_ms == pytest.approx(found.step_ms, rel=0.03)
    if precision == Precision.FP32 and model == "resnet50":  # attention splits FP32 into TF32s
        assert not found.bar.ms(StepPart.MATRIX_UNITS)
    if precision in (Precision.FP16, Precision.BF16) and torch.cuda.get_device_capability() >= (7, 0):
        assert found.bar.ms(StepPart.MATRIX_UNITS) > found.bar.ms(StepPart.MATRIX)
