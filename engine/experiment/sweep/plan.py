"""The plan of a sweep: repeats, precision and time limit."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from engine.experiment.repeats import MOST_REPEATS
from engine.experiment.value import Message, Seconds

MOST_EXTRA_REPEATS = 20
"""Most runs of a cell for the sake of a wanted precision, unless `repeats` asks for more."""


class Plan(Message):
    """Every cell is piloted, then trained `repeats` times, in turns with those that it is compared with.

    With `precision_percent`, the 95 % interval of every ratio to its baseline shall reach no further than
    this from the ratio: the cells with the widest intervals are repeated until that is so. With
    `time_limit_seconds` nothing new begins once that much time has been spent on the sweep.
    """

    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 1
    precision_percent: Annotated[float | None, Field(gt=0, le=100)] = None
    time_limit_seconds: Annotated[float | None, Field(gt=0, le=1e9)] = None


class Pilot(Message):
    """A few steps of a cell in a fresh worker, from which the time and memory of its runs are foretold.

    `start_seconds` pass beside steps and validations (worker, data, model, compiling); `validation_seconds`
    is one validation, None without any. What was not measured is None.
    """

    steps: Annotated[int, Field(ge=1)]
    seconds: Seconds
    start_seconds: Seconds
    step_ms: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    samples_per_second: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    peak_mib: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    validation_seconds: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    final_loss: float | None = None
    steps_per_epoch: Annotated[int | None, Field(ge=1)] = None
