"""The sentences of the page Sweep."""

from __future__ import annotations

from datetime import datetime, timedelta

from engine.compare.figures import ACCURACY, LOSS, PEAK_MEMORY, SPEED, Figure
from engine.sweep.results import CellResult, Results
from engine.words.numbers import clock_text, counted, date_text, duration, number, times
from gui.session.sweeps import SweepView

_FINAL = ("done", "failed", "left out")
_ON_CARD = tuple(figure.name for figure in (SPEED, PEAK_MEMORY, ACCURACY, LOSS))


def counts(results: Results) -> str:
    """The cells done and the runs: "7 of 12 cells, 14 runs"."""
    done = sum(cell.status in _FINAL for cell in results.cells)
    runs = sum(len(cell.run_ids) for cell in results.cells)
    return f"{done:,} of {counted(len(results.cells), 'cell')}, {counted(runs, 'run')}"


def fraction_done(results: Results) -> float:
    """The share of cells done, 0 to 1."""
    return sum(cell.status in _FINAL for cell in results.cells) / len(results.cells)


def state(view: SweepView) -> str:
    """A sweep's state, in words."""
    if view.is_waiting:
        return "waiting for its turn"
    if not view.is_live:
        when = date_text(view.created)
        how = (
            "carried on by another window"
            if view.is_elsewhere
            else "finished"
            if view.is_over
            else "unfinished"
        )
        return ", ".join(part for part in (how, view.device_name, when) if part)
    return _turn(view)


def _turn(view: SweepView) -> str:
    turn = view.turn
    if turn is None:
        return "starting a process"
    return view.pilot_words() or f"{view.cell_name(turn.cell)}, run {turn.repeat}"


def time_left(view: SweepView, now: datetime) -> str:
    """The time left of a sweep in progress, and the clock time of its end; empty if unknown."""
    estimate = view.estimate
    if estimate is None or not view.is_live:
        return ""
    now = now.astimezone()
    clock = clock_text(now + timedelta(seconds=estimate.seconds_left), now)
    about = "roughly " if estimate.is_rough else ""
    return f"{about}{duration(estimate.seconds_left)} left, until {clock}"


def facts_of(cell: CellResult, results: Results) -> str:
    """A cell's figures in a line, its ratio with the interval first."""
    parts, grid = [], results.grid
    if cell.ratio is not None and grid.baseline(grid.cells[cell.index]).index != cell.index:
        unclean = ", not clean" if cell.is_ratio_disturbed else ""
        parts.append(f"{times(cell.ratio)}× its baseline{_interval(cell.ratio_interval, 2)}{unclean}")
    for figure in results.figures:
        if (value := cell.value(figure)) is not None and figure.name in _ON_CARD:
            interval = cell.intervals.get(figure.name)
            parts.append(_figure_text(figure, value, interval))
    return "  ·  ".join(parts)


def _figure_text(figure: Figure, value: float, interval: tuple[float, float] | None) -> str:
    return f"{figure.title} {figure.text_with_unit(value)}{_interval(interval, figure.digits)}"


def _interval(interval: tuple[float, float] | None, digits: int | None = None) -> str:
    return "" if interval is None else f" ({number(interval[0], digits)} to {number(interval[1], digits)})"


def status_of(cell: CellResult) -> str:
    """A cell's state, with its reason."""
    disturbed = ", disturbed" if cell.is_disturbed else ""
    runs = f", {counted(len(cell.run_ids), 'run')}" if cell.run_ids else ""
    return f"{cell.status}{runs}{disturbed}{': ' + cell.why if cell.why else ''}"
