"""The fewest modules that must stay in FP32 for a run to be as good as FP32."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.value import (
    MOST_ENTRIES,
    Fraction,
    Line,
    Message,
    Mib,
    Seconds,
    StepNumber,
    Text,
    Whole,
)
from engine.protocol.numerics.advice import Changes

Names = Annotated[tuple[Line, ...], Field(max_length=MOST_ENTRIES)]


class IslandTrial(Message):
    """A short run with these modules kept in FP32, and whether it was as good as FP32.

    `reason` says why it was not: "the loss is NaN from step 3 on"; empty where it was.
    """

    modules: Names
    is_good: bool
    reason: Text = ""
    final_loss: float | None = None
    skipped: Whole = 0
    seconds: Seconds = 0.0


class Islands(Message):
    """The fewest modules found; None where even all of them do not suffice, empty where none is needed.

    `is_minimal`: for each module a trial has shown that the run is worse without it. The costs compare a run
    with the islands to the same run without any: steps per second, and MiB at its peak (None if unknown).
    """

    part: Literal["islands"] = "islands"
    modules: Names | None = None
    is_minimal: bool = False
    trials: Annotated[tuple[IslandTrial, ...], Field(max_length=MOST_ENTRIES)] = ()
    steps: StepNumber = 0
    most_skipped_fraction: Fraction = 0.0
    speed_ratio: float | None = None
    memory_added_mib: Mib | None = None
    changes: Changes = ()
    """The setting that *Use* changes: step.fp32_modules."""
    sentence: Text = ""
