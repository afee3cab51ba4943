"""The numerics of an experiment: the requested parts and their results so far."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field

from engine.experiment.catalog import NumericsPart, Precision
from engine.experiment.experiment import Experiment
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
from engine.protocol.numerics.nonfinite import NonfiniteSearch, PrecisionMap
from engine.protocol.numerics.ranges import Ranges

Names = Annotated[tuple[Line, ...], Field(max_length=MOST_ENTRIES)]


class IslandTrial(Message):
    """A short run with these modules in FP32. `reason` says why it was not as good as FP32."""

    modules: Names
    is_good: bool
    reason: Text = ""
    final_loss: float | None = None
    skipped: Whole = 0
    seconds: Seconds = 0.0


class Islands(Message):
    """The fewest modules that need FP32: None if all of them are not enough, empty if none needs it.

    `is_minimal`: for each module a trial has shown that the run is worse without it. The costs compare a run
    with these modules in FP32 to the same run without: steps per second, and peak MiB (None if unknown).
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
    sentence: Text = ""

    def finding(self, precision: Precision | None) -> str:
        """Return the sentence on the modules that need FP32, "" if none does."""
        return self.sentence if self.modules != () else ""


Losses = Annotated[tuple[float, ...], Field(max_length=MOST_ENTRIES)]


class ModuleError(Message):
    """||x - y|| / ||y|| relative to FP32 in one step from equal weights, and the part due to rounding."""

    module: Line
    relative_error: float
    explained_error: float | None = None


class Rung(Message):
    """A run of the divergence test, compared with repeats of FP32 with weights rounded as its own.

    `parts_at` is the first step whose loss leaves the band of the repeats and stays outside. `first_module`
    is the first, in the order of the forward pass, whose output in the first step differs from FP32's by more
    than rounding explains. `errors` has all modules.
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

    @property
    def diverges(self) -> bool:
        """True if its losses, or a module's output, differ from FP32's by more than rounding explains."""
        return self.parts_at is not None or self.first_module is not None


class Ladder(Message):
    """FP32, FP16 without and with loss scaler, BF16, pure BF16 and FP8, from equal weights and batches.

    The `repeats` of FP32 differ only by the order of sums, each step within `band_low` and `band_high`.
    """

    part: Literal["ladder"] = "ladder"
    steps: StepNumber
    repeats: Annotated[tuple[Losses, ...], Field(max_length=100)] = ()
    band_low: Losses = ()
    band_high: Losses = ()
    rungs: Annotated[tuple[Rung, ...], Field(max_length=100)] = ()
    sentence: Text = ""
    notes: Annotated[tuple[Text, ...], Field(max_length=100)] = ()

    def finding(self, precision: Precision | None) -> str:
        """Return the sentence on the precision's divergence from FP32. For None, on that of any precision.

        If FP32 itself becomes NaN or Inf, the sentence is on that. It is "" without any divergence.
        """
        if precision is None:
            return (
                self.sentence if self.has_broken_float32 or any(rung.diverges for rung in self.rungs) else ""
            )
        rung = self.own_rung(precision)
        if rung is not None and rung.diverges:
            return rung.sentence
        return self.sentence if self.has_broken_float32 else ""

    def own_rung(self, precision: Precision) -> Rung | None:
        """Return the run in a precision, the one with stochastic rounding if there are two."""
        return next((rung for rung in reversed(self.rungs) if rung.precision == precision), None)

    @property
    def has_broken_float32(self) -> bool:
        """True if FP32's own loss becomes NaN or Inf."""
        return not all(map(math.isfinite, self.band_low))


Part = NumericsPart

USUAL_PARTS: tuple[Part, ...] = ("map", "range", "nan")

PartResult = Annotated[
    PrecisionMap | Ranges | NonfiniteSearch | Ladder | Islands | Advices, Field(discriminator="part")
]


class PartMeasured(Message):
    """The result of a part. The job itself ends with `Finished`."""

    event: Literal["diagnosed"] = "diagnosed"
    result: PartResult


class NumericsResults(Message):
    """The known parts."""

    map: PrecisionMap | None = None
    range: Ranges | None = None
    nan: NonfiniteSearch | None = None
    ladder: Ladder | None = None
    islands: Islands | None = None
    advice: Advices | None = None

    def with_part(self, result: PartResult) -> NumericsResults:
        """Return the results with this part, which replaces an earlier one of its kind."""
        return self.model_copy(update={result.part: result})

    def findings(self, precision: Precision | None = None) -> dict[Part, str]:
        """Return the problem that each known part found, in a precision or, for None, in any."""
        known = {part: getattr(self, part) for part in get_args(Part)}
        found = {part: result.finding(precision) for part, result in known.items() if result is not None}
        return {part: sentence for part, sentence in found.items() if sentence}

    def as_json(self) -> dict[str, Any]:
        """Return the known parts as plain JSON values, others empty or null. NaN and infinity are text."""
        whole = json.loads(self.model_dump_json())
        found, ranges, search, islands, advice = (
            whole[part] or {} for part in ("map", "range", "nan", "islands", "advice")
        )
        return {
            "map": found.pop("operations", []),
            "range": ranges.pop("rows", []),
            "fp8_scaling": ranges.pop("casts", []),
            "first_nonfinite": search.pop("first", None),
            "ladder": whole["ladder"],
            "fp32_modules": islands.pop("modules", None),
            "advice": advice.pop("items", []),
            "about": {"map": found, "range": ranges, "nan": search, "islands": islands},
        }


FIRST_STEPS = 10  # an experiment is searched for its first NaN or Inf in these, a run in all its steps


class Numerics(Answer):
    """The requested `parts` of an experiment, or of the run `run_id`, and their results.

    The search for the first NaN or Inf goes through `steps` steps, or all of them if None.
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
        return ", ".join(_PART_WORDS[part] for part in self.parts)

    def afresh(self) -> Self:
        return self.model_copy(update={"results": NumericsResults()})

    def has(self, part: str) -> bool:
        """Return True if a part is known."""
        return getattr(self.results, part) is not None


_PART_WORDS: dict[Part, str] = {
    "map": "map",
    "range": "ranges",
    "nan": "first NaN",
    "ladder": "divergence",
    "islands": "FP32 modules",
}
