"""Runs and comparisons as data: JSON, and CSV files (RFC 4180).

`x.csv` has a row for every step of every run, `x-summary.csv` one for every side and metric, `x-runs.csv` one
for every run, with every setting, the machine and every metric.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from engine.compare.comparison import SideReport
from engine.compare.ranking import RankedSide, ranking
from engine.export.content import Content
from engine.export.document import Row
from engine.export.writers.data import cell, companion_path, json_column, json_value, write_rows, write_table
from engine.protocol.events import SAMPLE_COLUMNS
from engine.words.names import applying_settings


def write_json(content: Content, path: Path) -> None:
    """Write one JSON object, with only one run in memory at a time."""
    with path.open("w", encoding="utf-8") as file:
        head = json.dumps(_head(content), allow_nan=False)
        file.write(head.removesuffix("}"))
        file.write(', "runs": [')
        for place, run in enumerate(content.runs):
            epochs = content.epochs(run.id)
            value = {
                **run.to_dict(),
                "epochs": [json.loads(epoch.model_dump_json(exclude={"event"})) for epoch in epochs],
                "samples": {name: json_column(values) for name, values in content.samples[run.id].items()},
            }
            file.write((",\n" if place else "\n") + json.dumps(value, allow_nan=False))
        file.write("\n]}\n")


def _head(content: Content) -> dict[str, Any]:
    comparison = content.comparison
    titles = [side.title for side in comparison.sides]
    ranked = {row.side.id: row for row in ranking(comparison)}
    metrics = []
    for row in comparison.metrics:
        cells = zip(titles, row.cells, strict=True)
        sides = {title: json_value(asdict(cell)) for title, cell in cells}
        metric = row.metric
        metrics.append({"name": metric.name, "title": metric.title, "unit": metric.unit, "sides": sides})
    return {
        "ammeter": content.version,
        "created": content.created.isoformat(),
        "baseline": comparison.baseline.title,
        "clean": comparison.has_no_doubts,
        "sides": [_side_values(report, ranked[report.side.id]) for report in comparison.reports],
        "figures": metrics,
        "differing_settings": {
            row.key: dict(zip(titles, map(json_value, row.values), strict=True))
            for row in comparison.settings
        },
    }


_VERDICT = ("sentence", "speedup", "speedup_ci", "memory_ratio", "energy_ratio", "accuracy", "reason")


def _side_values(report: SideReport, ranked: RankedSide) -> dict[str, Any]:
    side, split = report.side, report.split
    return {
        "title": side.title,
        "is_baseline": report.is_baseline,
        "rank": ranked.place,
        "tags": list(ranked.tags),
        "precision": side.precision.value,
        "recipe": side.runs[0].overview.recipe or None,
        "ids": [run.id for run in side.runs],
        "verdict": {
            "outcome": report.verdict.kind,
            **{name: json_value(getattr(report.verdict, name)) for name in _VERDICT},
        },
        "doubts": [{"kind": doubt.kind, "sentence": doubt.sentence} for doubt in report.doubts],
        "split": split
        and {
            "total": json_value(split.total),
            "factors": [json_value(asdict(factor)) for factor in split.factors],
            "other_order": [json_value(asdict(factor)) for factor in split.other_order],
            "missing": [json.loads(experiment.to_json()) for experiment in split.missing],
            "versus_default": json_value(split.versus_default),
            "sentence": split.sentence,
        },
    }


def write_csv(content: Content, path: Path) -> None:
    """Write the samples to `path`, and the two tables next to it."""
    write_rows(path, sample_rows(content))
    write_table(companion_path(path, "summary"), _summary(content))
    write_table(companion_path(path, "runs"), _run_values(content))


def sample_rows(content: Content) -> Iterator[list[Any]]:
    """Yield the heading, and one row for each step of each run."""
    present = {name for run in content.runs for name in content.samples[run.id]}
    names = [name for name in SAMPLE_COLUMNS if name in present]
    yield ["run_id", "run_name", "side", "precision", "recipe", "seed", *names]
    for side in content.comparison.sides:
        for run in side.runs:
            columns, experiment = content.samples[run.id], run.experiment
            about = [run.id, cell(run.name), cell(side.title), experiment.precision.value]
            about += [run.overview.recipe, experiment.seed]
            empty = [None] * len(columns.get("step", ()))
            values = [_column_values(columns[name]) if name in columns else empty for name in names]
            for row in zip(*values, strict=True):
                yield [*about, *row]


def _column_values(values: NDArray[Any]) -> list[Any]:
    plain: list[Any] = values.tolist()
    return plain if np.isfinite(values).all() else [cell(value) for value in plain]


def _summary(content: Content) -> Iterator[Row]:
    for place, side in enumerate(content.comparison.sides):
        for row in content.comparison.metrics:
            known = row.cells[place]
            low, high = known.interval or (None, None)
            ratio_low, ratio_high = known.ratio_interval or (None, None)
            yield {
                "side": side.title,
                "is_baseline": side is content.comparison.baseline,
                "runs": len(known.values),
                "figure": row.metric.name,
                "unit": row.metric.unit,
                "value": known.value,
                "low": low,
                "high": high,
                "interval_from": known.interval_kind,
                "ratio": known.ratio,
                "ratio_low": ratio_low,
                "ratio_high": ratio_high,
                "difference": known.difference,
                "within_spread": known.within_spread,
            }


def _run_values(content: Content) -> Iterator[Row]:
    for side in content.comparison.sides:
        for run in side.runs:
            yield {
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


def _fields(prefix: str, part: BaseModel | None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in () if part is None else part:
        name = f"{prefix}.{key}"
        if isinstance(value, BaseModel):
            fields |= _fields(name, value)
        elif key == "ranks":
            for place, rank in enumerate(value):
                fields |= _fields(f"{name}.{place}", rank)
        else:
            fields[name] = value
    return fields
