"""The precision map: which operation computed in which format; and the first NaN or Inf of a run."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from engine.experiment.catalog import Precision
from engine.experiment.settings import Scaler
from engine.experiment.value import (
    MOST_ENTRIES,
    Fraction,
    Line,
    Message,
    Positive,
    Seconds,
    StepNumber,
    Text,
    Whole,
)
from engine.protocol.advice import Changes
from engine.protocol.numerics.formats import DTypes

LOSS, OPTIMIZER, ELSEWHERE = "(loss)", "(optimizer)", "(elsewhere)"
"""Stand in a module's place for what is computed outside of the model; ELSEWHERE is not attributed."""

_TITLES = {LOSS: "the loss", OPTIMIZER: "the optimizer", ELSEWHERE: "elsewhere", "": "the model"}

Direction = Literal["forward", "backward"]


def module_title(name: str) -> str:
    """A module's name in a sentence or table: its qualified name; the model itself has none."""
    return _TITLES.get(name, name)


class Operation(Message):
    """An operation of a module, as often as it ran with these number formats.

    `module` is a qualified name, "" for the model itself, or LOSS, OPTIMIZER or ELSEWHERE; `name` is the
    operator's, "aten.convolution". `by_autocast`: nobody but autocast asked for the cast.
    """

    module: Line
    name: Line
    direction: Direction
    inputs: DTypes = ()
    outputs: DTypes = ()
    count: Positive = 1
    seconds: Seconds = 0.0
    moved_bytes: Whole = 0
    is_cast: bool = False
    by_autocast: bool = False

    @property
    def computed_in(self) -> str | None:
        """The number format that it computed in; None where it computed nothing, as a cast."""
        # a product of FP8 gives a longer format
        known = sorted((*self.outputs, *self.inputs), key=lambda dtype: "float8" not in dtype)
        floats = (dtype for dtype in known if "float" in dtype)
        return None if self.is_cast else next(floats, None)


class MappedModule(Message):
    """A module by its qualified name, "" for the model itself; children have operations of their own."""

    name: Line
    class_name: Line
    parameters: Whole = 0
    kept_in_fp32: bool = False

    @property
    def depth(self) -> int:
        """The number of modules around it."""
        return len(self.name.split(".")) if self.name else 0


class PrecisionMap(Message):
    """One forward and backward pass of a batch, operation by operation; modules in the model's order.

    What activation checkpointing recomputes counts as forward, once more. `attributed_fraction` is the share
    of the floating-point operations whose module is known. `notes` say what differs on another device.
    """

    part: Literal["map"] = "map"
    modules: Annotated[tuple[MappedModule, ...], Field(max_length=MOST_ENTRIES)] = ()
    operations: Annotated[tuple[Operation, ...], Field(max_length=MOST_ENTRIES)] = ()
    attributed_fraction: Fraction = 1.0
    seconds: Seconds = 0.0
    notes: Annotated[tuple[Text, ...], Field(max_length=100)] = ()

    def finding(self, precision: Precision | None) -> str:
        """Return "", because dtypes alone are no fault: advice compares them with those of autocast."""
        return ""


SKIPS_IN_A_ROW = 15  # a scaler that looks for its scale skips fewer: these halve 65,536 down to 2


def most_skips(scaler: Scaler) -> int:
    """Skipped steps in a row that are too many for a scaler on its way down from its start."""
    steps_down_to_2 = math.log(max(1.0, scaler.init_scale / 2)) / -math.log(scaler.backoff_factor)
    return max(SKIPS_IN_A_ROW, math.ceil(round(steps_down_to_2, 6)))


class Cause(StrEnum):
    """The cause of the first number that is not finite, as far as its operation and values tell."""

    OVERFLOW = "overflow"
    SCALE = "loss scale"  # a gradient that overflows only because the loss is scaled
    LOG_OF_ZERO = "log of zero"
    DIVISION_BY_ZERO = "division by zero"
    INVALID = "invalid"  # a result without a value: the root of a negative number, 0/0, Inf - Inf
    INPUT = "input"
    WEIGHT = "weight"  # updates made weights too large, or infinite: the learning rate is too large
    INITIAL = "initial weight"  # a weight is not finite before any update: so it was initialised, or loaded
    MASK = "mask"  # numbers of a mask, which stand for -Inf, leave the format's range
    MASKED = "masked"  # a softmax over values that are all -Inf
    UNKNOWN = "unknown"


class FirstNonfinite(Message):
    """The first operation whose output is not finite though its inputs are.

    `least` and `most` are the lowest and highest finite values of its inputs, `result` is the output's
    largest magnitude in a wider format, if that is finite. `nan` and `infinite` count the output's values.
    `batch` describes the samples; `changes` are the settings that try the remedy.
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
    claimed in `first` only if that is 2. `skipped` are the steps that the loss scaler left out. The run
    itself went wrong at `trouble_step`: its loss was not finite, or steps were skipped again and again.
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
    sentence: Text

    def finding(self, precision: Precision | None) -> str:
        """Return the sentence on the first NaN or Inf, or on trouble that did not recur. "" without any."""
        if self.first is not None:
            return self.first.sentence
        return "" if self.trouble_step is None else self.sentence
