"""The precision map, with the dtype of every operation, and the first NaN or Inf of a run."""

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
"""Module names for operations outside of the model. Those in ELSEWHERE are not attributed."""

_TITLES = {LOSS: "the loss", OPTIMIZER: "the optimizer", ELSEWHERE: "elsewhere", "": "the model"}

Direction = Literal["forward", "backward"]


def module_title(name: str) -> str:
    """Return a module's name for a sentence or table: its qualified name, or a phrase if it has none."""
    return _TITLES.get(name, name)


class Operation(Message):
    """A row of the precision map: an operation of a module, and how often it ran with these dtypes.

    `module` is a qualified name, "" for the model itself, or one of LOSS, OPTIMIZER and ELSEWHERE. `name` is
    the operator's, such as "aten.convolution". `by_autocast` is True for a cast that autocast inserted.
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
        """The dtype that it computed in. None for a cast, and for operations without floating point."""
        # the result of an FP8 matmul has a wider dtype
        known = sorted((*self.outputs, *self.inputs), key=lambda dtype: "float8" not in dtype)
        floats = (dtype for dtype in known if "float" in dtype)
        return None if self.is_cast else next(floats, None)


class MappedModule(Message):
    """A module of a precision map. `name` is qualified, "" for the model. Child modules have their own."""

    name: Line
    class_name: Line
    parameters: Whole = 0
    kept_in_fp32: bool = False

    @property
    def depth(self) -> int:
        """The number of modules around it."""
        return len(self.name.split(".")) if self.name else 0


class PrecisionMap(Message):
    """The precision map: the dtype of each operation of one forward and backward pass, by module.

    Activations that are recomputed for the backward pass count as forward again. `attributed_fraction` is the
    share of FLOPs whose module is known. `notes` name operations that have another dtype on another device.
    """

    part: Literal["map"] = "map"
    modules: Annotated[tuple[MappedModule, ...], Field(max_length=MOST_ENTRIES)] = ()
    operations: Annotated[tuple[Operation, ...], Field(max_length=MOST_ENTRIES)] = ()
    attributed_fraction: Fraction = 1.0
    seconds: Seconds = 0.0
    notes: Annotated[tuple[Text, ...], Field(max_length=100)] = ()

    def finding(self, precision: Precision | None) -> str:
        """Return "", because dtypes alone are not a fault. Advice compares them with those of autocast."""
        return ""


SKIPS_IN_A_ROW = 15  # a scaler that looks for its scale skips fewer: these halve 65,536 down to 2


def most_skips(scaler: Scaler) -> int:
    """Return how many skipped steps in a row are more than a scaler needs to lower its initial scale."""
    steps_down_to_2 = math.log(max(1.0, scaler.init_scale / 2)) / -math.log(scaler.backoff_factor)
    return max(SKIPS_IN_A_ROW, math.ceil(round(steps_down_to_2, 6)))


class Cause(StrEnum):
    """The causes of a NaN or Inf that an operation and its values can show."""

    OVERFLOW = "overflow"
    SCALE = "loss scale"  # a gradient that overflows only because the loss is scaled
    LOG_OF_ZERO = "log of zero"
    DIVISION_BY_ZERO = "division by zero"
    INVALID = "invalid"  # a result without a value: the root of a negative number, 0/0, Inf - Inf
    INPUT = "input"
    WEIGHT = "weight"  # updates made weights too large, or infinite: the learning rate is too large
    INITIAL = "initial weight"  # a weight is not finite before any update: so it was initialized, or loaded
    MASK = "mask"  # numbers of a mask, which stand for -Inf, leave the format's range
    MASKED = "masked"  # a softmax over values that are all -Inf
    UNKNOWN = "unknown"


class FirstNonfinite(Message):
    """The first operation of a run that made NaN or Inf from finite inputs, with its cause and remedy.

    `least` and `most` are the lowest and highest finite values of its inputs. `result` is the largest
    magnitude of its output computed in a wider format, if finite there. `nan` and `infinite` count such
    values in the output. `batch` describes the samples. `changes` are the settings that apply the remedy.
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
    """The result of a search for the first NaN or Inf, over `steps` steps that follow step `from_step`.

    After trouble, the steps are repeated twice from a saved state. `reproduced` counts the repeats with the
    same result, and `first` is None unless both have it. `skipped` counts the steps that the loss scaler
    skipped. `trouble_step` is where the run itself went wrong: its loss was not finite, or too many steps in
    a row were skipped.
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
        """Return the sentence on the first NaN or Inf, or on trouble that did not recur, "" without any."""
        if self.first is not None:
            return self.first.sentence
        return "" if self.trouble_step is None else self.sentence
