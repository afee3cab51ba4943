"""A sweep as data: CSV (RFC 4180) with a row for every cell, and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.export.data import cell, json_value, write_rows
from engine.export.sections.data import write_object
from engine.store.saved.sweeps import SweepRecord
from engine.sweep.reading import results_of
from engine.sweep.results import CellResult, Results


def write_csv(record: SweepRecord, path: Path) -> None:
    """Writes the cells: their values on the axes by the settings' keys, figures with intervals, and runs."""
    results = results_of(record)
    rows = [_row(results, entry) for entry in results.cells]
    names = list(dict.fromkeys(name for row in rows for name in row))
    write_rows(path, [names, *([cell(row.get(name)) for name in names] for row in rows)])


def write_json(record: SweepRecord, path: Path) -> None:
    """Writes one object: the grid, the plan, and the cells with their figures."""
    results = results_of(record)
    write_object(
        record,
        path,
        name=record.name,
        ended=None if record.ended is None else record.ended.isoformat(),
        spent_seconds=record.spent_seconds,
        problem=None if record.problem is None else record.problem.message,
        plan=json.loads(record.plan.model_dump_json()),
        base=json_value(record.grid.base),
        axes=[{"key": axis.key, "values": list(axis.values)} for axis in record.grid.axes],
        figures=[
            {"name": figure.name, "title": figure.title, "unit": figure.unit} for figure in results.figures
        ],
        cells=[json_value(as_json(results, entry)) for entry in results.cells],
    )


def as_json(results: Results, entry: CellResult) -> dict[str, Any]:
    """A cell as plain values, as `ammeter` prints them too."""
    return {
        "index": entry.index,
        "name": entry.name,
        "values": dict(_settings(results, entry)),
        "status": entry.status,
        "reason": entry.why or None,
        "runs": list(entry.run_ids),
        "figures": dict(entry.values or {}),
        "figures_ci": {name: list(interval) for name, interval in (entry.intervals or {}).items()},
        "ratio": entry.ratio,
        "ratio_ci": None if entry.ratio_interval is None else list(entry.ratio_interval),
        "clean": not entry.is_disturbed,
        "ratio_clean": not entry.is_ratio_disturbed,
    }


def _settings(results: Results, entry: CellResult) -> Iterator[tuple[str, Any]]:
    for axis, place in zip(results.grid.axes, entry.places, strict=True):
        yield axis.key, axis.values[place]


def _row(results: Results, entry: CellResult) -> dict[str, Any]:
    row = {"cell": entry.index, "name": entry.name, **dict(_settings(results, entry))}
    row |= {"state": entry.status, "why": entry.why}
    for figure in results.figures:
        low, high = (entry.intervals or {}).get(figure.name, (None, None))
        row |= {
            figure.name: entry.value(figure.name),
            f"{figure.name}_low": low,
            f"{figure.name}_high": high,
        }
    low, high = entry.ratio_interval or (None, None)
    row |= {"ratio": entry.ratio, "ratio_low": low, "ratio_high": high}
    row |= {"is_disturbed": entry.is_disturbed, "is_ratio_disturbed": entry.is_ratio_disturbed}
    return row | {"runs": entry.run_ids}
