"""The rows of a profile's tables: its kernels, its operations and its modules."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engine.experiment.value import Fraction, Line, Message
from engine.protocol.profile.bar import Ms, StepPart

MOST_TABLE_ROWS = 2_000

Count = Annotated[float, Field(ge=0, le=1e21, allow_inf_nan=False)]
"""A mean per step, of calls, floating-point operations or bytes."""


class TimeRow(Message):
    """A kernel's, operation's or module's share of a step; all figures are means per step.

    `part` is where most of its time belongs, `matrix_unit_fraction` how much of its time is on Tensor Cores
    (on a CPU: AMX or 16-bit dot products). `flops` and `moved_bytes` (of inputs and outputs, each once) are
    None where they cannot be counted. `format` is that of its products ("fp16"), None where it has none.
    A module's `backward_ms` is a part of its `ms`; `operation` launched most of a kernel's time.
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
        """The achieved throughput in TFLOP/s; None where it cannot be counted."""
        return self.flops / self.ms / 1e9 if self.flops and self.ms else None

    @property
    def gb_per_second(self) -> float | None:
        """The achieved bandwidth in GB/s (10^9 bytes); None where it cannot be counted."""
        return self.moved_bytes / self.ms / 1e6 if self.moved_bytes and self.ms else None


TimeRows = Annotated[tuple[TimeRow, ...], Field(max_length=MOST_TABLE_ROWS)]
"""The longest first."""
