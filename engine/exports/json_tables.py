"""Everything as JSON: the comparison's figures and words, and every run with its samples."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from engine.exports.content import Content
from engine.exports.plain_values import plain, plain_column
from engine.records.cells import FigureRow
from engine.records.comparison import Comparison, SideReport
from engine.records.record import RunRecord
from engine.records.split import Split
from engine.records.verdict import Verdict


def write_json(content: Content, path: Path) -> None:
    """Writes one object; the runs follow one another, so that only one is in memory at a time."""
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
            row.key: dict(zip(_titles(comparison), map(plain, row.values), strict=True))
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
    names = ("outcome", "sentence", "speedup", "speedup_ci", "memory_ratio", "accuracy", "reason")
    return {name: plain(getattr(verdict, name)) for name in names}


def _split(split: Split) -> dict[str, Any]:
    return {
        "total": plain(split.total),
        "factors": [plain(asdict(factor)) for factor in split.factors],
        "other_order": [plain(asdict(factor)) for factor in split.other_order],
        "missing": [json.loads(one.to_json()) for one in split.missing],
        "versus_default": plain(split.versus_default),
        "sentence": split.sentence,
    }


def _figure(row: FigureRow, comparison: Comparison) -> dict[str, Any]:
    figure = row.figure
    cells = {title: plain(asdict(cell)) for title, cell in zip(_titles(comparison), row.cells, strict=True)}
    return {"name": figure.name, "title": figure.title, "unit": figure.unit, "sides": cells}


def _write_run(content: Content, run: RunRecord, file: TextIO) -> None:
    whole = {
        **run.to_dict(),
        "epochs": [json.loads(one.model_dump_json(exclude={"event"})) for one in content.epochs(run.id)],
        "samples": {name: plain_column(values) for name, values in content.curves[run.id].items()},
    }
    file.write(json.dumps(whole, allow_nan=False))
