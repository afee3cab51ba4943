"""What a sweep says in sentences: how far it came, and its fastest cell."""

from __future__ import annotations

from collections import Counter

from engine.compare.figures import SPEED
from engine.sweep.pictures.picture import RATIO_FIGURE, best_of, figure_text, interval_of
from engine.sweep.results import CellResult, Results
from engine.words.numbers import counted, pace_text, range_text


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
