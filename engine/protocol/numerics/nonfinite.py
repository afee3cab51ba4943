"""The first NaN or Inf of a run: the operation that made it."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Literal

from engine.experiment.settings import Scaler
from engine.experiment.value import Line, Message, Positive, StepNumber, Text, Whole
from engine.protocol.numerics.advice import Changes
from engine.protocol.numerics.formats import DTypes
from engine.protocol.numerics.precision_map import Direction

SKIPS_IN_A_ROW = 15
"""A loss scaler that looks for its scale skips fewer: so many halve 65,536, where it begins, down to 2."""


def most_skips(scaler: Scaler) -> int:
    """Skipped steps in a row that are too many for a scaler on its way down from its start."""
    steps_down_to_2 = math.log(max(1.0, scaler.init_scale / 2)) / -math.log(scaler.backoff_factor)
    return max(SKIPS_IN_A_ROW, math.ceil(round(steps_down_to_2, 6)))


class Cause(StrEnum):
    """The cause of the first number that is not finite, as far as its operation and values tell."""

    OVERFLOW = "overflow"
    """A finite result beyond the largest number of its format."""
    SCALE = "loss scale"
    """A gradient that overflows only because the loss is scaled."""
    LOG_OF_ZERO = "log of zero"
    DIVISION_BY_ZERO = "division by zero"
    INVALID = "invalid"
    """A result without a value: the root of a negative number, 0/0, Inf - Inf."""
    INPUT = "input"
    """The batch itself is not finite."""
    WEIGHT = "weight"
    """Updates made weights too large, or infinite: the learning rate is too large."""
    INITIAL = "initial weight"
    """A weight is not finite before any update: so it was initialised, or loaded."""
    MASKED = "masked"
    """A softmax over values that are all -Inf."""
    UNKNOWN = "unknown"


class FirstNonfinite(Message):
    """The first operation whose output is not finite though its inputs are.

    `module` as in a precision map. `least` and `most` are the lowest and highest finite values of its inputs;
    None where there are none. `result` is the largest magnitude of the output in a wider format; None where
    that is not finite either, or not known. `nan` and `infinite` count the output's values. `batch` describes
    the samples. `remedy` is one sentence, and `changes` the settings that would try it.
    """

    module: Line
    class_name: Line = ""
    operation: Line
    direction: Direction
    step: StepNumber
    cause: Cause
    inputs: DTypes = ()
    outputs: DTypes = ()
    least: float | None = None
    most: float | None = None
    result: float | None = None
    nan: Whole = 0
    infinite: Whole = 0
    grad_scale: float | None = None
    batch: Text = ""
    sentence: Text
    remedy: Text
    changes: Changes = ()


class NonfiniteSearch(Message):
    """A search for the first NaN or Inf through `steps` steps, from the state after step `from_step`.

    `reproduced` is how often the steps, repeated from the same state, gave it at the same operation; it is
    claimed in `first` only if that is 2. `sentence` says how the search ended. `skipped` are the steps that
    the loss scaler left out, `least_scale` and `last_scale` its scales on the way.
    """

    part: Literal["nan"] = "nan"
    first: FirstNonfinite | None = None
    from_step: StepNumber = 0
    steps: Whole = 0
    reproduced: Whole = 0
    skipped: Whole = 0
    least_scale: float | None = None
    last_scale: float | None = None
    trouble_step: Positive | None = None
    """The step at which the run itself went wrong: loss not finite, or skipped again and again."""
    sentence: Text
