"""The base class of messages between worker and program, and the bounds of their numbers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Message(BaseModel):
    """A frozen value read from JSON; unknown keys are refused."""

    # pydantic writes NaN and infinity as null by default; a diverged loss must survive the trip
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", defer_build=True)


# A line may come from any program; every reader can store, divide by and draw what is within these bounds.
MOST_ENTRIES = 10_000
"""In any list of a message, columns of samples excepted."""

MOST_ROWS = 65_536
"""In a batch of samples: a window that was asleep gets all it missed in a few of them."""

Whole = Annotated[int, Field(ge=0, lt=2**63)]
"""A count that fits into the store's 64-bit integers."""

Positive = Annotated[int, Field(ge=1, lt=2**63)]
"""A count that is divided by."""

LARGEST_STEP = 2**53
StepNumber = Annotated[int, Field(ge=0, le=LARGEST_STEP)]
"""A step number that float64 columns hold exactly."""

KIB_PER_MIB = MIB_PER_GIB = 1024.0
BYTES_PER_MIB, BYTES_PER_GIB = 2**20, 2**30

MOST_MIB = 1e15
Mib = Annotated[float, Field(ge=-MOST_MIB, le=MOST_MIB, allow_inf_nan=False)]
"""MiB to calculate with, far from where float64 overflows."""

MOST_SECONDS = 1e9
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
