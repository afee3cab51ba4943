"""A sweep as a document: its sentences, charts and cells. The CSV file has a row for every cell."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.compare.metrics import ACCURACY, PEAK_MEMORY, SPEED, Metric
from engine.drawing.shapes import Drawing
from engine.experiment.experiment import Experiment
from engine.experiment.sweep import Grid
from engine.export.document import Document, Picture, Row, Section, document_of
from engine.export.writers.data import json_value
from engine.store.saved.sweeps import SweepRecord
from engine.sweep.chart import default_axes, default_lines, default_places, shown_figures
from engine.sweep.results import (
    DEVICES,
    EXCHANGE,
    RATIO_FIGURE,
    STRONG,
    WEAK,
    CellResult,
    Results,
    results_of,
)
from engine.sweep.scatter import scatter
from engine.sweep.slices import heat_map, lines
from engine.sweep.words import answers, columns_of, notes_of
from engine.words.numbers import counted


def document(record: SweepRecord) -> Document:
    results, grid = results_of(record), record.grid
    axes = {axis.key: list(axis.values) for axis in grid.axes}
    return document_of(
        record,
        "sweep",
        record.name,
        _experiments(grid),
        [Section("Result", answers(results)), *_picture_sections(results), cells_section(results)],
        size=counted(grid.size, "combination"),
        warnings=() if record.problem is None else (record.problem.message,),
        tables={"": lambda: (_row(results, cell) for cell in results.cells)},
        values=lambda: _values(record, results),
        facts={"base": grid.base, "axes": axes},
        most_rows=1_000,
        undrawn="This sweep has no results yet.",
    )


def cells_section(results: Results) -> Section:
    columns = columns_of(results)
    rows = tuple(tuple(column.text(cell) for column in columns) for cell in results.cells)
    right = tuple(column.heading for column in columns if column.is_number)
    return Section(
        "Combinations", (), tuple(column.heading for column in columns), rows, right, notes_of(results)
    )


def _picture_sections(results: Results) -> Iterator[Section]:
    if not results.figures:
        return
    metrics = shown_figures(results)
    by_name = {metric.name: metric for metric in metrics}
    speed = by_name.get(SPEED.name, metrics[0])
    memory, shade = by_name.get(PEAK_MEMORY.name), by_name.get(ACCURACY.name)
    at = default_places(results, speed)

    def draw_map(width: float) -> Drawing:
        return heat_map(results, *default_axes(results.grid), speed, at, (width, 440.0)).drawing

    def draw_lines(width: float) -> Drawing:
        return lines(results, *default_lines(results.grid), speed, at, (width, 440.0)).drawing

    def draw_scatter(width: float) -> Drawing:
        assert memory is not None
        return scatter(results, memory, speed, shade, (width, 460.0)).drawing

    if WEAK.name in by_name:
        yield Section("Scaling", pictures=tuple(_scaling_pictures(results, by_name, at)))
    yield Section("Heat map", pictures=(Picture("heat-map", draw_map),))
    yield Section("Lines", pictures=(Picture("lines", draw_lines),))
    if memory is not None:
        yield Section("Trade-offs", pictures=(Picture("scatter", draw_scatter),))


def _scaling_pictures(
    results: Results, metrics: Mapping[str, Metric], at: Sequence[int]
) -> Iterator[Picture]:
    grid = results.grid
    is_gain = grid.axes[grid.compared].key != DEVICES
    shown = (WEAK, STRONG, *((RATIO_FIGURE,) if is_gain else ()), EXCHANGE)
    for metric in (metric for metric in shown if metric.name in metrics):

        def draw(width: float, metric: Metric = metric) -> Drawing:
            return lines(results, *default_lines(grid), metric, at, (width, 380.0)).drawing

        yield Picture(metric.name.replace("_", "-"), draw)


def _experiments(grid: Grid) -> list[Experiment]:
    # cells that have all values of all axes between them
    cells = {0: grid.cells[0]}
    for axis, values in enumerate(grid.axes):
        for place in range(len(values.values)):
            places = [place if other == axis else 0 for other in range(len(grid.axes))]
            cells[grid.index(places)] = grid.cells[grid.index(places)]
    return [cell.experiment for cell in cells.values()]


def _values(record: SweepRecord, results: Results) -> dict[str, Any]:
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
    """Return a cell as plain values, as `ammeter` prints them too."""
    return {
        "index": entry.index,
        "name": entry.name,
        "values": dict(_settings(results, entry)),
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


def _settings(results: Results, entry: CellResult) -> Iterator[tuple[str, Any]]:
    for axis, place in zip(results.grid.axes, entry.places, strict=True):
        yield axis.key, axis.values[place]


def _row(results: Results, entry: CellResult) -> Row:
    row = {"cell": entry.index, "name": entry.name, **dict(_settings(results, entry))}
    row |= {"state": entry.status, "why": entry.why}
    for metric in results.figures:
        low, high = entry.intervals.get(metric.name, (None, None))
        row |= {metric.name: entry.value(metric), f"{metric.name}_low": low, f"{metric.name}_high": high}
    low, high = entry.ratio_interval or (None, None)
    row |= {"ratio": entry.ratio, "ratio_low": low, "ratio_high": high}
    row |= {"is_disturbed": entry.is_disturbed, "is_ratio_disturbed": entry.is_ratio_disturbed}
    row |= {"is_scaling_disturbed": entry.is_scaling_disturbed}
    return row | {"runs": entry.run_ids, "nodes": ", ".join(entry.nodes)}
