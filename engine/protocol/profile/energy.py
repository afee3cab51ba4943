"""Energy over a stretch of training, from the device's own counter."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.value import Message, Positive, Seconds

Joules = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Watts = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class Energy(Message):
    """`joules` over `samples` samples in `steps` steps of `seconds` together.

    What the idle device takes is included; `idle_watts` is its power before the model was on it, None where
    that was not measured. NVML counts one graphics card, RAPL the processor packages without memory, fans and
    power supply.
    """

    source: Literal["nvml", "rapl"]
    joules: Joules
    seconds: Seconds
    steps: Positive
    samples: Positive
    idle_watts: Watts | None = None

    @property
    def mean_watts(self) -> float | None:
        """The mean power; None for no time."""
        return self.joules / self.seconds if self.seconds else None

    @property
    def net_joules(self) -> float | None:
        """Energy of training beyond that of the idle device; None where its idle power is unknown."""
        return None if self.idle_watts is None else max(0.0, self.joules - self.idle_watts * self.seconds)

    def per_step(self) -> float:
        """Joules a step, with those of the idle device."""
        return self.joules / self.steps

    def per_thousand_samples(self) -> float:
        """Joules for a thousand samples, with those of the idle device."""
        return 1e3 * self.joules / self.samples
