"""A diagnosis: the parts that were asked for, as far as they are known."""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from engine.experiment.catalog import DiagnosisPart
from engine.experiment.experiment import Experiment
from engine.experiment.text import Line
from engine.experiment.value import Message
from engine.protocol.numerics.advice import Advices
from engine.protocol.numerics.islands import Islands
from engine.protocol.numerics.ladder import Ladder
from engine.protocol.numerics.nonfinite import NonfiniteSearch
from engine.protocol.numerics.precision_map import PrecisionMap
from engine.protocol.numerics.ranges import Ranges

Part = DiagnosisPart

USUAL_PARTS: tuple[Part, ...] = ("map", "range", "nan")

PartResult = Annotated[
    PrecisionMap | Ranges | NonfiniteSearch | Ladder | Islands | Advices, Field(discriminator="part")
]


@cache
def _adapter() -> TypeAdapter[PartResult]:
    return TypeAdapter(PartResult)


def part_from_json(text: str) -> PartResult:
    """The part that `model_dump_json` wrote. Raises ValueError for any other text."""
    return _adapter().validate_json(text)


class DiagnosisStarted(Message):
    """A diagnosis begins; `diagnosis_id` is its id in the store, `experiment` as resolved."""

    event: Literal["diagnosis-started"] = "diagnosis-started"
    diagnosis_id: Line
    experiment: Experiment


class Diagnosed(Message):
    """A part of a diagnosis is done; the job itself ends with `Finished`."""

    event: Literal["diagnosed"] = "diagnosed"
    result: PartResult


class Diagnosis(Message):
    """The parts of a diagnosis that are known."""

    map: PrecisionMap | None = None
    range: Ranges | None = None
    nan: NonfiniteSearch | None = None
    ladder: Ladder | None = None
    islands: Islands | None = None
    advice: Advices | None = None

    def with_part(self, result: PartResult) -> Diagnosis:
        """The diagnosis with this part in place of an earlier one of its kind."""
        return self.model_copy(update={result.part: result})

    def as_json(self) -> dict[str, Any]:
        """The diagnosis as plain JSON values, in the shape that `ammeter diagnose --json` prints.

        Parts that are unknown are empty or null; NaN and infinity are text.
        """
        whole = json.loads(self.model_dump_json())
        found, ranges, search, islands, advice = (
            whole[part] or {} for part in ("map", "range", "nan", "islands", "advice")
        )
        return {
            "map": found.pop("operations", []),
            "range": ranges.pop("rows", []),
            "first_nonfinite": search.pop("first", None),
            "ladder": whole["ladder"],
            "fp32_modules": islands.pop("modules", None),
            "advice": advice.pop("items", []),
            "about": {"map": found, "range": ranges, "nan": search, "islands": islands},
        }
