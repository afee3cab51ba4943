"""Profiles on a CUDA device: every kernel that matters is known, and the bar adds up to the step."""

from __future__ import annotations

import pytest
import torch

from day.steps.profile import MODELS, profiled, unnamed
from engine.experiment.experiment import Precision
from engine.protocol.profile import Limits, Peak, StepPart

LIMITS = Limits(peaks=(Peak(format="fp32", tflops=20.0),), gb_per_second=1_000)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("model", MODELS)
def test_no_kernel_above_a_hundredth_of_the_time_is_unknown(model: str, precision: str) -> None:
    if precision == Precision.BF16 and not torch.cuda.is_bf16_supported():
        pytest.skip("needs BF16")
    found = profiled(model, precision, "cuda:0", LIMITS, **MODELS[model])
    assert sum(row.ms for row in found.kernels) and not unnamed(found)
    assert found.bar.total_ms == pytest.approx(found.step_ms, rel=0.03)
    if precision == Precision.FP32 and model == "resnet50":  # attention splits FP32 into TF32s
        assert not found.bar.ms(StepPart.MATRIX_UNITS)
    if precision in (Precision.FP16, Precision.BF16) and torch.cuda.get_device_capability() >= (7, 0):
        assert found.bar.ms(StepPart.MATRIX_UNITS) > found.bar.ms(StepPart.MATRIX)
