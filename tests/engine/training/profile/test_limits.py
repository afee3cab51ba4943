"""The limits of this machine's CPU, with few and small products."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain, count, cycle, repeat

import pytest
import torch

from engine.experiment.experiment import Precision
from engine.protocol.jobs import Control
from engine.protocol.profile import Limits
from engine.training.profile import limits as module
from engine.training.profile.limits import _Bench, measure_again, measure_limits

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few short calls, which agree however busy this machine is."""
    monkeypatch.setattr(module, "_SIZES", (64, 128))
    monkeypatch.setattr(module, "_IMAGES", ((8, 8),))
    for name in ("_LOOK_SECONDS", "_TRIAL_SECONDS", "_PATIENCE_SECONDS"):
        monkeypatch.setattr(module, name, 0.001)
    monkeypatch.setattr(module, "_ARRAY_MIB", {"cpu": (4, 1)})
    monkeypatch.setattr(module, "_ALIKE", math.inf)


class Device:
    """A device of products of 1 ms and convolutions of 10 us, each call longer by the next factor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, factors: Iterable[float]) -> None:
        self._now, self._factors = 0.0, iter(factors)
        self.products, self.convolutions = 1e-3, 1e-5
        monkeypatch.setattr(module, "_ALIKE", 1.05)
        monkeypatch.setattr(module, "_MOST_CALLS", 5)
        monkeypatch.setattr(module, "_FORMATS", {"fp32": module._FORMATS["fp32"]})
        monkeypatch.setattr(module, "clock_for", lambda device: self)
        monkeypatch.setattr(_Bench, "matmul", lambda *_, **__: lambda: self._work(self.products))
        monkeypatch.setattr(_Bench, "convolution", lambda *_: lambda: self._work(self.convolutions))
        monkeypatch.setattr(_Bench, "_bandwidth", lambda *_: 1e9)

    def _work(self, seconds: float) -> None:
        self._now += seconds * next(self._factors)

    def mark(self) -> float:
        return self._now

    def seconds_between(self, earlier: float, later: float) -> float:
        return later - earlier


PRODUCT, CONVOLUTION = 2.0 * 128**3 / 1e-3, 2.0 * 7 * 9 * 8**4 / 1e-5
"""What these reach, in FLOP/s: the largest product, and 7 pictures of 8 x 8 pixels in 8 channels."""


def measured() -> Limits:
    limits = measure_limits(CPU, Control())
    assert limits is not None
    return limits


@pytest.mark.parametrize(
    ("factors", "convolution_seconds", "peak"),
    [
        # the best of products and convolutions
        (repeat(1.0), 1e-5, CONVOLUTION),
        (repeat(1.0), 1e-3, PRODUCT),
        # calls that nothing disturbed count, for which it waits a while, or withholds the peak
        (cycle((130.0, 1.0, 45.0)), 1e-5, CONVOLUTION),
        (chain((2.0 + 1.1**call for call in range(200)), repeat(1.0)), 1e-5, CONVOLUTION),
        ((1.1**call for call in count()), 1e-5, None),
    ],
    ids=["convolutions", "products", "disturbed now and then", "disturbed at first", "never undisturbed"],
)
def test_a_peak_is_the_best_that_nothing_disturbed(factors, convolution_seconds, peak, monkeypatch, request):
    if "at first" in request.node.callspec.id:
        monkeypatch.setattr(module, "_PATIENCE_SECONDS", 60.0)
    Device(monkeypatch, factors).convolutions = convolution_seconds
    limits = measured()
    assert limits.withheld == (() if peak else ("fp32",))
    assert [1e12 * found.tflops for found in limits.peaks] == pytest.approx([peak] if peak else [], rel=1e-3)


def test_a_peak_can_be_measured_again(monkeypatch):
    Device(monkeypatch, repeat(1.0))
    known = Limits(peaks=(), gb_per_second=3.0, withheld=("fp32", "bf16"))
    again = measure_again(known, "fp32", CPU, Control())
    assert 1e12 * (again.tflops("fp32") or 0.0) == pytest.approx(CONVOLUTION)
    assert (again.withheld, again.gb_per_second) == (("bf16",), 3.0)


def test_the_limits_are_those_of_formats_that_the_device_has():
    limits = measured()
    assert {peak.format for peak in limits.peaks} == {"fp32", "fp16", "bf16"}
    assert all(peak.tflops > 1e-5 for peak in limits.peaks)
    assert limits.gb_per_second > 0.01
    assert limits.seconds > 0


def test_nothing_is_said_of_a_stopped_measurement():
    control = Control()
    control.stop_requested.set()
    assert measure_limits(CPU, control) is None


def test_a_format_that_is_too_slow_or_cannot_be_multiplied_in_is_left_out(monkeypatch):
    formats = {"fp32": module._FORMATS["fp32"], "bits": (Precision.FP32, torch.bool)}
    monkeypatch.setattr(module, "_FORMATS", formats)
    assert [peak.format for peak in measured().peaks] == ["fp32"]
    monkeypatch.setattr(module, "_TOO_SLOW_SECONDS", 0.0)
    assert measured().peaks == ()


def test_flags_and_random_numbers_stay_as_they_were():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    precision = torch.get_float32_matmul_precision()
    measure_limits(CPU, Control())
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_float32_matmul_precision() == precision


def test_smaller_arrays_are_taken_where_large_ones_do_not_fit(monkeypatch):
    monkeypatch.setattr(module, "_ARRAY_MIB", {"cpu": (2**40, 1)})
    assert measured().gb_per_second > 0.01


def test_a_product_in_fp8_is_one_of_scaled_factors() -> None:
    bench = _Bench(CPU, Control())
    result = bench.matmul((32, 64, 16), torch.float8_e4m3fn)()
    assert isinstance(result, torch.Tensor)
    assert result.shape == (32, 16) and result.dtype is torch.bfloat16
