"""The numerics of an experiment: precision map, first NaN or Inf, divergence test and FP32 modules."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field

from engine.experiment.catalog import NumericsPart, Precision
from engine.experiment.experiment import Experiment
from engine.experiment.optimizers import Scaler
from engine.experiment.value import (
    MOST_ENTRIES,
    Fraction,
    Line,
    Message,
    Mib,
    Positive,
    Seconds,
    StepNumber,
    Text,
    Whole,
)
from engine.protocol.advice import Advices, Changes
from engine.protocol.answer import Answer
from engine.protocol.ranges import DTypes, Ranges

Direction = Literal["forward", "backward"]


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
        """The number of modules that contain this module."""
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
        """Return "", because a dtype alone is not a problem. Advice compares the dtypes with autocast's."""
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


Names = Annotated[tuple[Line, ...], Field(max_length=MOST_ENTRIES)]


class Fp32Trial(Message):
    """A short run with some modules kept in FP32. `reason` says why it was not as good as a run in FP32."""

    modules: Names
    is_good: bool
    reason: Text = ""
    final_loss: float | None = None
    skipped: Whole = 0
    seconds: Seconds = 0.0


class Fp32Modules(Message):
    """The fewest modules to keep in FP32 for a run to be as good as FP32, and their cost.

    `modules` is empty if no module needs FP32, and None if even all of them do not suffice. With
    `is_minimal`, trials have shown that the run is worse without any one of them. The costs are relative to
    the run without FP32 modules: `speed_ratio` in steps per second, and `memory_added_mib` at the peak.
    Unknown costs are None.
    """

    part: Literal["islands"] = "islands"
    modules: Names | None = None
    is_minimal: bool = False
    trials: Annotated[tuple[Fp32Trial, ...], Field(max_length=MOST_ENTRIES)] = ()
    steps: StepNumber = 0
    most_skipped_fraction: Fraction = 0.0
    speed_ratio: float | None = None
    memory_added_mib: Mib | None = None
    changes: Changes = ()
    sentence: Text = ""

    def finding(self, precision: Precision | None) -> str:
        """Return the sentence on the modules that need FP32, "" if none does."""
        return self.sentence if self.modules != () else ""


Losses = Annotated[tuple[float, ...], Field(max_length=MOST_ENTRIES)]


class ModuleError(Message):
    """The relative error of a module's output, ||x - y|| / ||y||, where y is FP32's, in the first step.

    `explained_error` is the error that rounding alone would cause, if known.
    """

    module: Line
    relative_error: float
    explained_error: float | None = None


class PrecisionRun(Message, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True):
    """One precision's short run in the divergence test, and where it diverges from FP32.

    Its band is the range of losses of FP32 runs whose weights were changed by this precision's rounding
    error. From step `diverges_at` on, the loss stays outside of it. `first_module` is the first module whose
    output in the first step differs from FP32's by more than rounding explains. `errors` has the error of
    every module.
    """

    label: Line
    precision: Precision
    losses: Losses = ()
    band_low: Losses = ()
    band_high: Losses = ()
    diverges_at: Positive | None = Field(default=None, alias="parts_at")
    first_module: Line | None = None
    errors: Annotated[tuple[ModuleError, ...], Field(max_length=MOST_ENTRIES)] = ()
    skipped: Whole = 0
    sentence: Text = ""

    @property
    def diverges(self) -> bool:
        """True if its losses, or a module's output, differ from FP32's by more than rounding explains."""
        return self.diverges_at is not None or self.first_module is not None


class DivergenceTest(Message, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True):
    """The result of the divergence test: runs in FP32 and lower precisions with equal weights and batches.

    `repeats` are the losses of FP32 runs that differ by rounding errors only. At each step they lie between
    `band_low` and `band_high`.
    """

    part: Literal["ladder"] = "ladder"
    steps: StepNumber
    repeats: Annotated[tuple[Losses, ...], Field(max_length=100)] = ()
    band_low: Losses = ()
    band_high: Losses = ()
    runs: Annotated[tuple[PrecisionRun, ...], Field(max_length=100)] = Field(default=(), alias="rungs")
    sentence: Text = ""
    notes: Annotated[tuple[Text, ...], Field(max_length=100)] = ()

    def finding(self, precision: Precision | None) -> str:
        """Return the sentence on the divergence of `precision` from FP32, or of any precision for None.

        If FP32 itself becomes NaN or Inf, the sentence says so. "" without a finding.
        """
        if precision is None:
            return self.sentence if self.has_broken_float32 or any(run.diverges for run in self.runs) else ""
        run = self.run_in(precision)
        if run is not None and run.diverges:
            return run.sentence
        return self.sentence if self.has_broken_float32 else ""

    def run_in(self, precision: Precision) -> PrecisionRun | None:
        """Return the run in a precision.

        If two runs have it, return the run with stochastic rounding. None if it did not run.
        """
        return next((run for run in reversed(self.runs) if run.precision == precision), None)

    @property
    def has_broken_float32(self) -> bool:
        """True if FP32's own loss becomes NaN or Inf."""
        return not all(map(math.isfinite, self.band_low))


Part = NumericsPart

USUAL_PARTS: tuple[Part, ...] = ("map", "range", "nan")

PartResult = Annotated[
    PrecisionMap | Ranges | NonfiniteSearch | DivergenceTest | Fp32Modules | Advices,
    Field(discriminator="part"),
]


class PartMeasured(Message):
    """The event with the result of one part of a numerics study. The job itself ends with `Finished`."""

    event: Literal["diagnosed"] = "diagnosed"
    result: PartResult


class NumericsResults(Message):
    """The results of a numerics study by part. A part without a result yet is None."""

    map: PrecisionMap | None = None
    range: Ranges | None = None
    nan: NonfiniteSearch | None = None
    ladder: DivergenceTest | None = None
    islands: Fp32Modules | None = None
    advice: Advices | None = None

    def with_part(self, result: PartResult) -> NumericsResults:
        """Return the results with this part in place of an earlier one of its kind."""
        return self.model_copy(update={result.part: result})

    def findings(self, precision: Precision | None = None) -> dict[Part, str]:
        """Return a sentence on the problem found by each part, by part.

        Parts without a problem are absent. With a `precision`, only its problems are included.
        """
        known = {part: getattr(self, part) for part in get_args(Part)}
        found = {part: result.finding(precision) for part, result in known.items() if result is not None}
        return {part: sentence for part, sentence in found.items() if sentence}

    def as_json(self) -> dict[str, Any]:
        """Return the results as plain JSON values. Missing parts are empty or null, NaN and Inf are text."""
        whole = json.loads(self.model_dump_json())
        found, ranges, search, modules, advice = (
            whole[part] or {} for part in ("map", "range", "nan", "islands", "advice")
        )
        return {
            "map": found.pop("operations", []),
            "range": ranges.pop("rows", []),
            "fp8_scaling": ranges.pop("casts", []),
            "first_nonfinite": search.pop("first", None),
            "ladder": whole["ladder"],
            "fp32_modules": modules.pop("modules", None),
            "advice": advice.pop("items", []),
            "about": {"map": found, "range": ranges, "nan": search, "islands": modules},
        }


FIRST_STEPS = 10  # of an experiment that are searched for its first NaN or Inf; of a run, all are


class Numerics(Answer):
    """A numerics study of an experiment, or of the saved run `run_id`: requested `parts`, and results so far.

    The search for the first NaN or Inf covers `steps` steps. For None it covers all of them.
    """

    kind = "numerics"
    experiment: Experiment
    parts: tuple[Part, ...] = USUAL_PARTS
    run_id: Line | None = None
    steps: Positive | None = None
    results: NumericsResults = NumericsResults()

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return (self.experiment,)

    @property
    def run_ids(self) -> tuple[str | None, ...]:
        return (self.run_id,)

    @property
    def is_known(self) -> bool:
        return any(self.has(part) for part in NumericsResults.model_fields)

    @property
    def digest(self) -> str:
        """The requested parts."""
        return ", ".join(PART_NAMES[part] for part in self.parts)

    def afresh(self) -> Self:
        return self.model_copy(update={"results": NumericsResults()})

    def has(self, part: str) -> bool:
        """Return True if a part is known."""
        return getattr(self.results, part) is not None


PART_NAMES = {
    "nan": "first NaN or Inf",
    "map": "precision map",
    "range": "ranges",
    "scaling": "FP8 scaling",
    "ladder": "divergence",
    "islands": "FP32 modules",
    "advice": "advice",
}
"""The names of all parts in a sentence, in the order of their tabs."""
