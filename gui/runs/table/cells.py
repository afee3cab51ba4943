"""The cells of the runs table: their text, their tooltips, and what they are sorted by. No Qt."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from engine.compare.evidence import about_machine
from engine.compare.figures import ACCURACY, SPEED
from engine.experiment.catalog import task_of
from engine.experiment.experiment import Precision
from engine.store.record import Status
from engine.words.names import left_out_words, recipe_title, speed_unit
from engine.words.numbers import NONE, memory_unit, number, times
from gui.runs.table.line import (
    HEADINGS,
    STATUS_ORDER,
    Baselines,
    Column,
    Line,
    begun,
    sized_dataset,
    status_words,
)
from gui.widgets.labels import plain_tip

_LONGEST = 600


def cell_tip(line: Line, column: Column, baselines: Baselines) -> str | None:
    """The tooltip of a cell; None for no tooltip."""
    run = line.run
    match column:
        case Column.TICK:
            return "This run has not begun yet" if run.status is Status.QUEUED else HEADINGS[column][1]
        case Column.NAME:
            return _whole(line)
        case Column.TAGS:
            return plain_tip("\n".join(run.tags)) or None
        case Column.RECIPE:
            return plain_tip(_recipe(line))
        case Column.SPEED:
            return _speed(line)
        case Column.RATIO:
            return _spoiled(line, baselines)
        case Column.STATUS:
            return plain_tip(f"{run.problem.message} {run.problem.remedy}") if run.problem else None
    return None


def _whole(line: Line) -> str:
    run, overview = line.run, line.overview
    dataset = sized_dataset(overview.dataset, overview.image_size)
    trained = (
        f"{overview.model} · {dataset} · {overview.precision.label}"
        f" · {recipe_title(overview.recipe)} · batch {overview.batch_size:,}"
    )
    tags = f"Tags: {', '.join(run.tags)}" if run.tags else ""
    note = textwrap.shorten(run.note, _LONGEST, placeholder=" …") if len(run.note) > _LONGEST else run.note
    return plain_tip("\n".join(part for part in (run.name, trained, tags, note) if part))


def _recipe(line: Line) -> str:
    summary = line.run.summary
    left_out = left_out_words(summary.left_out) if summary else ""
    in_force = f"\nIn force: {recipe_title(summary.recipe)}" if summary and summary.recipe else ""
    is_whole = summary is None or summary.recipe in (None, line.overview.recipe)
    recipe = recipe_title(line.overview.recipe) + ("" if is_whole else in_force)
    return recipe + (f"\nLeft out:\n{left_out}" if left_out else "")


def _speed(line: Line) -> str | None:
    run, speed = line.run, line.overview.samples_per_second
    if speed is None:
        return plain_tip(run.summary.speed_note or "") if run.summary else None
    text = f"{SPEED.text(speed)} {speed_unit([line.overview.dataset])}"
    if task_of(line.overview.dataset) != "language":
        return text
    length = run.experiment.sequence_length
    return f"{text} of {length:,} tokens each: {SPEED.text(speed * length)} tokens/s"


def _spoiled(line: Line, baselines: Baselines) -> str | None:
    runs = [spoiled.run for spoiled in baselines.spoiled(line)] if baselines.ratio(line) is not None else []
    reasons = [f"“{run.name}” {what}." for run in runs for _, what in about_machine(run.summary)]
    if not reasons:
        return None
    return plain_tip("\n".join(["Not clean: nothing follows from this ratio.", *reasons]))


_PRECISION_ORDER = {precision: place for place, precision in enumerate(Precision)}
_STATUS_ORDER = {status: place for place, status in enumerate(STATUS_ORDER)}


def cell_text(line: Line, column: Column, baselines: Baselines) -> str:
    """The text of a cell, as far as it depends on its run and the baselines."""
    run, overview = line.run, line.overview
    match column:
        case Column.NAME:
            return run.name
        case Column.TAGS:
            return ", ".join(run.tags)
        case Column.MODEL:
            return overview.model
        case Column.DATASET:
            return sized_dataset(overview.dataset, overview.image_size)
        case Column.PRECISION:
            return overview.precision.label
        case Column.RECIPE:
            return recipe_title(overview.recipe)
        case Column.BATCH:
            return f"{overview.batch_size:,}"
        case Column.SPEED:
            return SPEED.text(overview.samples_per_second)
        case Column.PEAK:
            return _memory(overview.peak_mib)
        case Column.ACCURACY:
            percent = None if overview.accuracy is None else overview.accuracy * 100.0
            return number(percent, ACCURACY.digits)
        case Column.RATIO:
            ratio = baselines.ratio(line)
            return NONE if ratio is None else f"{times(ratio)}×"
        case Column.STATUS:
            return status_words(run)
        case _:
            return ""


def sorter(column: Column, baselines: Baselines) -> Callable[[Line], object | None]:
    """A column's sort key; lines whose key is None are last in either direction."""
    if column is Column.RATIO:
        return lambda line: _orderly(baselines.ratio(line))
    return _SORTED_BY.get(column) or (lambda line: cell_text(line, column, baselines).casefold())


def _when(line: Line) -> tuple[int, float]:
    # running, then queued with the next one on top, then over, the newest first
    run = line.run
    if run.status is Status.QUEUED:
        return 1, -run.number
    return (2 if run.status is Status.RUNNING else 0), begun(run).timestamp()


def _orderly(value: float | None) -> float | None:
    # NaN is neither less nor more than anything, and would leave the rest unsorted
    return None if value != value else value


def _memory(mib: float | None) -> str:
    if mib is None:
        return NONE
    unit, size_mib = memory_unit([mib])
    return f"{number(mib / size_mib)} {unit}"


_SORTED_BY: dict[Column, Callable[[Line], object | None]] = {
    Column.NAME: lambda line: line.run.name.casefold(),
    Column.TAGS: lambda line: "\n".join(line.run.tags).casefold() or None,
    Column.WHEN: _when,
    Column.MODEL: lambda line: line.overview.model.casefold(),
    Column.MARKER: lambda line: _PRECISION_ORDER[line.overview.precision],
    Column.PRECISION: lambda line: _PRECISION_ORDER[line.overview.precision],
    Column.BATCH: lambda line: line.overview.batch_size,
    Column.SPEED: lambda line: _orderly(line.overview.samples_per_second),
    Column.PEAK: lambda line: _orderly(line.overview.peak_mib),
    Column.ACCURACY: lambda line: _orderly(line.overview.accuracy),
    Column.STATUS: lambda line: _STATUS_ORDER[line.run.status],
}
