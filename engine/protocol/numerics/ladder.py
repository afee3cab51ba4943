"""The ladder: FP32, autocast without and with loss scaler, and BF16, from equal weights and batches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.catalog import Precision
from engine.experiment.value import MOST_ENTRIES, Line, Message, Positive, StepNumber, Text, Whole

Losses = Annotated[tuple[float, ...], Field(max_length=MOST_ENTRIES)]


class ModuleError(Message):
    """A module's error against FP32 in one step from equal weights: ||x - y|| / ||y||.

    `explained_error` is what rounding explains of it.
    """

    module: Line
    relative_error: float
    explained_error: float | None = None


class Rung(Message):
    """A run of the ladder: its loss at each step, and where it parts from FP32.

    It is held against its own band: FP32's repeats, and those with weights as coarse as the rung's format.
    `parts_at` is the first step whose loss is outside of that and stays there; None where it never parts.
    `first_module` is the first module, in the order in which the forward pass is done with them, whose output
    in the first step is further from FP32's than rounding explains; `errors` are those of all modules.
    """

    label: Line
    precision: Precision
    losses: Losses = ()
    band_low: Losses = ()
    band_high: Losses = ()
    parts_at: Positive | None = None
    first_module: Line | None = None
    errors: Annotated[tuple[ModuleError, ...], Field(max_length=MOST_ENTRIES)] = ()
    skipped: Whole = 0
    sentence: Text = ""


class Ladder(Message):
    """FP32's repeats, as far apart as another order of sums sets them, and the rungs, each `steps` long.

    FP32's band at step i + 1 goes from `band_low[i]` to `band_high[i]`.
    """

    part: Literal["ladder"] = "ladder"
    steps: StepNumber
    repeats: Annotated[tuple[Losses, ...], Field(max_length=100)] = ()
    band_low: Losses = ()
    band_high: Losses = ()
    rungs: Annotated[tuple[Rung, ...], Field(max_length=100)] = ()
    sentence: Text = ""
    notes: Annotated[tuple[Text, ...], Field(max_length=100)] = ()
