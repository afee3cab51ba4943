"""The cells of the runs table: their text, their tooltips, and what they are sorted by. No Qt."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from engine.compare.evidence import about_machine
from engine.compare.figures import ACCURACY, SPEED, Figure
from engine.experiment.catalog import DataRef
from engine.experiment.experiment import Precision
from engine.experiment.value import MIB_PER_GIB
from engine.store.record import Status
from engine.words.names import left_out_words, recipe_title, setting_text, speed_unit
from engine.words.numbers import NONE, duration, number, times
from gui.runs.table.baselines import Baselines
from gui.runs.table.columns import COMPARED, HEADINGS, RECORDED, Column, setting_of
from gui.runs.table.line import STATUS_ORDER, Line, begun, sized_dataset, status_words
from gui.widgets.labels import plain_tip

_LONGEST = 600
_LEAST_GIB = 0.01
"""With two decimals less would be nothing."""


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
        case Column.STATUS:
            return plain_tip(f"{run.problem.message} {run.problem.remedy}") if run.problem else None
    figure = COMPARED.get(column)
    return None if figure is None else _about_change(line, figure, baselines)


def _whole(line: Line) -> str:
    run, overview = line.run, line.overview
    dataset = sized_dataset(overview.dataset, overview.image_size)
    trained = (
        f"{overview.model} · {dataset} · {overview.precision.label}"
        f" · {recipe_title(overview.recipe)} · batch {overview.batch_size:,}"
    )
    tags = f"Tags: {', '.join(run.tags)}" if run.tags else ""
    folder = f"Folder: {run.folder}" if run.folder else ""
    note = textwrap.shorten(run.note, _LONGEST, placeholder=" …") if len(run.note) > _LONGEST else run.note
    return plain_tip("\n".join(part for part in (run.name, trained, tags, folder, note) if part))


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
    if DataRef(line.overview.dataset).task != "language":
        return text
    length = run.experiment.sequence_length
    return f"{text} of {length:,} tokens each: {SPEED.text(speed * length)} tokens/s"


def _about_change(line: Line, figure: Figure, baselines: Baselines) -> str | None:
    if baselines.change(line, figure) is None:
        baseline = baselines.of(line)
        lines = [line] if baseline is None else [line, baseline]
        are_known = all(known.figure(figure) is not None for known in lines)
        return "The two runs' figures count different things" if len(lines) > 1 and are_known else None
    runs = [spoiled.run for spoiled in baselines.spoiled(line)] if figure.is_of_time else []
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
        case Column.STATUS:
            return status_words(run)
        case Column.FOLDER:
            return run.folder
        case Column.DURATION:
            seconds = _duration(line)
            return NONE if seconds is None else duration(seconds)
        case Column.GRAD_SCALE:
            return number(_grad_scale(line))
    if (figure := COMPARED.get(column)) is not None:
        return _change_text(figure, line.figure(figure), baselines.change(line, figure))
    if (figure := RECORDED.get(column)) is not None:
        return figure.text(figure.value(run))
    key = column.setting
    return "" if key is None else setting_text(key, setting_of(run.experiment, key))


def _change_text(figure: Figure, value: float | None, change: float | None) -> str:
    if value is None or change is None:
        return NONE
    return f"{times(change)}×" if figure.has_ratio else figure.difference_text(value, change)


def _duration(line: Line) -> float | None:
    return line.run.summary.seconds if line.run.summary else None


def _grad_scale(line: Line) -> float | None:
    return line.run.summary.final_grad_scale if line.run.summary else None


def sorter(column: Column, baselines: Baselines) -> Callable[[Line], object | None]:
    """A column's sort key; lines whose key is None are last in either direction."""
    if (compared := COMPARED.get(column)) is not None:
        return lambda line: _orderly(baselines.change(line, compared))
    if (recorded := RECORDED.get(column)) is not None:
        return lambda line: _orderly(recorded.value(line.run))
    if (key := column.setting) is not None:
        return lambda line: _setting(line, key)
    return _SORTED_BY.get(column) or (lambda line: cell_text(line, column, baselines).casefold())


def _when(line: Line) -> tuple[int, float]:
    # running, then queued with the next one on top, then over, the newest first
    run = line.run
    if run.status is Status.QUEUED:
        return 1, -run.number
    return (2 if run.status is Status.RUNNING else 0), begun(run).timestamp()


def _setting(line: Line, key: str) -> tuple[bool, float | str] | None:
    value = setting_of(line.run.experiment, key)
    if value is None:
        return None
    # a setting may be a number or a word, which do not compare
    return (False, value) if isinstance(value, int | float) else (True, setting_text(key, value).casefold())


def _orderly(value: float | None) -> float | None:
    # NaN is neither less nor more than anything, and would leave the rest unsorted
    return None if value != value else value


def _memory(mib: float | None) -> str:
    gib = None if mib is None else mib / MIB_PER_GIB
    return number(gib, 2 if gib is None or gib >= _LEAST_GIB else None)


_SORTED_BY: dict[Column, Callable[[Line], object | None]] = {
    Column.NAME: lambda line: line.run.name.casefold(),
    Column.TAGS: lambda line: "\n".join(line.run.tags).casefold() or None,
    Column.WHEN: _when,
    Column.MODEL: lambda line: line.overview.model.casefold(),
    Column.PRECISION: lambda line: _PRECISION_ORDER[line.overview.precision],
    Column.BATCH: lambda line: line.overview.batch_size,
    Column.SPEED: lambda line: _orderly(line.overview.samples_per_second),
    Column.PEAK: lambda line: _orderly(line.overview.peak_mib),
    Column.ACCURACY: lambda line: _orderly(line.overview.accuracy),
    Column.STATUS: lambda line: _STATUS_ORDER[line.run.status],
    Column.FOLDER: lambda line: line.run.folder.casefold() or None,
    Column.DURATION: lambda line: _orderly(_duration(line)),
    Column.GRAD_SCALE: lambda line: _orderly(_grad_scale(line)),
}
