"""The numerics of an experiment: the parts asked for, as far as they are known."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from engine.experiment.catalog import NumericsPart
from engine.experiment.experiment import Experiment
from engine.experiment.value import Line, Message, Positive
from engine.protocol.answer import Answer
from engine.protocol.numerics.advice import Advices
from engine.protocol.numerics.islands import Islands
from engine.protocol.numerics.ladder import Ladder
from engine.protocol.numerics.nonfinite import NonfiniteSearch
from engine.protocol.numerics.precision_map import PrecisionMap
from engine.protocol.numerics.ranges import Ranges

Part = NumericsPart

USUAL_PARTS: tuple[Part, ...] = ("map", "range", "nan")

PartResult = Annotated[
    PrecisionMap | Ranges | NonfiniteSearch | Ladder | Islands | Advices, Field(discriminator="part")
]


class PartMeasured(Message):
    """A part is measured; the job itself ends with `Finished`."""

    event: Literal["diagnosed"] = "diagnosed"
    result: PartResult


class NumericsResults(Message):
    """The parts that are known."""

    map: PrecisionMap | None = None
    range: Ranges | None = None
    nan: NonfiniteSearch | None = None
    ladder: Ladder | None = None
    islands: Islands | None = None
    advice: Advices | None = None

    def with_part(self, result: PartResult) -> NumericsResults:
        """The results with this part in place of an earlier one of its kind."""
        return self.model_copy(update={result.part: result})

    def as_json(self) -> dict[str, Any]:
        """What is known as plain JSON values, as `ammeter numerics --json` prints them.

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


FIRST_STEPS = 10
"""The steps through which an experiment is searched for its first NaN or Inf; a run is searched whole."""


class Numerics(Answer):
    """The `parts` asked for of an experiment, or of the run `run_id`, and what is known of them.

    The search for the first NaN or Inf goes through `steps` steps, through all of them where None.
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
        """The parts asked for."""
        return ", ".join(_PART_WORDS[part] for part in self.parts)

    def afresh(self) -> Self:
        return self.model_copy(update={"results": NumericsResults()})

    def has(self, part: str) -> bool:
        """Whether a part is known."""
        return getattr(self.results, part) is not None


_PART_WORDS: dict[Part, str] = {
    "map": "map",
    "range": "ranges",
    "nan": "first NaN",
    "ladder": "ladder",
    "islands": "FP32 modules",
}
