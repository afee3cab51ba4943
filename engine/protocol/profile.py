"""The profile of a training step, the measured limits of a device, and profiles of several experiments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator

from engine.experiment.experiment import Experiment
from engine.experiment.problem import Problem, request_error
from engine.experiment.settings import MOST_DEVICES
from engine.experiment.value import Fraction, Line, Message, Positive, Seconds, Text
from engine.protocol.advice import Advice, Remedy
from engine.protocol.answer import Answer
from engine.protocol.summary import Energy
from engine.words.numbers import number

MOST_MS = 1e9
Ms = Annotated[float, Field(ge=0, le=MOST_MS, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
MOST_TABLE_ROWS = 2_000
Count = Annotated[float, Field(ge=0, le=1e21, allow_inf_nan=False)]
"""A mean per step, of calls, floating-point operations or bytes."""
_ROUNDING = 1e-9


class StepPart(StrEnum):
    """The parts of a step in the order of the bar: work of the device or waits. They do not overlap."""

    MATRIX_UNITS = "matrix units"  # matmuls and convolutions on Tensor Cores, AMX or 16-bit dot products
    MATRIX = "matrix"  # matmuls and convolutions on ordinary units
    MEMORY = "memory"  # element-wise operations, normalizations, reductions, casts, layout changes
    SCALING = "fp8 scaling"  # finding FP8's scales and casting, with what the compiler fuses with that
    COPIES = "copies"  # between host and device
    OPTIMIZER = "optimizer"  # the optimizer step, with unscaling and clipping, whatever its kernels do
    OTHER = "other"
    COMMUNICATION = "communication"  # devices synchronize gradients, or weights, and compute nothing else
    HOST = "host"  # waiting for the host to launch work; on a CPU Python and the framework between operations
    DATA = "data"  # the device waits for the next batch


class PartTime(Message):
    """The time of one part of a step in milliseconds."""

    part: StepPart
    ms: Ms


class Bar(Message):
    """The time of a step or a validation batch, divided into parts. Parts that took no time are absent."""

    parts: Annotated[tuple[PartTime, ...], Field(max_length=len(StepPart))] = ()

    @classmethod
    def of(cls, times: Iterable[tuple[StepPart, float]]) -> Bar:
        """Return the bar of these times, summed by part."""
        sums = dict.fromkeys(StepPart, 0.0)
        for part, ms in times:
            sums[part] += ms
        return cls(parts=tuple(PartTime(part=part, ms=ms) for part, ms in sums.items() if ms > 0))

    @property
    def total_ms(self) -> float:
        return sum(entry.ms for entry in self.parts)

    def ms(self, part: StepPart) -> float:
        """Return the time of a part. It is 0 for an absent one."""
        return next((entry.ms for entry in self.parts if entry.part is part), 0.0)

    def fraction(self, part: StepPart) -> float:
        """Return a part's share of the bar. It is 0 for an empty bar."""
        return self.ms(part) / self.total_ms if self.parts else 0.0


class TimeRow(Message):
    """A row of a profile's tables: the mean time and work per step of a kernel, an operation or a module.

    Numbers that cannot be counted are None. Most of the time belongs to `part`. `matrix_unit_fraction` is the
    share of time on Tensor Cores (on a CPU: AMX or 16-bit dot products). `moved_bytes` counts each input and
    output once. `format` is the number format of the matmuls ("fp16"). A module's `ms` includes its
    `backward_ms`. `operation` is the one that launched most of a kernel's time.
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
        """The achieved throughput in TFLOP/s. None where it cannot be counted."""
        return self.flops / self.ms / 1e9 if self.flops and self.ms else None

    @property
    def gb_per_second(self) -> float | None:
        """The achieved bandwidth in GB/s (10^9 bytes). None where it cannot be counted."""
        return self.moved_bytes / self.ms / 1e6 if self.moved_bytes and self.ms else None


TimeRows = Annotated[tuple[TimeRow, ...], Field(max_length=MOST_TABLE_ROWS)]  # the longest first


class Peak(Message):
    """The highest measured throughput of matmuls and convolutions in fp32, tf32, fp16, bf16 or fp8."""

    format: Line
    tflops: Rate


class Limits(Message):
    """A device's measured limits for the roofline: peak throughput by format, and memory bandwidth in GB/s.

    1 GB is 10^9 bytes. The measurement took `seconds`. `withheld` names the formats whose peak is not
    reliable, because something disturbed the measurement, or because a step was faster.
    """

    peaks: Annotated[tuple[Peak, ...], Field(max_length=20)]
    gb_per_second: Rate
    seconds: Seconds = 0.0
    withheld: Annotated[tuple[Line, ...], Field(max_length=20)] = ()

    def tflops(self, name: str) -> float | None:
        """Return the peak in a format, in TFLOP/s.

        None if the peak is not reliable or the device has no such matmuls.
        """
        return next((peak.tflops for peak in self.peaks if peak.format == name), None)

    def ridge(self, name: str) -> float | None:
        """Return the FLOP/byte above which the peak limits the throughput instead of the bandwidth."""
        peak = self.tflops(name)
        return None if peak is None else 1e3 * peak / self.gb_per_second

    def with_peak(self, name: str, tflops: float | None) -> Limits:
        """Return the limits with this peak of a format. For None, the peak is withheld."""
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
    """The time of a step on one rank of a multi-device run.

    The communication in `bar` is exposed, i.e. not overlapped with computation. `overlapped_ms` is the rest
    of it. `skew_ms` is the part of all communication spent waiting for a rank that had not started it, or
    None if the messages of the ranks cannot be matched.
    """

    device: Line
    step_ms: Ms
    bar: Bar
    overlapped_ms: Ms = 0.0
    skew_ms: Ms | None = None

    def named(self, rank: int) -> str:
        """Return its name as this rank: "Rank 1, cuda:1", or "Rank 1" on a CPU."""
        return f"Rank {rank}" if self.device == "cpu" else f"Rank {rank}, {self.device}"

    @property
    def computing_ms(self) -> float:
        """The time of the step without communication and waits."""
        waits = (StepPart.COMMUNICATION, StepPart.HOST, StepPart.DATA)
        return self.bar.total_ms - sum(self.bar.ms(part) for part in waits)

    @property
    def exposed_ms(self) -> float:
        return self.bar.ms(StepPart.COMMUNICATION)


class BusRate(Message):
    """The bus bandwidth, in GB/s (10^9 bytes), of an all-reduce of a message of `size` bytes.

    As in NCCL's tests it is 2 (n - 1) / n times the bytes divided by the time, for n devices: the traffic on
    each link, whatever their number.
    """

    size: Count
    gb_per_second: Rate


_LEAST_SKEW = 0.1  # a device is called slow if the others wait for this share of a step


class Communication(Message):
    """The communication of a multi-device step by rank, and the bus bandwidth measured by message size.

    `ranks` are in order of number. `messages` are the sizes in bytes of the first rank's messages in a step.
    """

    ranks: Annotated[tuple[RankProfile, ...], Field(min_length=2, max_length=MOST_DEVICES)]
    messages: Annotated[tuple[Count, ...], Field(max_length=MOST_TABLE_ROWS)] = ()
    rates: Annotated[tuple[BusRate, ...], Field(max_length=100)] = ()

    @property
    def slowest(self) -> int | None:
        """The rank that the others wait for, a tenth of a step or more. None if there is none."""
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
    """The profile of a training step: its time by parts, its tables, and facts to explain them.

    `step_ms` is the time of a step without the profiler, and the sum of `bar`. `recorded_ms` is the time with
    the profiler, over `steps` steps after warm-up. `validation` is the bar of one validation batch. `format`
    is the format of the precision's matmuls, and `matrix_units` the device's name of the units for them
    ("Tensor Cores", "AMX"). `flops` are the model's per step, without those of recomputed activations.
    `modules` is empty if compilation hides them. `trace` is the name of the trace file in the store.
    `disturbance` says as a clause why the times are unreliable. `cores` are the CPU cores that the program
    may use, or a rank's share of them. In a multi-device profile, `samples` count those of all devices, and
    everything except `exchange` describes the first device. `limits` withhold a peak that the step itself
    exceeds.
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
    exchange: Communication | None = None

    @field_validator("limits")
    @classmethod
    def _without_exceeded_peak(cls, limits: Limits | None, info: ValidationInfo) -> Limits | None:
        known = info.data
        if limits is None or not {"format", "bar", "step_ms", "flops"} <= known.keys():
            return limits
        peak = limits.tflops(known["format"])
        reached = _matmul_tflops(known["bar"], known["step_ms"], known["flops"])
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
        """The model's FLOPs per second divided by the measured peak of its format. None if unknown."""
        peak = self.peak_tflops
        return self.flops / self.step_ms / 1e9 / peak if self.flops and self.step_ms and peak else None

    @property
    def matrix_share_of_peak(self) -> float | None:
        """The throughput of the step's matmuls as a fraction of the peak. None if unknown."""
        peak, reached = self.peak_tflops, _matmul_tflops(self.bar, self.step_ms, self.flops)
        return reached / peak if peak and reached else None

    def share_of_step(self, row: TimeRow) -> float | None:
        """Return a row's share of the step. None for parallel work that adds up to more than the step."""
        share = row.ms / self.step_ms if self.step_ms else math.inf
        return min(1.0, share) if share < 1 + _ROUNDING else None


def _matmul_tflops(bar: Bar, step_ms: float, flops: float | None) -> float | None:
    ms = min(bar.ms(StepPart.MATRIX_UNITS) + bar.ms(StepPart.MATRIX) or step_ms, step_ms)
    return flops / ms / 1e9 if flops and ms else None


class Profiled(Message):
    """The event with a finished profile. The job itself ends with `Finished`."""

    event: Literal["profiled"] = "profiled"
    profile: StepProfile


MOST_SIDES = 8
_WORKERS, _MOST_WORKERS = 4, 32
_LEAST_GAIN = 0.05


class ProfileSide(Message):
    """A profiled experiment, or saved run, with its profile or the problem that prevented it."""

    experiment: Experiment
    run_id: Line | None = None
    profile: StepProfile | None = None
    problem: Problem | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The device and the number of devices. On a CPU each has a share of the cores."""
        return self.experiment.device, self.experiment.devices


class Profiles(Answer):
    """A profiling study: one or more experiments (sides) and their profiles, the first as the baseline.

    Sides on the same device share its measured limits.
    """

    kind = "profile"
    sides: Annotated[tuple[ProfileSide, ...], Field(max_length=MOST_SIDES)] = ()

    @field_validator("sides")
    @classmethod
    def _with_shared_limits(cls, sides: tuple[ProfileSide, ...]) -> tuple[ProfileSide, ...]:
        shared = {place: _best(sides, place) for place in {side.place for side in sides}}
        return tuple(_with_limits(side, shared[side.place]) for side in sides)

    def with_side(self, place: int, **changes: Any) -> Profiles:
        """Return the profiles with these fields of a side changed."""
        side = self.sides[place].model_copy(update=changes)
        return Profiles(sides=(*self.sides[:place], side, *self.sides[place + 1 :]))

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return tuple(side.experiment for side in self.sides)

    @property
    def run_ids(self) -> tuple[str | None, ...]:
        return tuple(side.run_id for side in self.sides)

    @property
    def is_known(self) -> bool:
        return bool(self.measured())

    @property
    def digest(self) -> str:
        """The steps' times: "FP32 4.0 ms, BF16 AMP 2.1 ms a step"."""
        known = [(side.experiment, side.profile) for side in self.sides if side.profile is not None]
        times = [f"{each.precision.label} {number(profile.step_ms)} ms" for each, profile in known]
        return f"{', '.join(times)} a step" if times else ""

    def afresh(self) -> Self:
        unknown = {"profile": None, "problem": None}
        sides = tuple(side.model_copy(update=unknown) for side in self.sides)
        return self.model_copy(update={"sides": sides})

    def measured(self) -> tuple[StepProfile, ...]:
        return tuple(side.profile for side in self.sides if side.profile is not None)


def profiles_of(experiments: Sequence[Experiment], run_ids: Sequence[str | None] = ()) -> Profiles:
    """Return a new profiling study of these experiments, or of the runs `run_ids`. Raises ProblemError."""
    if not 1 <= len(experiments) <= MOST_SIDES:
        message = f"{len(experiments):,} experiments cannot be profiled together."
        remedy = f"Select 1 to {MOST_SIDES}."
        raise request_error(message, remedy, key="precision", value=len(experiments))
    pairs = zip(experiments, run_ids or [None] * len(experiments), strict=True)
    return Profiles(
        sides=tuple(ProfileSide(experiment=experiment, run_id=run_id) for experiment, run_id in pairs)
    )


def _best(sides: Sequence[ProfileSide], place: tuple[str, int]) -> Limits | None:
    measured = [side.profile for side in sides if side.profile and side.place == place]
    best: Limits | None = None
    for limits in filter(None, (profile.limits for profile in measured)):
        best = best or limits
        for peak in limits.peaks:
            best = best.with_peak(peak.format, max(peak.tflops, best.tflops(peak.format) or 0.0))
        fastest = max(best.gb_per_second, limits.gb_per_second)
        best = best.model_copy(update={"gb_per_second": fastest})
    for profile in measured:
        # without peaks that a step exceeds
        best = best and profile.with_limits(best).limits
    return best


def _with_limits(side: ProfileSide, limits: Limits | None) -> ProfileSide:
    profile = side.profile
    if profile is None or limits is None or profile.limits in (None, limits):
        return side
    return side.model_copy(update={"profile": profile.with_limits(limits)})


def more_workers(experiment: Experiment, profile: StepProfile) -> tuple[Remedy, float] | None:
    """Return the fix "more loader processes", and a lower bound of the step's time with it in milliseconds.

    It doubles their number, up to the CPU's cores. None if nothing would be gained.
    """
    before, cores = experiment.data.workers, profile.cores or _MOST_WORKERS
    workers = min(2 * before or _WORKERS, cores, _MOST_WORKERS)
    wait_ms = profile.bar.ms(StepPart.DATA)
    rest_ms = max(0.0, profile.step_ms - wait_ms)
    # loaders that do not keep up take all of a step in each; without any, loading takes what training waits
    loading_ms = min(before, cores) * profile.step_ms if before else wait_ms
    least_ms = max(rest_ms, loading_ms / workers)
    if profile.threads is not None and profile.cores is not None:
        # a CPU that also trains divides its cores between both
        least_ms = max(least_ms, (profile.threads * rest_ms + loading_ms) / profile.cores)
    if workers <= before or least_ms > (1 - _LEAST_GAIN) * profile.step_ms:
        return None
    return Remedy((("data.workers", str(workers)),), f"Load with {workers:,} workers"), least_ms
