"""The profile of an experiment's step, as its worker sends it."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from engine.experiment.value import Line, Message, Positive, Text
from engine.protocol.numerics.advice import Advice
from engine.protocol.profile.bar import Bar, Ms, StepPart
from engine.protocol.profile.energy import Energy
from engine.protocol.profile.limits import Limits
from engine.protocol.profile.rows import Count, TimeRow, TimeRows


class StepProfile(Message):
    """The time of a step by its parts, from `steps` recorded steps after warm-up.

    `step_ms` is the time of a step without the profiler, `recorded_ms` that of a recorded step; `bar` adds up
    to `step_ms`. `validation` is the bar of one validation batch. `format` is that of the precision's matrix
    products ("fp32", "tf32", "fp16", "bf16"); `matrix_units` names the device's units for these ("Tensor
    Cores", "AMX"), None where it has none. `flops` are the model's per step, forward and backward, without
    those of recomputed activations. `modules` is empty where the recipe hides them; `notes` say so.
    `trace` is the name of the trace file in the store, if any. `disturbance` says as a clause why the times
    cannot be relied on, such as other programs. `cores` are those of the processor that the program may use.

    Of the `limits`, a peak that the step itself exceeds is withheld.
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
        """The profile with other limits, without a peak that its step exceeds."""
        return StepProfile(**{**dict(self), "limits": limits})

    @property
    def peak_tflops(self) -> float | None:
        """The measured peak of its format, if known."""
        return None if self.limits is None else self.limits.tflops(self.format)

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation: the model's FLOPs per second over the measured peak of its format."""
        peak = self.peak_tflops
        return self.flops / self.step_ms / 1e9 / peak if self.flops and self.step_ms and peak else None

    @property
    def matrix_share_of_peak(self) -> float | None:
        """The model's FLOPs over those that its matrix work could have done at the peak, if known."""
        peak, reached = self.peak_tflops, _products_tflops(self.bar, self.step_ms, self.flops)
        return reached / peak if peak and reached else None

    def share_of_step(self, row: TimeRow) -> float | None:
        """A row's share of the step; None for work at once that adds up to more than the step."""
        share = row.ms / self.step_ms if self.step_ms else math.inf
        return min(1.0, share) if share < 1 + _ROUNDING else None


def _products_tflops(bar: Bar, step_ms: float, flops: float | None) -> float | None:
    """The rate of the model's products while they run, in TFLOP/s; None where it is unknown."""
    ms = min(bar.ms(StepPart.MATRIX_UNITS) + bar.ms(StepPart.MATRIX) or step_ms, step_ms)
    return flops / ms / 1e9 if flops and ms else None


_ROUNDING = 1e-9


class Profiled(Message):
    """The profile is made; the job itself ends with `Finished`."""

    event: Literal["profiled"] = "profiled"
    profile: StepProfile
