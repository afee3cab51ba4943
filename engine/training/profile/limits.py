"""A device's measured limits: peaks of matmuls and convolutions in each format, and memory bandwidth."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, pairwise
from typing import TypeVar

import torch
from torch import Tensor

from engine.experiment.experiment import Precision
from engine.experiment.value import BYTES_PER_MIB
from engine.protocol.jobs import Control
from engine.protocol.profile import Limits
from engine.training.measuring.telemetry import clock_for
from engine.training.precision import float32_mode

_FORMATS = {
    "fp32": (Precision.FP32, torch.float32),
    "tf32": (Precision.TF32, torch.float32),
    "fp16": (Precision.FP16, torch.float16),
    "bf16": (Precision.BF16, torch.bfloat16),
    "fp8": (Precision.FP8, torch.float8_e4m3fn),
}
_SIZES = (256, 512, 1_024, 2_048, 4_096, 8_192)
_LARGEST_SIZES = 3
"""The number of sizes tried, the largest that are short enough. The smaller ones suit caches, and fit between
other programs' time slices."""
_IMAGES = ((64, 28), (128, 28), (256, 14))
"""The channels and the width of the convolved images."""
_LONGEST_MATMUL_SECONDS = 0.03
"""The longest matmul to try. Larger ones are skipped."""
_TOO_SLOW_SECONDS = 0.25
"""A format whose smallest matmul takes longer is skipped."""
_LOOK_SECONDS, _TRIAL_SECONDS, _PATIENCE_SECONDS = 0.02, 0.06, 1.5
"""Seconds for each operation, for each of the fastest, and for these together while others disturb them."""
_FINALISTS = 3
_HOPELESS = 8.0
"""An operation is dropped if its first call is this many times as slow as the best."""
_LEAST_CALLS, _MOST_CALLS = 3, 500
_ALIKE = 1.05
"""The fastest calls of an undisturbed operation differ by at most this factor."""
_ARRAY_MIB = {"cpu": (256, 64, 16), "accelerator": (512, 128, 32)}
"""The sizes of arrays for the bandwidth. The first that fits is used. It exceeds caches."""
_CHUNK_MIB = {"cpu": 16, "accelerator": 512}
"""The memory copied per call, small on a CPU so that some calls fit between other programs' time slices."""


def measure_limits(device: torch.device, control: Control) -> Limits | None:
    """Measure the device's limits within a few seconds. Return None if stopped.

    Peaks are the best of matmuls and convolutions of several sizes and layouts. Bandwidth is that of a copy
    or a sum of two arrays, counting bytes read and written. The fastest single call counts, since other
    programs only make calls longer. A peak whose fastest calls do not agree is withheld. The device must be
    the current one of its kind, and idle.
    """
    began = time.perf_counter()
    with _bench(device, control) as bench:
        limits = Limits(peaks=(), gb_per_second=bench.bytes_per_second() / 1e9)
        for name in _FORMATS:
            if name not in _ONLY_ON or _ONLY_ON[name](device):
                limits = bench.with_peak(limits, name)
    if control.stop_requested.is_set():
        return None
    return limits.model_copy(update={"seconds": time.perf_counter() - began})


def measure_again(limits: Limits, name: str, device: torch.device, control: Control) -> Limits:
    """Return the limits with the peak of a format measured again."""
    with _bench(device, control) as bench:
        return bench.with_peak(limits, name)


@contextmanager
def _bench(device: torch.device, control: Control) -> Iterator[_Bench]:
    try:
        yield _Bench(device, control)
    finally:
        if device.type in ("cuda", "xpu"):
            torch.get_device_module(device).empty_cache()


def _has_tf32(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_tf32_supported()


def _has_fp8(device: torch.device) -> bool:
    is_nvidia = device.type == "cuda" and torch.version.hip is None
    return is_nvidia and torch.cuda.get_device_capability(device) >= (8, 9)


_ONLY_ON: dict[str, Callable[[torch.device], bool]] = {"tf32": _has_tf32, "fp8": _has_fp8}


Operation = Callable[[], object]
T = TypeVar("T")


@dataclass
class _Work:
    amount: float
    prepare: Callable[[], Operation]
    fastest: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.amount / self.fastest[0] if self.fastest and self.fastest[0] else 0.0

    @property
    def is_undisturbed(self) -> bool:
        return len(self.fastest) == _LEAST_CALLS and self.fastest[-1] <= _ALIKE * self.fastest[0]


class _Bench:
    def __init__(self, device: torch.device, control: Control) -> None:
        self._device = device
        self._clock = clock_for(device)
        self._stop = control.stop_requested
        self._random = torch.Generator(device).manual_seed(0)
        self._pool = torch.empty(0)

    def with_peak(self, limits: Limits, name: str) -> Limits:
        precision, dtype = _FORMATS[name]
        with float32_mode(precision), torch.no_grad():
            sizes = self._sizes(dtype)
            if not sizes:
                return limits
            # a convolution no larger than the middle matmul fills the device as well
            like = sizes[-2:][0]
            best = self._best([*_matmuls(self, sizes, dtype), *_convolutions(self, like, dtype)])
        if not best.fastest or self._stop.is_set():
            return limits
        return limits.with_peak(name, best.rate / 1e12 if best.is_undisturbed else None)

    def bytes_per_second(self) -> float:
        *sizes, smallest = _ARRAY_MIB[self._kind]
        rates = (_unless_refused(partial(self._bandwidth, mib)) for mib in sizes)
        return next(filter(None, rates), None) or self._bandwidth(smallest)

    @property
    def _kind(self) -> str:
        return "cpu" if self._device.type == "cpu" else "accelerator"

    def _sizes(self, dtype: torch.dtype) -> tuple[int, ...]:
        fitting: list[int] = []
        for size in _SIZES:
            matmul = _Work(0.0, partial(self.matmul, (size, size, size), dtype))
            _unless_refused(partial(self._time, matmul, 0.0))
            if not matmul.fastest or (not fitting and matmul.fastest[0] > _TOO_SLOW_SECONDS):
                break
            fitting.append(size)
            if 8 * matmul.fastest[0] > _LONGEST_MATMUL_SECONDS:
                break
        return tuple(fitting[-_LARGEST_SIZES:])

    def _best(self, works: Sequence[_Work]) -> _Work:
        best = 0.0
        for work in works:
            _unless_refused(partial(self._time, work, _LOOK_SECONDS, best))
            best = max(best, work.rate)
        finalists = sorted(works, key=lambda work: work.rate, reverse=True)[:_FINALISTS]
        began, seconds = time.perf_counter(), _TRIAL_SECONDS
        while True:
            for work in finalists:
                _unless_refused(partial(self._time, work, seconds))
            first = max(finalists, key=lambda work: work.rate)
            is_late = time.perf_counter() - began > _PATIENCE_SECONDS
            if first.is_undisturbed or is_late or self._stop.is_set():
                return first

    def _time(self, work: _Work, seconds: float, known_rate: float = 0.0) -> None:
        operation = work.prepare()
        operation()  # the first call of a size loads its kernel
        began = time.perf_counter()
        once = self._seconds(operation, 1)
        work.fastest = sorted([*work.fastest, *once])[:_LEAST_CALLS]
        if work.rate < known_rate / _HOPELESS:
            return
        calls = min(max(_LEAST_CALLS, round(seconds / max(once[0], 1e-6) / 4)), _MOST_CALLS)
        while not self._stop.is_set():
            work.fastest = sorted([*work.fastest, *self._seconds(operation, calls)])[:_LEAST_CALLS]
            if time.perf_counter() - began >= seconds:
                return

    def _seconds(self, operation: Operation, calls: int) -> list[float]:
        marks = [self._clock.mark()]
        for _ in range(calls):
            operation()
            marks.append(self._clock.mark())
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
        return [self._clock.seconds_between(*pair) for pair in pairwise(marks)]

    def matmul(
        self, shape: tuple[int, int, int], dtype: torch.dtype, *, is_transposed: bool = False
    ) -> Operation:
        rows, inner, columns = shape
        if dtype.itemsize == 1:
            # only these layouts; scales of 1, with the sums as torchao's forward pass has them
            one = torch.ones((), device=self._device)
            multiply = partial(torch._scaled_mm, scale_a=one, scale_b=one, use_fast_accum=True)
            factors = self._numbers((rows, inner), dtype), self._numbers((columns, inner), dtype).t()
            return partial(multiply, *factors, out_dtype=torch.bfloat16)
        second = (columns, inner) if is_transposed else (inner, columns)
        weight = self._numbers(second, dtype)
        result = torch.empty(rows, columns, dtype=dtype, device=self._device)
        first = self._numbers((rows, inner), dtype)
        return partial(torch.mm, first, weight.t() if is_transposed else weight, out=result)

    def convolution(
        self, shape: tuple[int, int, int, int], dtype: torch.dtype, layout: torch.memory_format
    ) -> Operation:
        channels = shape[1]
        images = self._numbers(shape, dtype).contiguous(memory_format=layout)
        weight = self._numbers((channels, channels, 3, 3), dtype).contiguous(memory_format=layout)
        return partial(torch.conv2d, images, weight, padding=1)

    def _numbers(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        # numbers of real entropy: zeros would cost less power, and so run at higher clocks
        count = math.prod(shape)
        if self._pool.numel() < count:
            self._pool = torch.randn(count, generator=self._random, device=self._device)
        return self._pool[:count].to(dtype, copy=True).view(shape)

    def _bandwidth(self, mib: int) -> float:
        count = mib * BYTES_PER_MIB // 4
        chunk = min(count, _CHUNK_MIB[self._kind] * BYTES_PER_MIB // 4)
        one, other, result = (
            torch.ones(count, device=self._device).view(-1, chunk).unbind() for _ in range(3)
        )
        # another chunk in each call, so that none is still in a cache
        places = cycle(range(len(result)))
        add = partial(torch.add, alpha=2)
        copy = _Work(2 * 4 * chunk, lambda: lambda: result[at := next(places)].copy_(one[at]))
        triad = _Work(3 * 4 * chunk, lambda: lambda: add(one[at := next(places)], other[at], out=result[at]))
        return self._best([copy, triad]).rate


def _matmuls(bench: _Bench, sizes: Sequence[int], dtype: torch.dtype) -> Iterator[_Work]:
    for size in sizes:
        for is_transposed in (False, True):
            prepare = partial(bench.matmul, (size, size, size), dtype, is_transposed=is_transposed)
            yield _Work(2.0 * size**3, prepare)


def _convolutions(bench: _Bench, size: int, dtype: torch.dtype) -> Iterator[_Work]:
    for channels, width in _IMAGES:
        each = 9 * channels**2 * width**2
        shape = (max(1, round(size**3 / each)), channels, width, width)
        for layout in (torch.channels_last, torch.contiguous_format):
            prepare = partial(bench.convolution, shape, dtype, layout)
            yield _Work(2.0 * shape[0] * each, prepare)


def _unless_refused(measure: Callable[[], T]) -> T | None:
    # an error of the device itself recurs with the smallest arrays
    try:
        return measure()
    except (RuntimeError, ValueError, MemoryError):
        return None
