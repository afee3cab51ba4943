"""A sweep as a document: its sentences, charts and cells. The CSV file has a row for every cell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

from engine.compare.metrics import ACCURACY, PEAK_MEMORY, SPEED, Metric
from engine.experiment.experiment import Experiment, Precision
from engine.experiment.sweep import Axis, Grid
from engine.export.document import CellText, Conclusion, Document, Picture, Row, Section, document_of
from engine.export.writers.data import json_value
from engine.store.saved.sweeps import SweepRecord
from engine.sweep.chart import (
    CellChart,
    best_of,
    default_axes,
    default_lines,
    default_places,
    numbers_of,
    shown_figures,
    state_word,
)
from engine.sweep.heat_map import heat_map
from engine.sweep.lines import lines
from engine.sweep.results import (
    DEVICES,
    EXCHANGE,
    RATIO_FIGURE,
    STRONG,
    WEAK,
    CellResult,
    CellStatus,
    Results,
    results_of,
)
from engine.sweep.scatter import scatter
from engine.sweep.words import memory_sentences, not_reached, notes_of, pieces_of, sentences_of
from engine.words.numbers import NONE, counted

MAP, LINES, TRADE_OFF, TABLE, CELLS = "Map", "Lines", "Trade-off", "Table", "Combinations"
CHARTS = {MAP: "map", LINES: "lines", TRADE_OFF: "scatter"}
"""The tabs of the charts in the window, with their interactive widgets."""


def document(record: SweepRecord, results: Results | None = None) -> Document:
    """Return the document of a sweep.

    `results` may have more intervals than can be computed from `record` alone.
    """
    known, grid = results or results_of(record), record.grid
    axes = {axis.key: list(axis.values) for axis in grid.axes}
    return document_of(
        record,
        "sweep",
        record.name,
        _experiments(grid),
        [*_picture_sections(known), _cells_section(known)],
        answers=(Conclusion(None, pieces_of(known), (*notes_of(known), *not_reached(record.plan, known))),),
        size=counted(grid.size, "combination"),
        warnings=() if record.problem is None else (record.problem.message,),
        tables={"": lambda: (_cell_row(known, cell) for cell in known.cells)},
        values=lambda: _sweep_values(record, known),
        facts={"base": grid.base, "axes": axes},
        most_rows=1_000,
        undrawn="This sweep has no results yet.",
    )


def _picture_sections(results: Results) -> Iterator[Section]:
    drawn = {} if not results.figures else dict(_pictures(results))
    of_chart = {LINES: sentences_of(results), TRADE_OFF: tuple(memory_sentences(results))}
    for name, widget in CHARTS.items():
        sentences = of_chart.get(name, ())
        yield Section(name, sentences, pictures=drawn.get(name, ()), tab=name, widget=widget)


def _pictures(results: Results) -> Iterator[tuple[str, tuple[Picture, ...]]]:
    grid, metrics = results.grid, shown_figures(results)
    by_name = {metric.name: metric for metric in metrics}
    speed = by_name.get(SPEED.name, metrics[0])
    memory, shade = by_name.get(PEAK_MEMORY.name), by_name.get(ACCURACY.name)
    at = default_places(results, speed)

    def slice_picture(name: str, draw: Callable[..., CellChart], axes: Any, metric: Metric) -> Picture:
        return _picture(name, lambda width: draw(results, *axes, metric, at, (width, _HEIGHT)))

    yield MAP, (slice_picture("heat-map", heat_map, default_axes(grid), speed),)
    is_gain = grid.axes[grid.compared].key != DEVICES
    scaling = (WEAK, STRONG, *((RATIO_FIGURE,) if is_gain else ()), EXCHANGE) if WEAK.name in by_name else ()
    shown = [metric for metric in scaling if metric.name in by_name]
    of_scaling = [
        slice_picture(metric.name.replace("_", "-"), lines, default_lines(grid), metric) for metric in shown
    ]
    yield LINES, (*of_scaling, slice_picture("lines", lines, default_lines(grid), speed))
    if memory is not None:
        usual = None if "precision" in {axis.key for axis in grid.axes} else shade

        def draw_scatter(width: float) -> CellChart:
            return scatter(results, memory, speed, usual, (width, _HEIGHT))

        yield TRADE_OFF, (_picture("scatter", draw_scatter),)


_WIDTH, _HEIGHT = 800.0, 460.0


def _picture(name: str, draw: Callable[[float], CellChart]) -> Picture:
    first = draw(_WIDTH)
    return Picture(name, lambda width: draw(width).drawing, first.title, first.note)


def _cells_section(results: Results) -> Section:
    metrics = (_metric_column(metric, best_of(results.cells, metric)) for metric in shown_figures(results))
    columns = (*_axis_columns(results.grid), *_STATE_COLUMNS, *metrics, *_more_columns(results))
    rows = tuple(tuple(cell_of(cell) for _, _, cell_of in columns) for cell in results.cells)
    headings = tuple(heading for heading, _, _ in columns)
    right = tuple(heading for heading, is_number, _ in columns if is_number)
    return Section(CELLS, (), headings, rows, right, tab=TABLE)


_Column = tuple[str, bool, Callable[[CellResult], CellText]]
"""A column of the table: its heading, True for numbers, and its text for a cell."""


def _axis_columns(grid: Grid) -> Iterator[_Column]:
    for place, axis in enumerate(grid.axes):

        def text(cell: CellResult, place: int = place, axis: Axis = axis) -> CellText:
            at = cell.places[place]
            mark = Precision(str(axis.values[at])) if axis.key == "precision" else None
            return CellText(axis.text(at), at, mark=mark)

        yield axis.title, numbers_of(axis) is not None, text


def _metric_column(metric: Metric, best: CellResult | None) -> _Column:
    def text(cell: CellResult) -> CellText:
        value = cell.value(metric)
        if value is None:
            return CellText(NONE, None)
        ends = ", ".join(map(metric.text, cell.interval(metric) or ())) if metric is RATIO_FIGURE else ""
        is_disturbed = cell.is_disturbed_in(metric)
        words = f"{metric.text(value)}{f' [{ends}]' if ends else ''}"
        # its own state says so, but not that its baseline was disturbed
        more = ", not reliable" if is_disturbed and not cell.is_disturbed else ""
        return CellText(f"{words}{more}", value, is_strong=cell is best, is_faint=is_disturbed)

    if metric is RATIO_FIGURE:
        return "Ratio", True, text
    return f"{metric.title}{f', {metric.unit}' if metric.unit else ''}", True, text


def _state_cell(cell: CellResult) -> CellText:
    # what does not fit or was disturbed must not read as done
    is_faint = cell.status != "done" or cell.is_disturbed
    return CellText(state_word(cell).capitalize(), _ORDER.index(cell.status), is_faint=is_faint)


def _runs_cell(cell: CellResult) -> CellText:
    return CellText(f"{len(cell.run_ids):,}" if cell.run_ids else NONE, len(cell.run_ids))


_STATE_COLUMNS: tuple[_Column, ...] = (("State", False, _state_cell), ("Runs", True, _runs_cell))


def _more_columns(results: Results) -> Iterator[_Column]:
    if any(cell.nodes for cell in results.cells):
        yield "Node", False, lambda cell: CellText(", ".join(cell.nodes))
    if any(cell.why for cell in results.cells):
        yield "Reason", False, lambda cell: CellText(cell.why, cell.why or None)


_ORDER: tuple[CellStatus, ...] = get_args(CellStatus)


def _experiments(grid: Grid) -> list[Experiment]:
    # cells that have all values of all axes between them
    cells = {0: grid.cells[0]}
    for axis, values in enumerate(grid.axes):
        for place in range(len(values.values)):
            places = [place if other == axis else 0 for other in range(len(grid.axes))]
            cells[grid.index(places)] = grid.cells[grid.index(places)]
    return [cell.experiment for cell in cells.values()]


def _sweep_values(record: SweepRecord, results: Results) -> dict[str, Any]:
    return {
        "name": record.name,
        "ended": None if record.ended is None else record.ended.isoformat(),
        "spent_seconds": record.spent_seconds,
        "problem": None if record.problem is None else record.problem.message,
        "plan": json.loads(record.plan.model_dump_json()),
        "base": json_value(record.grid.base),
        "axes": [{"key": axis.key, "values": list(axis.values)} for axis in record.grid.axes],
        "figures": [
            {"name": metric.name, "title": metric.title, "unit": metric.unit} for metric in results.figures
        ],
        "cells": [json_value(as_json(results, cell)) for cell in results.cells],
    }


def as_json(results: Results, entry: CellResult) -> dict[str, Any]:
    """Return a combination of a sweep as a JSON object, in the form in which `ammeter` prints it."""
    return {
        "index": entry.index,
        "name": entry.name,
        "values": dict(_cell_settings(results, entry)),
        "status": entry.status,
        "reason": entry.why or None,
        "runs": list(entry.run_ids),
        "nodes": list(entry.nodes),
        "figures": dict(entry.values),
        "figures_ci": {name: list(interval) for name, interval in entry.intervals.items()},
        "ratio": entry.ratio,
        "ratio_ci": None if entry.ratio_interval is None else list(entry.ratio_interval),
        "clean": not entry.is_disturbed,
        "ratio_clean": not entry.is_ratio_disturbed,
        "scaling_clean": not entry.is_scaling_disturbed,
    }


def _cell_settings(results: Results, entry: CellResult) -> Iterator[tuple[str, Any]]:
    for axis, place in zip(results.grid.axes, entry.places, strict=True):
        yield axis.key, axis.values[place]


def _cell_row(results: Results, entry: CellResult) -> Row:
    row = {"cell": entry.index, "name": entry.name, **dict(_cell_settings(results, entry))}
    row |= {"state": entry.status, "why": entry.why}
    for metric in results.figures:
        low, high = entry.intervals.get(metric.name, (None, None))
        row |= {metric.name: entry.value(metric), f"{metric.name}_low": low, f"{metric.name}_high": high}
    low, high = entry.ratio_interval or (None, None)
    row |= {"ratio": entry.ratio, "ratio_low": low, "ratio_high": high}
    row |= {"is_disturbed": entry.is_disturbed, "is_ratio_disturbed": entry.is_ratio_disturbed}
    row |= {"is_scaling_disturbed": entry.is_scaling_disturbed}
    return row | {"runs": entry.run_ids, "nodes": ", ".join(entry.nodes)}
