"""A device's limits, measured: peak throughput of matrix products in each format, and memory bandwidth."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from engine.experiment.experiment import Precision
from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.timing.limits import Limits, Peak
from engine.training.measuring.telemetry import clock_for
from engine.training.precision import float32_mode
from engine.training.runs.control import Control

_FORMATS = {
    "fp32": (Precision.FP32, torch.float32),
    "tf32": (Precision.TF32, torch.float32),
    "fp16": (Precision.FP16, torch.float16),
    "bf16": (Precision.BF16, torch.bfloat16),
}
_SIZES = (256, 512, 1_024, 2_048, 4_096, 8_192)
_LONGEST_PRODUCT_SECONDS = 0.05
"""Larger products are not tried."""
_TOO_SLOW_SECONDS = 0.25
"""A format is left out whose smallest product takes longer: nothing would be right or soon."""
_BATCH_SECONDS = 0.02
_TRIAL_SECONDS = 0.06
_ARRAY_MIB = {"cpu": (256, 64, 16), "accelerator": (512, 128, 32)}
"""The sizes of arrays for the bandwidth; the first that fits is taken, and it is larger than caches are."""


def measure_limits(device: torch.device, control: Control) -> Limits | None:
    """The device's limits, within a few seconds; None where that was stopped.

    Peaks are the best of several shapes and batches of products, bandwidth that of a copy or a sum of two
    arrays, counting bytes read and written. The device is the current one of its kind, and idle.
    """
    began = time.perf_counter()
    bench = _Bench(device, control)
    try:
        rates = {
            name: bench.flops_per_second(name) for name in _FORMATS if name != "tf32" or _has_tf32(device)
        }
        bytes_per_second = bench.bytes_per_second()
    finally:
        if device.type in ("cuda", "xpu"):
            torch.get_device_module(device).empty_cache()
    if control.stop_requested.is_set():
        return None
    return Limits(
        peaks=tuple(Peak(format=name, tflops=rate / 1e12) for name, rate in rates.items() if rate),
        gb_per_second=bytes_per_second / 1e9,
        seconds=time.perf_counter() - began,
    )


def _has_tf32(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_tf32_supported()


Operation = Callable[[], object]
T = TypeVar("T")


class _Bench:
    """Times operations on the device, until the job is asked to stop."""

    def __init__(self, device: torch.device, control: Control) -> None:
        self._device = device
        self._clock = clock_for(device)
        self._stop = control.stop_requested
        self._random = torch.Generator(device).manual_seed(0)

    def flops_per_second(self, name: str) -> float | None:
        """The peak of a format; None where its products are far too slow, or refused."""
        precision, dtype = _FORMATS[name]
        with float32_mode(precision):
            size = self._largest_size(dtype)
            if size is None:
                return None
            rates = [
                _unless_refused(partial(self._product_rate, shape, dtype, is_transposed=is_transposed))
                for shape in ((size, size, size), (size, 2 * size, size), (size // 2,) * 3)
                for is_transposed in (False, True)
            ]
        return max(filter(None, rates), default=None)

    def bytes_per_second(self) -> float:
        """The bandwidth of memory. Raises the device's error where not even the smallest arrays fit."""
        *sizes, smallest = _ARRAY_MIB["cpu" if self._device.type == "cpu" else "accelerator"]
        rates = (_unless_refused(partial(self._bandwidth, mib)) for mib in sizes)
        return next(filter(None, rates), None) or self._bandwidth(smallest)

    def _largest_size(self, dtype: torch.dtype) -> int | None:
        """The largest size whose product is expected to be short enough."""
        fits = None
        for size in _SIZES:
            seconds = _unless_refused(partial(self._pilot, size, dtype))
            if seconds is None or (fits is None and seconds > _TOO_SLOW_SECONDS):
                return fits
            fits = size
            if 8 * seconds > _LONGEST_PRODUCT_SECONDS:
                return fits
        return fits

    def _pilot(self, size: int, dtype: torch.dtype) -> float:
        product = self._product((size, size, size), dtype, is_transposed=False)
        product()  # the first call of a size loads its kernel
        return self._seconds(product, 1)

    def _product_rate(self, shape: tuple[int, int, int], dtype: torch.dtype, *, is_transposed: bool) -> float:
        return (
            2
            * math.prod(shape)
            / self._best_seconds(self._product(shape, dtype, is_transposed=is_transposed))
        )

    def _product(self, shape: tuple[int, int, int], dtype: torch.dtype, *, is_transposed: bool) -> Operation:
        """A product of random matrices, the second stored as a linear layer's weight if `is_transposed`."""
        rows, inner, columns = shape
        first = self._matrix(rows, inner, dtype)
        second = (
            self._matrix(columns, inner, dtype).t() if is_transposed else self._matrix(inner, columns, dtype)
        )
        result = torch.empty(rows, columns, dtype=dtype, device=self._device)
        return partial(torch.mm, first, second, out=result)

    def _matrix(self, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        # numbers of real entropy: zeros would cost less power, and so run at higher clocks
        return torch.randn(rows, columns, generator=self._random, device=self._device).to(dtype)

    def _bandwidth(self, mib: int) -> float:
        count = mib * BYTES_PER_MIB // 4
        arrays = [torch.ones(count, device=self._device) for _ in range(3)]
        one, other, result = arrays
        copy = 2 * 4 * count / self._best_seconds(partial(result.copy_, one))
        triad = 3 * 4 * count / self._best_seconds(partial(torch.add, one, other, alpha=2, out=result))
        return max(copy, triad)

    def _best_seconds(self, operation: Operation) -> float:
        """The time of an operation in the best of several batches of calls."""
        operation()
        once = self._seconds(operation, 1)
        calls = max(1, round(_BATCH_SECONDS / max(once, 1e-6)))
        best, began = once, time.perf_counter()
        while not self._stop.is_set() and time.perf_counter() - began < _TRIAL_SECONDS:
            best = min(best, self._seconds(operation, calls) / calls)
        return best

    def _seconds(self, operation: Operation, calls: int) -> float:
        begin = self._clock.mark()
        for _ in range(calls):
            operation()
        end = self._clock.mark()
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
        return self._clock.seconds_between(begin, end)


def _unless_refused(measure: Callable[[], T]) -> T | None:
    """What was measured; None where memory does not suffice, or the device has no such products."""
    # an error of the device itself comes again with the smallest arrays
    try:
        return measure()
    except (RuntimeError, MemoryError):
        return None
