"""The columns of a table of cells: state, values on the axes, figures, ratio with its interval, runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.compare.figures import SPEED, Figure
from engine.experiment.sweep import Axis
from engine.sweep.picture import (
    DISTURBED_MARK,
    MARK_WORDS,
    RATIO_FIGURE,
    bare_text,
    best_of,
    figure_text,
    interval_of,
    numbers_of,
    shown_figures,
)
from engine.sweep.results import CellResult, CellStatus, Results
from engine.words.numbers import counted, pace_text, range_text

_ORDER: tuple[CellStatus, ...] = (
    "running",
    "done",
    "piloted",
    "waiting",
    "held",
    "stopped",
    "failed",
    "left out",
)


@dataclass(frozen=True)
class Column:
    """A column: its `text` for a cell, and the `value` by which it is sorted."""

    heading: str
    tip: str
    value: Callable[[CellResult], Any]
    text: Callable[[CellResult], str]
    is_number: bool = False
    is_figure: bool = False


def columns_of(results: Results) -> tuple[Column, ...]:
    """The columns of these results."""
    return tuple(_columns(results))


def notes_of(results: Results) -> tuple[str, ...]:
    """What the marks in the columns mean, where there are any."""
    figures = shown_figures(results)
    is_any = any(
        cell.is_disturbed_in(figure) and cell.value(figure.name) is not None
        for cell in results.cells
        for figure in figures
    )
    return (f"{MARK_WORDS}.",) if is_any else ()


def _columns(results: Results) -> Iterator[Column]:
    for place, axis in enumerate(results.grid.axes):
        yield _of_axis(place, axis)
    for figure in shown_figures(results):
        yield _of_figure(figure)
    yield Column("Runs", "Finished or not", lambda cell: len(cell.run_ids), _runs, is_number=True)
    yield Column("State", "", lambda cell: _ORDER.index(cell.status), lambda cell: cell.status.capitalize())
    if any(cell.why for cell in results.cells):
        yield Column("Why", "", lambda cell: cell.why or None, lambda cell: cell.why)


def _of_axis(place: int, axis: Axis) -> Column:
    return Column(
        axis.title,
        "",
        lambda cell: cell.places[place],
        lambda cell: axis.text(cell.places[place]),
        is_number=numbers_of(axis) is not None,
    )


def _of_figure(figure: Figure) -> Column:
    unit = f", {figure.unit}" if figure.unit and figure is not RATIO_FIGURE else ""
    heading = "Ratio" if figure is RATIO_FIGURE else figure.title
    tip = "The speed as a multiple of the baseline cell's, with its 95 % interval"

    def text(cell: CellResult) -> str:
        value = cell.value(figure.name)
        if value is None:
            return ""
        interval = interval_of(cell, figure) if figure is RATIO_FIGURE else None
        beside = "" if interval is None else f" [{', '.join(bare_text(figure, end) for end in interval)}]"
        shown = figure_text(figure, value) if figure is RATIO_FIGURE else figure.text(value)
        return f"{shown}{beside}{DISTURBED_MARK if cell.is_disturbed_in(figure) else ''}"

    return Column(
        f"{heading}{unit}",
        tip if figure is RATIO_FIGURE else "",
        lambda cell: cell.value(figure.name),
        text,
        is_number=True,
        is_figure=True,
    )


def _runs(cell: CellResult) -> str:
    return f"{len(cell.run_ids):,}" if cell.run_ids else ""


def answers(results: Results) -> tuple[str, ...]:
    """The cells by their states, the fastest cell, and the cell that gains most over its baseline.

    Nothing is concluded from a disturbed measurement.
    """
    sentences = [_states(results)]
    speed = next((figure for figure in results.figures if figure.name == SPEED.name), None)
    fastest = None if speed is None else best_of(results.cells, speed)
    if speed is not None and fastest is not None:
        value = figure_text(speed, fastest.value(speed.name))
        sentences.append(f"The fastest cell is {fastest.name}: {value}.")
    compared = [cell for cell in results.cells if cell.places[results.grid.compared] != 0]
    gain = best_of(compared, RATIO_FIGURE)
    if gain is not None and gain.ratio is not None:
        sentences.append(_gain(gain, gain.ratio, results))
    if disturbed := sum(cell.is_disturbed for cell in results.cells):
        sentences.append(_disturbed(disturbed, len(results.cells)))
    diverged = [cell.name for cell in results.cells if cell.has_diverged]
    if diverged:
        more = f", and {counted(len(diverged) - 1, 'more cell')}" if len(diverged) > 1 else ""
        sentences.append(f"The loss diverged in {diverged[0]}{more}, so that no speed counts there.")
    return tuple(sentences)


def _gain(cell: CellResult, ratio: float, results: Results) -> str:
    baseline = results.grid.axes[results.grid.compared].text(0)
    if ratio <= 1:
        return f"No cell is faster than the same with {baseline}."
    interval = interval_of(cell, RATIO_FIGURE)
    known = "" if interval is None else f" (95 % interval between {range_text(*interval)})"
    doubt = ", which may be no gain at all" if interval is not None and interval[0] <= 1 else ""
    fast = f"{pace_text(ratio)}{known}{doubt}"
    return f"{cell.name} gains most over {baseline}: it is {fast}."


def _states(results: Results) -> str:
    counts = Counter(cell.status for cell in results.cells)
    parts = [f"{count:,} {status}" for status, count in counts.most_common()]
    return f"{counted(len(results.cells), 'cell')}: {', '.join(parts)}."


def _disturbed(count: int, cells: int) -> str:
    of_cells = "all cells" if count == cells > 1 else counted(count, "cell")
    return (
        f"Other programs, heat or power disturbed {of_cells}, so nothing follows from the speed there. Train "
        "again on a quiet machine."
    )
