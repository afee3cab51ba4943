"""The sides of a comparison in a terminal, and as plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.cli import output
from engine.compare.comparison import Comparison, SideReport
from engine.compare.figures import Cell, Figure, FigureRow
from engine.compare.sides import Side
from engine.words.numbers import NONE, times

_BY_RATIO_INTERVAL = ("samples_per_second", "seconds_to_accuracy")


def show(comparison: Comparison) -> None:
    """The verdicts and their doubts, then the figures of each side with their ratios."""
    reports = _ordered(comparison)
    for report in reports:
        output.line(report.verdict.sentence)
    for report in reports:
        if report.split is not None:
            output.line(f"{report.side.title}, where its gain comes from: {report.split.sentence}.")
    cited = {doubt.sentence for report in reports for doubt in report.verdict.cited}
    for sentence in dict.fromkeys(doubt.sentence for report in reports for doubt in report.uncited):
        if sentence not in cited:
            output.line(f"With caution: {sentence}")
    output.line()
    headings = ["", *(report.side.title for report in reports)]
    rows = [[_title(row.figure), *_texts(row, reports, comparison)] for row in comparison.figures]
    output.table(headings, [row for row in rows if any(cell != NONE for cell in row[1:])], headings[1:])
    for report in reports:
        output.line(f"{report.side.title} saved as {', '.join(run.id for run in report.side.runs)}.")


def variants(comparison: Comparison) -> list[dict[str, Any]]:
    """Every side as plain JSON values, the baseline first."""
    return [_variant(report, comparison.cells(report.side.id)) for report in _ordered(comparison)]


def _ordered(comparison: Comparison) -> list[SideReport]:
    return sorted(comparison.reports, key=lambda report: not report.is_baseline)


def _variant(report: SideReport, cells: dict[str, Cell]) -> dict[str, Any]:
    verdict, difference = report.verdict, cells["accuracy"].difference
    return {
        "label": _label(report.side),
        "ids": [run.id for run in report.side.runs],
        "speedup": verdict.speedup,
        "speedup_ci": None if verdict.speedup_ci is None else list(verdict.speedup_ci),
        "memory_ratio": verdict.memory_ratio,
        "accuracy_delta": None if difference is None else difference / 100,
        "clean": not report.doubts,
        "spoiled": bool(report.spoilers),
        "verdict": report.text,
    }


def _label(side: Side) -> str:
    # a preset may have named the sides
    labels = {run.label for run in side.runs}
    return (labels.pop() if len(labels) == 1 else None) or side.title


def _title(figure: Figure) -> str:
    return f"{figure.title}, {figure.unit}" if figure.unit else figure.title


def _texts(row: FigureRow, reports: Sequence[SideReport], comparison: Comparison) -> list[str]:
    cells = dict(zip((side.id for side in comparison.sides), row.cells, strict=True))
    return [_text(row.figure, cells[report.side.id], report) for report in reports]


def _text(figure: Figure, cell: Cell, report: SideReport) -> str:
    value, caution = figure.text(cell.value), report.caution(figure)
    if report.is_baseline or cell.ratio is None:
        return value
    if caution:
        return f"{value} ({times(cell.ratio)}×, {caution})"
    if cell.ratio_interval is None or figure.name not in _BY_RATIO_INTERVAL:
        return f"{value} ({times(cell.ratio)}×)"
    low, high = cell.ratio_interval
    return f"{value} ({times(cell.ratio)}×, {times(low)} to {times(high)})"
