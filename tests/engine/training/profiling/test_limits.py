"""The limits of this machine's CPU, with few and small products."""

from __future__ import annotations

import pytest
import torch

from engine.experiment.experiment import Precision
from engine.training.profiling import limits as module
from engine.training.profiling.limits import measure_limits
from engine.training.runs.control import Control

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SIZES", (64, 128))
    monkeypatch.setattr(module, "_TRIAL_SECONDS", 0.002)
    monkeypatch.setattr(module, "_BATCH_SECONDS", 0.001)
    monkeypatch.setattr(module, "_ARRAY_MIB", {"cpu": (4, 1)})


def test_the_limits_are_those_of_formats_that_the_device_has() -> None:
    limits = measure_limits(CPU, Control())
    assert limits is not None
    assert {peak.format for peak in limits.peaks} == {"fp32", "fp16", "bf16"}
    assert all(peak.tflops > 1e-5 for peak in limits.peaks)
    assert limits.gb_per_second > 0.01
    assert limits.seconds > 0


def test_nothing_is_said_of_a_stopped_measurement() -> None:
    control = Control()
    control.stop_requested.set()
    assert measure_limits(CPU, control) is None


def test_a_format_too_slow_to_measure_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOO_SLOW_SECONDS", 0.0)
    limits = measure_limits(CPU, Control())
    assert limits is not None
    assert limits.peaks == ()


def test_a_format_that_the_device_cannot_multiply_in_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    formats = {"fp32": module._FORMATS["fp32"], "bits": (Precision.FP32, torch.bool)}
    monkeypatch.setattr(module, "_FORMATS", formats)
    limits = measure_limits(CPU, Control())
    assert limits is not None
    assert [peak.format for peak in limits.peaks] == ["fp32"]


def test_flags_and_random_numbers_stay_as_they_were() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    precision = torch.get_float32_matmul_precision()
    measure_limits(CPU, Control())
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_float32_matmul_precision() == precision


def test_smaller_arrays_are_taken_where_large_ones_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ARRAY_MIB", {"cpu": (2**40, 1)})
    limits = measure_limits(CPU, Control())
    assert limits is not None
    assert limits.gb_per_second > 0.01
