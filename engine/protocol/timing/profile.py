"""The profile of an experiment's step, as its worker sends it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.text import Line, Text
from engine.experiment.value import Message, Positive
from engine.protocol.numerics.advice import Advice
from engine.protocol.timing.bar import Bar, Ms
from engine.protocol.timing.energy import Energy
from engine.protocol.timing.limits import Limits
from engine.protocol.timing.rows import Count, TimeRows


class StepProfile(Message):
    """Where the time of a step goes, from `steps` recorded steps after warm-up.

    `step_ms` is the time of a step without the profiler, `recorded_ms` that of a recorded step; `bar` adds up
    to `step_ms`. `validation` is the bar of one validation batch. `format` is that of the precision's matrix
    products ("fp32", "tf32", "fp16", "bf16"); `matrix_units` names the device's units for these ("Tensor
    Cores", "AMX"), None where it has none. `flops` are the model's per step, forward and backward, without
    those of recomputed activations. `modules` is empty where the recipe hides them; `notes` say so.
    `trace` is the name of the trace file in the store, if any. `disturbance` says as a clause why the times
    cannot be relied on, such as other programs.
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

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation: the model's FLOPs per second over the measured peak of its format."""
        peak = None if self.limits is None else self.limits.tflops(self.format)
        return self.flops / self.step_ms / 1e9 / peak if self.flops and self.step_ms and peak else None


class Profiled(Message):
    """The profile is made; the job itself ends with `Finished`."""

    event: Literal["profiled"] = "profiled"
    profile: StepProfile
