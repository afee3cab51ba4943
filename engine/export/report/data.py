"""Runs and comparisons as data: CSV files (RFC 4180), and JSON.

`x.csv` has a row for every step of every run: its id and name, its side, precision, recipe and seed, then the
columns of the samples. A column that a run lacks is empty; NaN is written "NaN". `x-summary.csv` has a row
for every side and figure, `x-runs.csv` one for every run, with every setting (`setting.`), the machine
(`environment.`) and every figure (`summary.`). An apostrophe precedes text that a spreadsheet would run as a
formula.

The JSON holds the comparison's figures and words, and every run with its samples. JSON has neither NaN nor
infinity: they are written as text, as in the protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from engine.compare.comparison import Comparison, SideReport
from engine.compare.figures import Cell, Figure, FigureRow
from engine.compare.sides import Side
from engine.compare.split import Split
from engine.compare.verdict import Verdict
from engine.curves import Columns
from engine.experiment.value import cell_text
from engine.export.content import Content
from engine.export.writers.data import beside, cell, json_column, json_value, write_rows
from engine.protocol.events import SAMPLE_COLUMNS
from engine.store.record import RunRecord
from engine.words.names import applying_settings


def write_json(content: Content, path: Path) -> None:
    """Writes one object, with only one run in memory at a time."""
    with path.open("w", encoding="utf-8") as file:
        head = json.dumps(_head(content), allow_nan=False)
        file.write(head.removesuffix("}"))
        file.write(', "runs": [')
        for place, run in enumerate(content.runs):
            file.write(",\n" if place else "\n")
            _write_run(content, run, file)
        file.write("\n]}\n")


def _head(content: Content) -> dict[str, Any]:
    comparison = content.comparison
    return {
        "ammeter": content.version,
        "created": content.created.isoformat(),
        "baseline": comparison.baseline.title,
        "clean": comparison.clean,
        "sides": [_side(report) for report in comparison.reports],
        "figures": [_figure(row, comparison) for row in comparison.figures],
        "differing_settings": {
            row.key: dict(zip(_titles(comparison), map(json_value, row.values), strict=True))
            for row in comparison.settings
        },
    }


def _titles(comparison: Comparison) -> list[str]:
    return [side.title for side in comparison.sides]


def _side(report: SideReport) -> dict[str, Any]:
    side = report.side
    return {
        "title": side.title,
        "is_baseline": report.is_baseline,
        "precision": side.precision.value,
        "recipe": side.runs[0].experiment.step.recipe,
        "ids": [run.id for run in side.runs],
        "verdict": _verdict(report.verdict),
        "doubts": [{"kind": doubt.kind, "sentence": doubt.sentence} for doubt in report.doubts],
        "split": None if report.split is None else _split(report.split),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    ratios = ("speedup", "speedup_ci", "memory_ratio", "energy_ratio")
    names = ("outcome", "sentence", *ratios, "accuracy", "reason")
    return {name: json_value(getattr(verdict, name)) for name in names}


def _split(split: Split) -> dict[str, Any]:
    return {
        "total": json_value(split.total),
        "factors": [json_value(asdict(factor)) for factor in split.factors],
        "other_order": [json_value(asdict(factor)) for factor in split.other_order],
        "missing": [json.loads(experiment.to_json()) for experiment in split.missing],
        "versus_default": json_value(split.versus_default),
        "sentence": split.sentence,
    }


def _figure(row: FigureRow, comparison: Comparison) -> dict[str, Any]:
    figure = row.figure
    cells = zip(_titles(comparison), row.cells, strict=True)
    sides = {title: json_value(asdict(cell)) for title, cell in cells}
    return {"name": figure.name, "title": figure.title, "unit": figure.unit, "sides": sides}


def _write_run(content: Content, run: RunRecord, file: TextIO) -> None:
    epochs = content.epochs(run.id)
    value = {
        **run.to_dict(),
        "epochs": [json.loads(epoch.model_dump_json(exclude={"event"})) for epoch in epochs],
        "samples": {name: json_column(values) for name, values in content.samples[run.id].items()},
    }
    file.write(json.dumps(value, allow_nan=False))


def write_csv(content: Content, path: Path) -> None:
    """Writes the samples to `path`, and the two tables beside it."""
    write_rows(path, sample_rows(content))
    write_rows(beside(path, "summary"), summary_rows(content))
    write_rows(beside(path, "runs"), run_rows(content))


def sample_rows(content: Content) -> Iterator[list[Any]]:
    """The heading, and one row for each step of each run."""
    names = _names_of_columns(content)
    yield ["run_id", "run_name", "side", "precision", "recipe", "seed", *names]
    for side in content.comparison.sides:
        for run in side.runs:
            yield from _steps(run, side, content.samples[run.id], names)


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
                *map(cell, _figure_fields(row.figure, row.cells[place])),
            ]


def run_rows(content: Content) -> Iterator[list[Any]]:
    """The heading, and one row for each run with all that is known of it except its samples."""
    rows = [_run(run, side) for side in content.comparison.sides for run in side.runs]
    names = list(dict.fromkeys(name for row in rows for name in row))
    yield names
    for row in rows:
        yield [row.get(name) for name in names]


def _names_of_columns(content: Content) -> list[str]:
    present = {name for run in content.runs for name in content.samples[run.id]}
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
    return plain if np.isfinite(values).all() else [cell(value) for value in plain]


def _figure_fields(figure: Figure, cell: Cell) -> list[Any]:
    low, high = cell.interval or (None, None)
    ratio_low, ratio_high = cell.ratio_interval or (None, None)
    return [
        *(figure.name, figure.unit, cell.value, low, high, cell.interval_kind),
        *(cell.ratio, ratio_low, ratio_high, cell.difference, cell.within_spread),
    ]


def _run(run: RunRecord, side: Side) -> dict[str, Any]:
    fields = {
        "run_id": run.id,
        "run_name": run.name,
        "side": side.title,
        "status": run.status.value,
        "started": run.started.isoformat() if run.started else None,
        "ended": run.ended.isoformat() if run.ended else None,
        "problem": run.problem.message if run.problem else None,
        **{f"setting.{key}": value for key, value in applying_settings(run.experiment).items()},
        **_fields("environment", run.environment),
        **_fields("summary", run.summary),
    }
    return {name: cell(value) for name, value in fields.items()}


def _fields(prefix: str, part: BaseModel | None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in () if part is None else part:
        name = f"{prefix}.{key}"
        fields |= _fields(name, value) if isinstance(value, BaseModel) else {name: value}
    return fields
