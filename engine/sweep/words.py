"""A sweep in sentences, and as a table of its cells."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

from engine.compare.metrics import SPEED, Metric
from engine.experiment.sweep import Axis
from engine.sweep.chart import DISTURBED_MARK, MARK_WORDS, best_of, default_places, numbers_of, shown_figures
from engine.sweep.results import DEVICES, EXCHANGE, IDEAL, RATIO_FIGURE, WEAK, CellResult, CellStatus, Results
from engine.words.numbers import counted, pace_text, range_text, times

_ORDER: tuple[CellStatus, ...] = get_args(CellStatus)


@dataclass(frozen=True)
class Column:
    """A column of the table of a sweep's cells: heading, text for a cell, and the value to sort it by."""

    heading: str
    tip: str
    value: Callable[[CellResult], Any]
    text: Callable[[CellResult], str]
    is_number: bool = False


def columns_of(results: Results) -> tuple[Column, ...]:
    """Return the columns: values on the axes, metrics, the ratio with its interval, runs, and state."""
    columns = [_of_axis(place, axis) for place, axis in enumerate(results.grid.axes)]
    columns += map(_of_figure, shown_figures(results))
    columns.append(
        Column("Runs", "All runs, finished or not", lambda cell: len(cell.run_ids), _runs, is_number=True)
    )
    columns.append(Column("State", "", lambda cell: _ORDER.index(cell.status), _state))
    if any(cell.nodes for cell in results.cells):
        columns.append(Column("Node", "", _nodes, _nodes))
    if any(cell.why for cell in results.cells):
        columns.append(Column("Reason", "", lambda cell: cell.why or None, lambda cell: cell.why))
    return tuple(columns)


def _nodes(cell: CellResult) -> str:
    return ", ".join(cell.nodes)


def notes_of(results: Results) -> tuple[str, ...]:
    """Return the meaning of the marks in the columns. Empty without marks."""
    is_any = any(
        cell.is_disturbed_in(figure) and cell.value(figure) is not None
        for cell in results.cells
        for figure in shown_figures(results)
    )
    return (f"{MARK_WORDS}.",) if is_any else ()


def _of_axis(place: int, axis: Axis) -> Column:
    return Column(
        axis.title,
        "",
        lambda cell: cell.places[place],
        lambda cell: axis.text(cell.places[place]),
        is_number=numbers_of(axis) is not None,
    )


def _of_figure(figure: Metric) -> Column:
    def text(cell: CellResult) -> str:
        value = cell.value(figure)
        if value is None:
            return ""
        ends = ", ".join(map(figure.text, cell.interval(figure) or ())) if figure is RATIO_FIGURE else ""
        mark = DISTURBED_MARK if cell.is_disturbed_in(figure) else ""
        return f"{figure.text(value)}{f' [{ends}]' if ends else ''}{mark}"

    if figure is RATIO_FIGURE:
        heading, tip = "Ratio", "Throughput relative to the baseline, with its 95% interval"
    else:
        heading, tip = f"{figure.title}{f', {figure.unit}' if figure.unit else ''}", ""
    return Column(heading, tip, lambda cell: cell.value(figure), text, is_number=True)


def _runs(cell: CellResult) -> str:
    return f"{len(cell.run_ids):,}" if cell.run_ids else ""


def _state(cell: CellResult) -> str:
    return cell.status.capitalize()


def answers(results: Results) -> tuple[str, ...]:
    """Return the cells by state, the fastest and the largest gain. Disturbed measurements do not count."""
    return tuple(_answers(results))


def _answers(results: Results) -> Iterator[str]:
    cells = results.cells
    counts = Counter(cell.status for cell in cells)
    states = ", ".join(f"{count:,} {status}" for status, count in counts.most_common())
    yield f"{counted(len(cells), 'combination')}: {states}."
    speed = next((figure for figure in results.figures if figure.name == SPEED.name), None)
    if speed is not None and (fastest := best_of(cells, speed)) is not None:
        yield f"The fastest combination is {fastest.name} at {speed.text_with_unit(fastest.value(speed))}."
    compared = [cell for cell in cells if cell.places[results.grid.compared] != 0]
    gain = best_of(compared, RATIO_FIGURE)
    if gain is not None and gain.ratio is not None:
        yield _gain(gain, gain.ratio, results)
    yield from _scaling(results)
    if disturbed := sum(cell.is_disturbed for cell in cells):
        which = "all combinations" if disturbed == len(cells) > 1 else counted(disturbed, "combination")
        yield (
            f"Other programs, heat or power limits disturbed {which}. The throughput there is unreliable. "
            "Run again on a quiet machine."
        )
    diverged = [cell.name for cell in cells if cell.has_diverged]
    if diverged:
        more = f", and {counted(len(diverged) - 1, 'more combination')}" if len(diverged) > 1 else ""
        yield f"The loss diverged in {diverged[0]}{more}, so the throughput there does not count."


def _gain(cell: CellResult, ratio: float, results: Results) -> str:
    baseline, interval = results.grid.axes[results.grid.compared].text(0), cell.ratio_interval
    if ratio <= 1:
        return f"No combination is faster than with {baseline}."
    known = "" if interval is None else f" (95% interval {range_text(*interval)})"
    doubt = ", no significant difference" if interval is not None and interval[0] <= 1 else ""
    return f"The largest gain over {baseline} is {cell.name}, {pace_text(ratio)}{known}{doubt}."


def _scaling(results: Results) -> Iterator[str]:
    grid, known = results.grid, [cell for cell in results.cells if cell.conclusive(WEAK) is not None]
    if not known:
        return
    across, compared = [axis.key for axis in grid.axes].index(DEVICES), grid.compared
    usual = default_places(results, SPEED)
    fixed = [at for at in range(len(grid.axes)) if at not in (across, compared)]
    at = {
        (cell.places[across], cell.places[compared]): cell
        for cell in known
        if all(cell.places[axis] == usual[axis] for axis in fixed)
    }
    counts = {place: int(grid.axes[across].values[place] or 0) for place, _ in at}
    if len(counts) < 2:
        return
    # 0 are all that there are
    fewest, most = (end(counts, key=lambda place: counts[place] or math.inf) for end in (min, max))
    few, many = _devices(counts[fewest]), _devices(counts[most])
    cells = () if across == compared else at.values()
    names = {cell.places[compared]: grid.name(cell.places, {compared}) for cell in cells}
    # where the fewest are missing it is against more; where their loss diverged, against what is not told
    bases = {place: at.get((fewest, place if names else fewest)) for number, place in at if number == most}
    ends = [place for place, base in bases.items() if base is not None and base.value(WEAK) == IDEAL]
    if not ends:
        return
    texts = [(names.get(place, ""), WEAK.text_with_unit(at[most, place].value(WEAK))) for place in ends]
    shares = ", ".join(f"{name} {text}".strip() for name, text in texts)
    shared = grid.name(usual, [axis for axis in fixed if len(grid.axes[axis].values) > 1])
    where = f", at {shared}" if shared else ""
    yield f"Scaling efficiency on {many}, relative to {few}{where}: {shares}."
    for place, name in names.items():
        first, last = at.get((fewest, place)), at.get((most, place))
        if place and first is not None and last is not None:
            baseline = grid.name((0,) * len(grid.axes), {compared})
            yield from _gain_over_devices(name, baseline, (few, first), (many, last))
    if results.shares_cores:
        yield "These devices share the cores of one CPU. Their scaling says nothing about GPUs."


def _devices(count: int) -> str:
    return counted(count, "device") if count else "all devices"


def _gain_over_devices(
    name: str, baseline: str, few: tuple[str, CellResult], many: tuple[str, CellResult]
) -> Iterator[str]:
    (on_few, first), (on_many, last) = few, many
    before, after = first.conclusive(RATIO_FIGURE), last.conclusive(RATIO_FIGURE)
    if before is None or after is None:
        return
    intervals = first.ratio_interval, last.ratio_interval
    doubt = ""
    if intervals[0] is None or intervals[1] is None:
        doubt = " Without repeats it is unknown whether the two differ."
    elif intervals[0][0] <= intervals[1][1] and intervals[1][0] <= intervals[0][1]:
        doubt = " Their intervals overlap, so they may be the same."
    yield (
        f"{name} is {times(before)} times as fast as {baseline} on {on_few}, and {times(after)} times on "
        f"{on_many}.{doubt}"
    )
    if (share := last.value(EXCHANGE)) is not None:
        yield f"{name} on {on_many} takes {EXCHANGE.text(share)}% of a step to synchronize gradients."
