"""CSV files after RFC 4180: the samples in long form, and beside them the figures and the runs.

`x.csv` has one row a step of each run: its id and name, the side it belongs to, precision, recipe and seed,
then the columns of the samples; a column that a run does not have is empty, and NaN is written "NaN".
`x-summary.csv` has one row for each side and figure. `x-runs.csv` has one row a run, with every setting
(`setting.`), the machine (`environment.`) and every figure (`summary.`). Text that a spreadsheet would run as
a formula is kept from it by an apostrophe.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from engine.events import SAMPLE_COLUMNS
from engine.experiment import flattened
from engine.exports.content import Content
from engine.records.blocks import Columns
from engine.records.cells import Cell
from engine.records.figures import Figure
from engine.records.record import RunRecord
from engine.records.sides import Side
from engine.text import cell_text


def write_csv(content: Content, path: Path) -> None:
    """Writes the samples to `path`, and the two tables to files beside it."""
    _write(path, sample_rows(content))
    _write(beside(path, "summary"), summary_rows(content))
    _write(beside(path, "runs"), run_rows(content))


def beside(path: Path, what: str) -> Path:
    """The path of a table that goes with that of the samples."""
    return path.with_name(f"{path.stem}-{what}{path.suffix}")


def sample_rows(content: Content) -> Iterator[list[Any]]:
    """The heading, and one row a step of each run."""
    names = _names_of_columns(content)
    yield ["run_id", "run_name", "side", "precision", "recipe", "seed", *names]
    for side in content.comparison.sides:
        for run in side.runs:
            yield from _steps(run, side, content.curves[run.id], names)


def summary_rows(content: Content) -> Iterator[list[Any]]:
    """The heading, and one row for each side and figure."""
    yield [
        *("side", "is_baseline", "runs", "figure", "unit", "value", "low", "high", "interval_from"),
        *("ratio", "ratio_low", "ratio_high", "difference", "within_spread"),
    ]
    comparison = content.comparison
    for place, side in enumerate(comparison.sides):
        for row in comparison.figures:
            yield [
                cell_text(side.title),
                side.id == comparison.baseline.id,
                len(side.runs),
                *map(_text, _figure(row.figure, row.cells[place])),
            ]


def run_rows(content: Content) -> Iterator[list[Any]]:
    """The heading, and one row a run with all that is known of it beside its samples."""
    rows = [_run(run, side) for side in content.comparison.sides for run in side.runs]
    names = list(dict.fromkeys(name for row in rows for name in row))
    yield names
    for row in rows:
        yield [row.get(name) for name in names]


def _write(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    # a name may hold a lone surrogate, which no encoding has
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        csv.writer(file).writerows(rows)


def _text(value: Any) -> Any:
    """A value as it is written, but for numbers: those the csv module writes to the last bit itself."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, str):
        return cell_text(value)
    if isinstance(value, list | tuple):
        return cell_text(" ".join(map(str, value)))
    if isinstance(value, dict):
        return cell_text("; ".join(f"{key}: {one}" for key, one in value.items()))
    return value


def _names_of_columns(content: Content) -> list[str]:
    present = {name for run in content.runs for name in content.curves[run.id]}
    return [name for name in SAMPLE_COLUMNS if name in present]


def _steps(run: RunRecord, side: Side, columns: Columns, names: Sequence[str]) -> Iterator[list[Any]]:
    experiment = run.experiment
    about = [
        run.id,
        cell_text(run.name),
        cell_text(side.title),
        experiment.precision.value,
        experiment.step.recipe,
        experiment.seed,
    ]
    rows = len(columns.get("step", ()))
    values = [_column(columns[name]) if name in columns else [None] * rows for name in names]
    for row in zip(*values, strict=True):
        yield [*about, *row]


def _column(values: NDArray[Any]) -> list[Any]:
    plain: list[Any] = values.tolist()
    return plain if np.isfinite(values).all() else [_text(value) for value in plain]


def _figure(figure: Figure, cell: Cell) -> list[Any]:
    low, high = cell.interval or (None, None)
    ratio_low, ratio_high = cell.ratio_interval or (None, None)
    return [
        *(figure.name, figure.unit, cell.value, low, high, cell.interval_kind),
        *(cell.ratio, ratio_low, ratio_high, cell.difference, cell.within_spread),
    ]


def _run(run: RunRecord, side: Side) -> dict[str, Any]:
    told = {
        "run_id": run.id,
        "run_name": run.name,
        "side": side.title,
        "status": run.status.value,
        "started": run.started.isoformat() if run.started else None,
        "ended": run.ended.isoformat() if run.ended else None,
        "problem": run.problem.message if run.problem else None,
        **{f"setting.{key}": value for key, value in flattened(run.experiment).items()},
        **_fields("environment", run.environment),
        **_fields("summary", run.summary),
    }
    return {name: _text(value) for name, value in told.items()}


def _fields(prefix: str, part: BaseModel | None) -> dict[str, Any]:
    values = {} if part is None else part.model_dump()
    return {f"{prefix}.{key}": value for key, value in values.items()}
