"""The profile of an experiment's step: its time by parts, its tables, and the device's measured limits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from engine.experiment.settings import MOST_DEVICES
from engine.experiment.value import Fraction, Line, Message, Positive, Seconds, Text
from engine.protocol.advice import Advice
from engine.protocol.summary import Energy

MOST_MS = 1e9
Ms = Annotated[float, Field(ge=0, le=MOST_MS, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
MOST_TABLE_ROWS = 2_000
Count = Annotated[float, Field(ge=0, le=1e21, allow_inf_nan=False)]
"""A mean per step, of calls, floating-point operations or bytes."""
_ROUNDING = 1e-9


class StepPart(StrEnum):
    """The parts of a step in the order of the bar: work of the device, or waits."""

    MATRIX_UNITS = "matrix units"  # matmuls and convolutions on Tensor Cores, AMX or 16-bit dot products
    MATRIX = "matrix"  # matmuls and convolutions on ordinary units
    MEMORY = "memory"  # element-wise operations, normalizations, reductions, casts, changes of layout
    SCALING = "fp8 scaling"  # finding FP8 scales and casting, with what the compiler fuses with that
    COPIES = "copies"  # between host and device
    OPTIMIZER = "optimizer"  # the optimizer step, with unscaling and clipping, whatever its kernels do
    OTHER = "other"
    COMMUNICATION = "communication"  # devices synchronize gradients, or weights, and compute nothing else
    HOST = "host"  # waiting for the host to launch work; on a CPU Python and the framework between operations
    DATA = "data"  # the device waits for the next batch


class PartTime(Message):
    part: StepPart
    ms: Ms


class Bar(Message):
    """The parts of a step or a validation batch, in the order of `StepPart`, without empty parts."""

    parts: Annotated[tuple[PartTime, ...], Field(max_length=len(StepPart))] = ()

    @classmethod
    def of(cls, times: Iterable[tuple[StepPart, float]]) -> Bar:
        """Return a bar of these times, summed by part."""
        sums = dict.fromkeys(StepPart, 0.0)
        for part, ms in times:
            sums[part] += ms
        return cls(parts=tuple(PartTime(part=part, ms=ms) for part, ms in sums.items() if ms > 0))

    @property
    def total_ms(self) -> float:
        return sum(entry.ms for entry in self.parts)

    def ms(self, part: StepPart) -> float:
        """Return the time of a part, 0 for an absent one."""
        return next((entry.ms for entry in self.parts if entry.part is part), 0.0)

    def fraction(self, part: StepPart) -> float:
        """Return a part's share of the bar, 0 for an empty bar."""
        return self.ms(part) / self.total_ms if self.parts else 0.0


class TimeRow(Message):
    """A kernel's, operation's or module's share of a step. All numbers are means per step.

    `part` is the part of most of its time, `matrix_unit_fraction` the fraction on Tensor Cores (on a CPU: AMX
    or 16-bit dot products). `moved_bytes` are those of inputs and outputs, each once. `format` is the one of
    its matmuls ("fp16"). A value that cannot be counted is None. A module's `backward_ms` is a part of its
    `ms`. `operation` launched most of a kernel's time.
    """

    name: Line
    part: StepPart
    ms: Ms
    calls: Count
    matrix_unit_fraction: Fraction = 0.0
    format: Line | None = None
    flops: Count | None = None
    moved_bytes: Count | None = None
    backward_ms: Ms | None = None
    operation: Line | None = None

    @property
    def tflops(self) -> float | None:
        """The achieved throughput in TFLOP/s. None if it cannot be counted."""
        return self.flops / self.ms / 1e9 if self.flops and self.ms else None

    @property
    def gb_per_second(self) -> float | None:
        """The achieved bandwidth in GB/s (10^9 bytes). None if it cannot be counted."""
        return self.moved_bytes / self.ms / 1e6 if self.moved_bytes and self.ms else None


TimeRows = Annotated[tuple[TimeRow, ...], Field(max_length=MOST_TABLE_ROWS)]  # the longest first


class Peak(Message):
    """The highest throughput of matmuls and convolutions in a format: fp32, tf32, fp16, bf16 or fp8."""

    format: Line
    tflops: Rate


class Limits(Message):
    """A device's limits, measured within `seconds`. Its memory bandwidth is in GB/s (10^9 bytes).

    `withheld` are the formats whose peak could not be measured reliably, as it was disturbed, or a step was
    faster.
    """

    peaks: Annotated[tuple[Peak, ...], Field(max_length=20)]
    gb_per_second: Rate
    seconds: Seconds = 0.0
    withheld: Annotated[tuple[Line, ...], Field(max_length=20)] = ()

    def tflops(self, name: str) -> float | None:
        """Return the peak in a format. None if it is withheld, or the device has no such matmuls."""
        return next((peak.tflops for peak in self.peaks if peak.format == name), None)

    def ridge(self, name: str) -> float | None:
        """The arithmetic intensity (FLOP/byte) above which the peak, not the bandwidth, is the limit."""
        peak = self.tflops(name)
        return None if peak is None else 1e3 * peak / self.gb_per_second

    def with_peak(self, name: str, tflops: float | None) -> Limits:
        """Return the limits with this peak of a format. For None, with the peak withheld."""
        rates = {peak.format: peak.tflops for peak in self.peaks}
        withheld = dict.fromkeys(self.withheld)
        if tflops is None:
            rates.pop(name, None)
            withheld[name] = None
        else:
            rates[name] = tflops
            withheld.pop(name, None)
        peaks = tuple(Peak(format=known, tflops=rate) for known, rate in rates.items())
        return self.model_copy(update={"peaks": peaks, "withheld": tuple(withheld)})


class RankProfile(Message):
    """The step of one of the devices that train together.

    The communication in its `bar` is exposed: the device computed nothing else. In another `overlapped_ms` of
    communication it also computed. `skew_ms` is the part of both in which another device had not started
    yet. None if the messages of the devices cannot be matched.
    """

    device: Line
    step_ms: Ms
    bar: Bar
    overlapped_ms: Ms = 0.0
    skew_ms: Ms | None = None

    def named(self, rank: int) -> str:
        """Return its name as rank of this number: "Rank 1, cuda:1", or "Rank 1" on a CPU."""
        return f"Rank {rank}" if self.device == "cpu" else f"Rank {rank}, {self.device}"

    @property
    def computing_ms(self) -> float:
        """The step without communication and waits."""
        waits = (StepPart.COMMUNICATION, StepPart.HOST, StepPart.DATA)
        return self.bar.total_ms - sum(self.bar.ms(part) for part in waits)

    @property
    def exposed_ms(self) -> float:
        return self.bar.ms(StepPart.COMMUNICATION)


class BusRate(Message):
    """The bus bandwidth, in GB/s (10^9 bytes), at which all devices sum a message of `size` bytes.

    As in NCCL's tests, it is 2 (n - 1) / n times the bytes over the time, for n devices. It is per link.
    """

    size: Count
    gb_per_second: Rate


_LEAST_SKEW = 0.1  # the share of a step: a device is called slow if the others wait longer for it


class Exchange(Message):
    """The communication of the devices in a profiled step.

    `ranks` are in their order. `messages` are the sizes in bytes that the first rank sent in a step. `rates`
    are the measured rates of the devices by message size.
    """

    ranks: Annotated[tuple[RankProfile, ...], Field(min_length=2, max_length=MOST_DEVICES)]
    messages: Annotated[tuple[Count, ...], Field(max_length=MOST_TABLE_ROWS)] = ()
    rates: Annotated[tuple[BusRate, ...], Field(max_length=100)] = ()

    @property
    def slowest(self) -> int | None:
        """The rank that the others wait for, each a tenth of a step or more. None if there is none."""
        waits = [rank.skew_ms for rank in self.ranks]
        known = [wait for wait in waits if wait is not None]
        if len(known) < len(waits):
            return None
        step_ms = max(rank.step_ms for rank in self.ranks)
        return waits.index(min(known)) if max(known) - min(known) >= _LEAST_SKEW * step_ms > 0 else None

    def rate(self, size: float) -> float | None:
        """Return the bus bandwidth for a message of `size` bytes, interpolated on logarithmic scales."""
        if not self.rates or size <= 0:
            return None
        smaller = [each for each in self.rates if each.size <= size]
        larger = [each for each in self.rates if each.size > size]
        if not (smaller and larger):
            return (smaller[-1] if smaller else larger[0]).gb_per_second
        below, above = smaller[-1], larger[0]
        part = math.log(size / below.size) / math.log(above.size / below.size)
        return below.gb_per_second * math.pow(above.gb_per_second / below.gb_per_second, part)


class StepProfile(Message):
    """The time of a step by its parts, from `steps` recorded steps after warm-up.

    `step_ms` is the time of a step without the profiler, the sum of `bar`. `recorded_ms` is that of a
    recorded step. `validation` is the bar of one validation batch. `format` is the one of the precision's
    matmuls, `matrix_units` names the device's units for them ("Tensor Cores", "AMX"). `flops` are the model's
    per step, without recomputed activations. `modules` is empty if compilation or capture hides them. `trace`
    is the name of the trace file in the store. `disturbance` says as a clause why the times are not reliable.
    `cores` counts the CPU cores that the program may use, or a rank's share of them. With multiple devices,
    which have an `exchange`, `samples` are of all, and everything else of the first. In `limits`, a peak that
    the step itself exceeds is withheld.
    """

    device_type: Line
    steps: Positive
    samples: Positive
    step_ms: Ms
    recorded_ms: Ms
    bar: Bar
    format: Line
    validation: Bar | None = None
    matrix_units: Line | None = None
    threads: Positive | None = None
    cores: Positive | None = None
    kernels: TimeRows = ()
    operations: TimeRows = ()
    modules: TimeRows = ()
    flops: Count | None = None
    limits: Limits | None = None
    energy: Energy | None = None
    advice: Annotated[tuple[Advice, ...], Field(max_length=100)] = ()
    notes: Annotated[tuple[Text, ...], Field(max_length=100)] = ()
    trace: Line | None = None
    disturbance: Line | None = None
    exchange: Exchange | None = None

    @field_validator("limits")
    @classmethod
    def _without_exceeded_peak(cls, limits: Limits | None, info: ValidationInfo) -> Limits | None:
        known = info.data
        if limits is None or not {"format", "bar", "step_ms", "flops"} <= known.keys():
            return limits
        peak = limits.tflops(known["format"])
        reached = _products_tflops(known["bar"], known["step_ms"], known["flops"])
        is_exceeded = peak is not None and reached is not None and reached > peak
        return limits.with_peak(known["format"], None) if is_exceeded else limits

    def with_limits(self, limits: Limits) -> StepProfile:
        """Return the profile with other limits, without a peak that its step exceeds."""
        return StepProfile(**{**dict(self), "limits": limits})

    @property
    def peak_tflops(self) -> float | None:
        """The measured peak of its format, if known."""
        return None if self.limits is None else self.limits.tflops(self.format)

    @property
    def fraction_of_measured_peak(self) -> float | None:
        """Return the model's FLOPs per second over the measured peak of its format, None if unknown."""
        peak = self.peak_tflops
        return self.flops / self.step_ms / 1e9 / peak if self.flops and self.step_ms and peak else None

    @property
    def matrix_share_of_peak(self) -> float | None:
        """The model's FLOPs over the peak FLOPs in the time of its matmuls, if known."""
        peak, reached = self.peak_tflops, _products_tflops(self.bar, self.step_ms, self.flops)
        return reached / peak if peak and reached else None

    def share_of_step(self, row: TimeRow) -> float | None:
        """Return a row's share of the step. None for parallel work that adds up to more than the step."""
        share = row.ms / self.step_ms if self.step_ms else math.inf
        return min(1.0, share) if share < 1 + _ROUNDING else None


def _products_tflops(bar: Bar, step_ms: float, flops: float | None) -> float | None:
    ms = min(bar.ms(StepPart.MATRIX_UNITS) + bar.ms(StepPart.MATRIX) or step_ms, step_ms)
    return flops / ms / 1e9 if flops and ms else None


class Profiled(Message):
    """The result of the profile. The job itself ends with `Finished`."""

    event: Literal["profiled"] = "profiled"
    profile: StepProfile
