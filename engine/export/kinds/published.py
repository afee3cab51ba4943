"""Published figures as a section, for a terminal, a page and the window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.compare.published import WARNING, PublishedRow
from engine.export.document import Cells, Section
from engine.words.numbers import NONE, number, ratio

_MODEL = "Model"
_HEADINGS = (
    _MODEL,
    "Hardware",
    "Precision",
    "Batch",
    "img/s",
    "Yours",
    "Accuracy",
    "Recipe",
    "Year",
    "Published by",
)
_RIGHT = ("Batch", "img/s", "Yours", "Accuracy", "Year")

_YOURS = "“Yours” is the throughput of your side of the nearest precision, as a multiple of the published."


def published_section(rows: Sequence[PublishedRow]) -> Section:
    """The rows, with the warning that they are of other set-ups, and their addresses."""
    has_models = len({row.figure.model for row in rows}) > 1
    first = 0 if has_models else 1
    addresses = dict.fromkeys(f"{row.source.title}: {row.source.address}" for row in rows)
    return Section(
        "Published figures",
        (WARNING, _YOURS),
        _HEADINGS[first:],
        tuple(_cells(row)[first:] for row in rows),
        _RIGHT,
        notes=tuple(addresses),
        part="appendix",
    )


def _cells(row: PublishedRow) -> Cells:
    source, figure = row.source, row.figure
    accuracy, speed = figure.accuracy_percent, figure.samples_per_second
    return (
        figure.model,
        figure.hardware,
        figure.precision.label,
        f"{figure.batch_size:,}",
        NONE if speed is None else number(speed),
        ratio(row.ratio, 1.0) or NONE,
        NONE if accuracy is None else f"{accuracy:.1f} %",
        f"{figure.recipe}, {source.dataset}",
        str(source.year),
        source.title,
    )


def as_json(row: PublishedRow) -> dict[str, Any]:
    """A row as plain JSON values; `ratio` is the speed of the runs `ids` over the published."""
    source = row.source.model_dump(mode="json", exclude={"figures"})
    ids = [] if row.side is None else [run.id for run in row.side.runs]
    return {"source": source, **row.figure.model_dump(mode="json"), "ids": ids, "ratio": row.ratio}
