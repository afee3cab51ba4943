"""Published results of the compared models, as a section for terminal, page and window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import Field

from engine.compare.comparison import Comparison
from engine.compare.figures import SPEED
from engine.compare.sides import Side
from engine.experiment.catalog import Precision
from engine.experiment.experiment import Experiment
from engine.experiment.own.library_models import TIMM
from engine.experiment.presets import parse_toml
from engine.experiment.value import Line, Message, Positive
from engine.export.document import Section
from engine.words.numbers import NONE, number, ratio

WARNING = (
    "Published results come from other hardware, software, recipes and data. A ratio to them compares entire"
    " setups and does not show what a setting gains."
)
_IMAGE_SIZE = 224
_SIZED = ("synthetic", "fakedata", "image-folder")


class PublishedFigure(Message):
    """A published result of a training: its throughput, or the accuracy that it reached.

    `model` is torchvision's name, `timm` the name in timm if it differs. `batch_size` is per device.
    """

    model: Line
    timm: Line = ""
    hardware: Line
    precision: Precision
    batch_size: Positive
    recipe: Line
    samples_per_second: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    accuracy_percent: Annotated[float | None, Field(gt=0, le=100)] = None

    def matches(self, experiment: Experiment) -> bool:
        """Return True if the experiment trains the same unmodified model, from torchvision or timm."""
        if experiment.overrides or experiment.model.library not in (None, TIMM):
            return False
        # timm's names end in the weights: resnet50.a1_in1k
        of_timm = f"{TIMM.prefix}:{self.timm or self.model}"
        return experiment.model == self.model or experiment.model.partition(".")[0] == of_timm


class PublishedSource(Message):
    """A publication with results. `stack` is the software, `dataset` the training data."""

    title: Line
    address: Line
    year: Annotated[int, Field(ge=1990, le=2100)]
    stack: Line
    dataset: Line
    figures: tuple[PublishedFigure, ...]


class _Table(Message):
    sources: tuple[PublishedSource, ...]


@dataclass(frozen=True)
class PublishedRow:
    """A published result with the user's own side of the nearest precision, if there is one.

    `ratio` is the side's throughput relative to the published one, or None if image sizes differ.
    """

    source: PublishedSource
    figure: PublishedFigure
    side: Side | None
    ratio: float | None


@cache
def sources() -> tuple[PublishedSource, ...]:
    """Return all published results by publication."""
    name = "published.toml"
    text = (files("resources") / name).read_text(encoding="utf-8")
    return _Table.model_validate(parse_toml(text, name)).sources


def published_beside(comparison: Comparison) -> tuple[PublishedRow, ...]:
    """Return the published results of the compared models."""
    rows = []
    for source in sources():
        for figure in source.figures:
            sides = [side for side in comparison.sides if figure.matches(side.runs[0].experiment)]
            if sides:
                side = _nearest(sides, figure)
                rows.append(PublishedRow(source, figure, side, _ratio(comparison, side, figure)))
    return tuple(rows)


_NEAR = {
    Precision.FP32: (Precision.FP32,),
    Precision.TF32: (Precision.TF32, Precision.DEFAULT),
    Precision.FP16: (Precision.FP16, Precision.BF16),
    Precision.BF16: (Precision.BF16, Precision.FP16, Precision.BF16_PURE),
}


def _nearest(sides: Sequence[Side], figure: PublishedFigure) -> Side | None:
    near = _NEAR.get(figure.precision, ())

    def distance(side: Side) -> tuple[int, int]:
        return near.index(side.precision), abs(side.runs[0].experiment.batch_size - figure.batch_size)

    return min((side for side in sides if side.precision in near), key=distance, default=None)


def _ratio(comparison: Comparison, side: Side | None, figure: PublishedFigure) -> float | None:
    if side is None or figure.samples_per_second is None:
        return None
    experiment = side.runs[0].experiment
    size = experiment.image_size or (_IMAGE_SIZE if experiment.dataset in _SIZED else None)
    own = comparison.cells(side.id)[SPEED.name].value
    return None if own is None or size != _IMAGE_SIZE else own / figure.samples_per_second


_HEADINGS = (
    *("Model", "Hardware", "Precision", "Batch", "img/s"),
    *("Yours", "Accuracy", "Recipe", "Year", "Published by"),
)
_RIGHT = ("Batch", "img/s", "Yours", "Accuracy", "Year")
_YOURS = "“Yours” is the throughput of your run in the nearest precision, relative to the published one."


def published_section(rows: Sequence[PublishedRow]) -> Section:
    """Return the rows as a section, with a warning about other setups and with the sources."""
    cells = []
    for row in rows:
        source, figure = row.source, row.figure
        accuracy, speed = figure.accuracy_percent, figure.samples_per_second
        cells.append(
            (
                figure.model,
                figure.hardware,
                figure.precision.label,
                f"{figure.batch_size:,}",
                NONE if speed is None else number(speed),
                ratio(row.ratio, 1.0) or NONE,
                NONE if accuracy is None else f"{accuracy:.1f}%",
                f"{figure.recipe}, {source.dataset}",
                str(source.year),
                source.title,
            )
        )
    # the model is the same in every row, unless there are several
    first = 0 if len({row.figure.model for row in rows}) > 1 else 1
    return Section(
        "Published results",
        (WARNING, _YOURS),
        _HEADINGS[first:],
        tuple(texts[first:] for texts in cells),
        _RIGHT,
        notes=tuple(dict.fromkeys(f"{row.source.title}: {row.source.address}" for row in rows)),
        part="appendix",
    )


def as_json(row: PublishedRow) -> dict[str, Any]:
    """Return a row as plain JSON values. `ratio` is the speed of the runs `ids` relative to the published."""
    source = row.source.model_dump(mode="json", exclude={"figures"})
    ids = [] if row.side is None else [run.id for run in row.side.runs]
    return {"source": source, **row.figure.model_dump(mode="json"), "ids": ids, "ratio": row.ratio}
