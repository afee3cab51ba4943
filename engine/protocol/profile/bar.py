"""The parts of a step's time; each moment of the step belongs to exactly one of them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from engine.experiment.value import Message

MOST_MS = 1e9
Ms = Annotated[float, Field(ge=0, le=MOST_MS, allow_inf_nan=False)]
"""Milliseconds."""


class StepPart(StrEnum):
    """Parts of a step: work of the device, or waits; in the bar's order."""

    MATRIX_UNITS = "matrix units"
    """Matrix products and convolutions on Tensor Cores; on a CPU those on AMX or 16-bit dot products."""
    MATRIX = "matrix"
    """Matrix products and convolutions on ordinary units."""
    MEMORY = "memory"
    """Bound by memory: element-wise operations, normalisations, reductions, casts, changes of layout."""
    COPIES = "copies"
    """Between host and device."""
    OPTIMIZER = "optimizer"
    """The optimizer step, with unscaling and clipping, whatever its kernels do."""
    OTHER = "other"
    """Work of none of these kinds."""
    HOST = "host"
    """The device waits for the host to launch work; on a CPU Python and the framework between operations."""
    DATA = "data"
    """The device waits for the next batch."""


class PartTime(Message):
    """The time of a step in a part."""

    part: StepPart
    ms: Ms


class Bar(Message):
    """The parts of a step or a validation batch, in the order of `StepPart`; those of no time are absent."""

    parts: Annotated[tuple[PartTime, ...], Field(max_length=len(StepPart))] = ()

    @classmethod
    def of(cls, times: Iterable[tuple[StepPart, float]]) -> Bar:
        """The bar of these times, summed by part."""
        sums = dict.fromkeys(StepPart, 0.0)
        for part, ms in times:
            sums[part] += ms
        return cls(parts=tuple(PartTime(part=part, ms=ms) for part, ms in sums.items() if ms > 0))

    @property
    def total_ms(self) -> float:
        return sum(entry.ms for entry in self.parts)

    def ms(self, part: StepPart) -> float:
        """The time of a part; 0 for an absent one."""
        return next((entry.ms for entry in self.parts if entry.part is part), 0.0)

    def fraction(self, part: StepPart) -> float:
        """A part's share of the whole; 0 for an empty bar."""
        return self.ms(part) / self.total_ms if self.parts else 0.0
