"""What the verbs print of a sweep: its plan, its progress, its cells and the list of sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.progress import SpinnerColumn

from engine.cli import output
from engine.cli.session import ProgressLine, text_column
from engine.compare.figures import ACCURACY, LOSS, PEAK_MEMORY, SPEED
from engine.experiment.sweep.grid import Grid
from engine.experiment.sweep.plan import Plan
from engine.export.data import json_value
from engine.protocol.events import Log, Samples
from engine.statistics import Interval
from engine.store.saved.sweeps import SweepRecord
from engine.sweep.events import Estimate, SweepEvent, SweepStarted, TurnEnded, TurnStarted
from engine.sweep.results import CellResult, Results
from engine.words.numbers import NONE, counted, duration, times


class SweepProgress(ProgressLine):
    """One line with the cell, its turn, the time left and the clock time of the end."""

    def __init__(self, grid: Grid) -> None:
        super().__init__("Getting ready", SpinnerColumn(), text_column("{task.description}"))
        self._grid = grid
        self._turn = ""
        self._left = ""

    def show(self, event: SweepEvent) -> None:
        """Takes one event of the sweep."""
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
        self._update(description=f"{self._turn or 'Getting ready'}{step}{self._left}")


def time_words(estimate: Estimate) -> str:
    """How long it still takes and when it is over: "about 1 h 4 min, until 04:12"."""
    end = datetime.now().astimezone() + timedelta(seconds=estimate.seconds_left)
    is_today = end.date() == datetime.now().astimezone().date()
    until = f"{end:%H:%M}" if is_today else f"{end:%Y-%m-%d %H:%M}"
    return f"{'roughly' if estimate.is_rough else 'about'} {duration(estimate.seconds_left)}, until {until}"


def _left_words(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"; {time_words(estimate)}"


def show_plan(
    grid: Grid, plan: Plan, left_out: Mapping[int, str], estimate: Estimate | None, *, as_json: bool
) -> None:
    """What a sweep of the grid would train."""
    runs = plan.repeats * (grid.size - len(left_out))
    if as_json:
        cells = [_planned(grid, index, left_out.get(index, "")) for index in range(grid.size)]
        output.json_object(
            {
                "plan": plan.model_dump(mode="json"),
                "grid": _grid(grid),
                "cells": cells,
                "runs": runs,
                "seconds": None if estimate is None else estimate.seconds_left,
                "is_rough": estimate is None or estimate.is_rough,
            }
        )
        return
    headings = [*(axis.title for axis in grid.axes), "Trained"]
    output.table(headings, [_plan_row(grid, index, left_out) for index in range(grid.size)])
    at_least = "at least " if plan.precision_percent is not None else ""
    output.line(f"\n{counted(grid.size, 'cell')}, {at_least}{counted(runs, 'run')}.")
    if estimate is None:
        output.line("How long they take is known after the first pilots.")
    else:
        output.line(f"They take {time_words(estimate)}.")


def _plan_row(grid: Grid, index: int, left_out: Mapping[int, str]) -> list[str]:
    why = left_out.get(index)
    return [*_axis_texts(grid, grid.cells[index].places), "yes" if why is None else f"no: {why}"]


def _axis_texts(grid: Grid, places: Sequence[int]) -> list[str]:
    return [axis.text(place) for axis, place in zip(grid.axes, places, strict=True)]


def _planned(grid: Grid, index: int, why: str) -> dict[str, Any]:
    cell = CellResult(index, grid.cells[index].places, "", "left out" if why else "waiting", why=why)
    return {key: value for key, value in _cell(grid, cell).items() if key in _OF_PLAN}


_OF_PLAN = ("index", "name", "values", "status", "reason")


def show_results(record: SweepRecord, results: Results) -> None:
    """A table of the cells, and what became of the sweep."""
    figures = [figure for figure in results.figures if figure.name in _SHOWN]
    numbers = [f"{figure.title}, {figure.unit}" if figure.unit else figure.title for figure in figures]
    headings = [*(axis.title for axis in record.grid.axes), *numbers, "Ratio", "Runs", "State"]
    rows = [
        [
            *_axis_texts(record.grid, cell.places),
            *(figure.text(cell.value(figure.name)) for figure in figures),
            _ratio_text(cell),
            f"{len(cell.run_ids):,}",
            f"{cell.status}: {cell.why}" if cell.why else cell.status,
        ]
        for cell in results.cells
    ]
    output.table(headings, rows, [*numbers, "Ratio", "Runs"])
    output.line(f"\n{record.name} saved as {record.id}.")


_SHOWN = (SPEED.name, PEAK_MEMORY.name, ACCURACY.name, LOSS.name)


def _ratio_text(cell: CellResult) -> str:
    if cell.ratio is None:
        return NONE
    caution = ", not clean" if cell.is_disturbed else ""
    if cell.ratio_interval is None:
        return f"{times(cell.ratio)}×{caution}"
    low, high = cell.ratio_interval
    return f"{times(cell.ratio)}× ({times(low)} to {times(high)}){caution}"


def values(record: SweepRecord, results: Results) -> dict[str, Any]:
    """A sweep as plain JSON values."""
    return {
        **overview(record),
        "grid": _grid(record.grid),
        "cells": [_cell(record.grid, cell) for cell in results.cells],
    }


def overview(record: SweepRecord) -> dict[str, Any]:
    """A sweep without its cells, as plain JSON values."""
    return {
        "id": record.id,
        "name": record.name,
        "status": status(record),
        "created": record.created.isoformat(),
        "device_name": record.device_name,
        "plan": record.plan.model_dump(mode="json"),
        "spent_seconds": record.spent_seconds,
    }


def status(record: SweepRecord) -> str:
    """What became of a sweep, in a word."""
    if record.is_claimed:
        return "running"
    if record.ended is None:
        return "stopped"
    return "finished" if record.problem is None else "failed"


def _grid(grid: Grid) -> dict[str, Any]:
    axes = [{"key": axis.key, "title": axis.title, "values": list(axis.values)} for axis in grid.axes]
    return {"base": grid.base, "axes": axes, "compared": grid.axes[grid.compared].key}


def _cell(grid: Grid, cell: CellResult) -> dict[str, Any]:
    pairs = zip(grid.axes, cell.places, strict=True)
    figures = {name: json_value(value) for name, value in (cell.values or {}).items()}
    return {
        "index": cell.index,
        "name": grid.name(cell.places),
        "values": {axis.key: axis.values[place] for axis, place in pairs},
        "status": cell.status,
        "reason": cell.why or None,
        "runs": list(cell.run_ids),
        "figures": figures,
        "ratio": cell.ratio,
        "ratio_ci": _ends(cell.ratio_interval),
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else list(interval)


def show_list(records: Sequence[SweepRecord]) -> None:
    """Saved sweeps, a line for each."""
    headings = ("Id", "Name", "Status", "When", "Swept", "Cells", "Runs")
    rows = [
        (
            record.id,
            record.name,
            status(record),
            record.created.astimezone().strftime("%Y-%m-%d %H:%M"),
            ", ".join(axis.title for axis in record.grid.axes),
            f"{record.grid.size:,}",
            f"{sum(len(cell.runs) for cell in record.cells):,}",
        )
        for record in records
    ]
    output.table(headings, rows, ("Cells", "Runs"))
