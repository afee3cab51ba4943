"""Prints sweeps: the plan, the progress, the cells and the list of sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from rich.progress import SpinnerColumn

from engine.cli import output
from engine.cli.session import ProgressLine, text_column
from engine.experiment.sweep import Cell, Grid, Plan
from engine.export.kinds.sweep import as_json, document
from engine.export.writers.data import json_value
from engine.protocol.events import Log, Samples
from engine.store.saved.sweeps import SweepRecord
from engine.sweep.order import Estimate, SweepEvent, SweepStarted, TurnEnded, TurnStarted, turns
from engine.sweep.results import CellResult, Results
from engine.words.numbers import clock_text, counted, duration


class SweepProgress(ProgressLine):
    """A sweep's progress line: its current cell and turn, the time left, and the time of day when it ends."""

    def __init__(self, grid: Grid) -> None:
        super().__init__("Preparing", SpinnerColumn(), text_column("{task.description}"))
        self._grid = grid
        self._turn = ""
        self._left = ""

    def show(self, event: SweepEvent) -> None:
        match event:
            case SweepStarted(estimate=estimate):
                self._left = _left_words(estimate)
            case TurnStarted(turn=turn):
                kind = "pilot" if turn.kind == "pilot" else f"run {turn.repeat:,}"
                self._turn = f"{self._grid.name(self._grid.cells[turn.cell].places)}, {kind}"
            case TurnEnded(problem=problem, estimate=estimate):
                self._left = _left_words(estimate)
                if problem is not None:
                    self._say(f"{self._turn}: {problem.message}", always=True)
            case Samples(step=steps) if steps:
                self._describe(f", step {steps[-1]:,}")
                return
            case Log(message=message, level="problem"):
                self._say(message, always=True)
                return
            case _:
                return
        self._describe("")

    def _describe(self, step: str) -> None:
        self._update(description=f"{self._turn or 'Preparing'}{step}{self._left}")


def time_words(estimate: Estimate) -> str:
    """Return the time left and the end: "about 1 h 4 min, until 04:12"."""
    now = datetime.now().astimezone()
    until = clock_text(now + timedelta(seconds=estimate.seconds_left), now)
    return f"{'roughly' if estimate.is_rough else 'about'} {duration(estimate.seconds_left)}, until {until}"


def _left_words(estimate: Estimate | None) -> str:
    return "" if estimate is None else f", {time_words(estimate)}"


def show_plan(
    grid: Grid, plan: Plan, excluded: Mapping[int, str], estimate: Estimate | None, *, is_json: bool
) -> None:
    """Print the cells that a sweep of the grid would train."""
    runs = plan.repeats * (grid.size - len(excluded))
    if is_json:
        output.json_object(
            {
                "plan": plan.model_dump(mode="json"),
                "grid": _grid(grid),
                "cells": _planned_cells(grid, excluded),
                "runs": runs,
                "seconds": None if estimate is None else estimate.seconds_left,
                "is_rough": estimate is None or estimate.is_rough,
            }
        )
        return
    headings = [*(axis.title for axis in grid.axes), "Trained"]
    output.table(headings, [_plan_row(grid, cell, excluded) for cell in grid.cells])
    at_least = "at least " if plan.precision_percent is not None else ""
    output.line(f"\n{counted(grid.size, 'combination')}, {at_least}{counted(runs, 'run')}.")
    if estimate is None:
        output.line("The duration is known after the first pilots.")
    else:
        output.line(f"Estimated time: {time_words(estimate)}.")


def _plan_row(grid: Grid, cell: Cell, excluded: Mapping[int, str]) -> list[str]:
    why = excluded.get(cell.index)
    texts = (axis.text(place) for axis, place in zip(grid.axes, cell.places, strict=True))
    return [*texts, "yes" if why is None else f"no: {why}"]


def _planned_cells(grid: Grid, excluded: Mapping[int, str]) -> list[dict[str, Any]]:
    cells = [
        CellResult(
            cell.index,
            cell.places,
            grid.name(cell.places),
            "excluded" if cell.index in excluded else "waiting",
            why=excluded.get(cell.index, ""),
        )
        for cell in grid.cells
    ]
    return [as_json(Results(grid, tuple(cells), ()), cell) for cell in cells]


def show_results(record: SweepRecord, results: Results) -> None:
    """Print a sweep as a document, and how it ended."""
    output.document(document(record, results))
    output.line(f"\n{record.name} saved as {record.id}.")
    if record.is_claimed:
        output.line("The sweep is running.")
    elif record.ended is None:
        output.line(f"The sweep was stopped. Resume it with `ammeter resume {record.id}`.")
    elif (used := time_used(record)) and next(turns(record), None) is not None:
        output.line(f"The sweep {used}")


def time_used(record: SweepRecord) -> str:
    """Return "has used its time limit of 8 h.", the end of a sentence. Empty if time is left."""
    limit = record.plan.time_limit_seconds
    is_used = limit is not None and record.spent_seconds >= limit
    return f"has used its time limit of {duration(limit)}." if is_used and limit is not None else ""


def values(record: SweepRecord, results: Results) -> dict[str, Any]:
    """Return a sweep as JSON values."""
    return {
        **overview(record),
        "grid": _grid(record.grid),
        "cells": [json_value(as_json(results, cell)) for cell in results.cells],
    }


def overview(record: SweepRecord) -> dict[str, Any]:
    """Return a sweep without its cells as JSON values."""
    return {
        "id": record.id,
        "name": record.name,
        "status": status(record),
        "created": record.created.isoformat(),
        "ammeter": record.ammeter,
        "device_name": record.device_name,
        "machine": record.machine,
        "plan": record.plan.model_dump(mode="json"),
        "spent_seconds": record.spent_seconds,
    }


def status(record: SweepRecord) -> str:
    """Return the state of a sweep as a word."""
    if record.is_claimed:
        return "running"
    if record.ended is None:
        return "stopped"
    return "finished" if record.problem is None else "failed"


def _grid(grid: Grid) -> dict[str, Any]:
    axes = [{"key": axis.key, "title": axis.title, "values": list(axis.values)} for axis in grid.axes]
    return {"base": grid.base, "axes": axes, "compared": grid.axes[grid.compared].key}
