"""What the cells of the runs table say, and what they are sorted by. No Qt."""

from __future__ import annotations

from collections.abc import Callable

from engine.experiment import Precision
from engine.records.figures import ACCURACY, SPEED
from engine.records.large_numbers import NONE, number, times
from engine.records.record import Status
from gui.panels.recipe_names import recipe_title
from gui.panels.runs_columns import Column
from gui.panels.runs_line import Baselines, Line
from gui.panels.runs_words import STATUS_ORDER, begun, dataset_words, status_words

_PRECISION_ORDER = {precision: place for place, precision in enumerate(Precision)}
_STATUS_ORDER = {status: place for place, status in enumerate(STATUS_ORDER)}


def cell_text(line: Line, column: Column, baselines: Baselines) -> str:
    """The words of one cell that depend on the run alone."""
    run, seen = line.run, line.glance
    match column:
        case Column.NAME:
            return run.name
        case Column.TAGS:
            return ", ".join(run.tags)
        case Column.MODEL:
            return seen.model
        case Column.DATASET:
            return dataset_words(seen.dataset, seen.image_size)
        case Column.PRECISION:
            return seen.precision.label
        case Column.RECIPE:
            return recipe_title(seen.recipe)
        case Column.BATCH:
            return f"{seen.batch_size:,}"
        case Column.SPEED:
            return SPEED.text(seen.speed)
        case Column.PEAK:
            return number(_scaled(seen.peak_mib, 1 / 1024))
        case Column.ACCURACY:
            return number(_scaled(seen.accuracy, 100.0), ACCURACY.digits)
        case Column.RATIO:
            ratio = baselines.ratio(line)
            return NONE if ratio is None else f"{times(ratio)}×"
        case Column.STATUS:
            return status_words(run)
        case _:
            return ""


def sorter(column: Column, baselines: Baselines) -> Callable[[Line], object | None]:
    """What a column is sorted by, of each line; None sorts last in either direction."""
    if column is Column.RATIO:
        return lambda line: _orderly(baselines.ratio(line))
    return _SORTED_BY.get(column) or (lambda line: cell_text(line, column, baselines).casefold())


def _when(line: Line) -> tuple[int, float]:
    # what trains, then the queue with the next one on top, then what is over, the newest first
    run = line.run
    if run.status is Status.QUEUED:
        return 1, -run.number
    return (2 if run.status is Status.RUNNING else 0), begun(run).timestamp()


def _orderly(value: float | None) -> float | None:
    # NaN is neither less nor more than anything, and would leave the rest unsorted
    return None if value != value else value


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


_SORTED_BY: dict[Column, Callable[[Line], object | None]] = {
    Column.NAME: lambda line: line.run.name.casefold(),
    Column.TAGS: lambda line: "\n".join(line.run.tags).casefold() or None,
    Column.WHEN: _when,
    Column.MODEL: lambda line: line.glance.model.casefold(),
    Column.MARKER: lambda line: _PRECISION_ORDER[line.glance.precision],
    Column.PRECISION: lambda line: _PRECISION_ORDER[line.glance.precision],
    Column.BATCH: lambda line: line.glance.batch_size,
    Column.SPEED: lambda line: _orderly(line.glance.speed),
    Column.PEAK: lambda line: _orderly(line.glance.peak_mib),
    Column.ACCURACY: lambda line: _orderly(line.glance.accuracy),
    Column.STATUS: lambda line: _STATUS_ORDER[line.run.status],
}
