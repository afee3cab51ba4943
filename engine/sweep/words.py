"""A sweep in sentences: the answer, the clauses below it, and its gains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.compare.metrics import PEAK_MEMORY, SPEED, Metric
from engine.compare.verdict import Piece, Pieces
from engine.experiment.experiment import Precision
from engine.experiment.sweep import Grid, Plan
from engine.sweep.chart import best_of, default_places, memory_words, numbers_of
from engine.sweep.results import DEVICES, EXCHANGE, IDEAL, RATIO_FIGURE, WEAK, CellResult, Results
from engine.sweep.scatter import pareto_front
from engine.words.numbers import counted, pace_text, range_text, times

_NEARLY = 0.85
"""The share of the best throughput from which little is gained."""
_MOST_NAMES = 5
_FINAL = ("done", "failed", "excluded")


def finished_count(results: Results) -> int:
    """Return the number of combinations that are done, have failed, or are excluded."""
    return sum(cell.status in _FINAL for cell in results.cells)


def pieces_of(results: Results) -> Pieces:
    """Return the answer as a sentence: the fastest combination and its gain over the fastest baseline.

    Disturbed, diverged and estimated values are excluded.
    """
    speed = next((figure for figure in results.figures if figure.name == SPEED.name), SPEED)
    best = best_of(results.cells, speed)
    if best is None:
        return (Piece(_why_none(results, speed)),)
    look = _precision_of(results.grid, best.places)
    so_far = " so far" if finished_count(results) < len(results.cells) else ""
    pieces = [
        Piece(_compared_value(results.grid, best), "title", precision=look),
        Piece(f"{_other_values(results.grid, best)} is the fastest{so_far}: "),
        Piece(speed.text_with_unit(best.finite(speed)), "strong", precision=look),
        *_gain_pieces(results, best, speed),
    ]
    first = replace(pieces[0], text=pieces[0].text[:1].upper() + pieces[0].text[1:])
    return (first, *pieces[1:])


def best_ratio(results: Results) -> float | None:
    """Return the best throughput over the best of the baseline, which may itself be the best."""
    best = best_of(results.cells, SPEED)
    compared = results.grid.compared
    base = best_of([cell for cell in results.cells if cell.places[compared] == 0], SPEED)
    if best is None or base is None:
        return None
    return (best.finite(SPEED) or 0.0) / (base.finite(SPEED) or 1.0)


def _gain_pieces(results: Results, best: CellResult, speed: Metric) -> Iterator[Piece]:
    grid, compared = results.grid, results.grid.compared
    is_baseline = best.places[compared] == 0
    rival = best_of([cell for cell in results.cells if (cell.places[compared] == 0) != is_baseline], speed)
    if rival is None:
        return
    value, look = rival.finite(speed) or 1.0, _precision_of(grid, rival.places)
    has_others = any(len(axis.values) > 1 for place, axis in enumerate(grid.axes) if place != compared)
    yield Piece(", ")
    yield Piece(f"{times((best.finite(speed) or 0.0) / value)} times", "strong")
    yield Piece(" the best of " if has_others else " ")
    yield Piece(_compared_value(grid, rival), "title", precision=look)
    yield Piece(", which is ")
    yield Piece(speed.text(value), "strong", precision=look)
    yield Piece(_other_values(grid, rival))


def _compared_value(grid: Grid, cell: CellResult) -> str:
    """Return the value on the compared axis: "BF16 AMP"."""
    return _value_words(grid, grid.compared, cell)


def _other_values(grid: Grid, cell: CellResult) -> str:
    """Return the values on the other axes: " at batch 64, learning rate 0.01"."""
    others = [
        _value_words(grid, place, cell)
        for place, axis in enumerate(grid.axes)
        if place != grid.compared and len(axis.values) > 1
    ]
    return f" at {', '.join(others)}" if others else ""


def _value_words(grid: Grid, place: int, cell: CellResult) -> str:
    axis = grid.axes[place]
    is_batch = axis.key == "batch_size"
    return f"batch {axis.text(cell.places[place])}" if is_batch else grid.name(cell.places, {place})


def _precision_of(grid: Grid, places: Sequence[int]) -> Precision | None:
    known = [
        axis.values[place] for axis, place in zip(grid.axes, places, strict=True) if axis.key == "precision"
    ]
    return Precision(str(known[0])) if known else None


def _why_none(results: Results, speed: Metric) -> str:
    measured = [cell for cell in results.cells if cell.finite(speed) is not None and not cell.is_piloted]
    if any(cell.is_disturbed for cell in measured):
        all_words = "all combinations" if len(measured) > 1 else "the combination"
        return f"No throughput is reliable: other programs, heat or power limits disturbed {all_words}"
    if measured:
        return "The loss diverged in all combinations, so no throughput counts"
    if finished_count(results) < len(results.cells):
        return "No combination has finished yet"
    if all(cell.does_not_fit for cell in results.cells):
        return f"No combination fits {memory_words(results)}"
    if any(cell.status == "done" for cell in results.cells):
        return "No throughput was measured: the runs have too few steps"
    return "No combination could be trained"


def notes_of(results: Results) -> tuple[str, ...]:
    """Return the clauses below the answer: progress, where the gain ends, and what is not ranked and why."""
    return tuple(_notes(results))


def _notes(results: Results) -> Iterator[str]:
    cells, finished = results.cells, finished_count(results)
    if finished < len(cells):
        yield f"{finished:,} of {counted(len(cells), 'combination')} finished"
    yield from _saturation(results)
    unfit = [cell for cell in cells if cell.does_not_fit]
    if unfit:
        does = "does" if len(unfit) == 1 else "do"
        yield f"{len(unfit):,} of {len(cells):,} {does} not fit {memory_words(results)}"
    disturbed = [cell for cell in cells if cell.is_disturbed]
    if disturbed and len(disturbed) < len(cells):
        one = len(disturbed) == 1
        was, is_now = ("was", "is") if one else ("were", "are")
        yield f"{len(disturbed):,} {was} disturbed and {is_now} not ranked"
    elif disturbed:
        yield "Run again on a quiet machine"
    diverged = [cell.name for cell in cells if cell.has_diverged]
    if diverged:
        more = f" and {counted(len(diverged) - 1, 'more combination')}" if len(diverged) > 1 else ""
        yield f"The loss diverged in {diverged[0]}{more}"
    for status in ("failed", "excluded", "paused", "stopped"):
        others = sum(cell.status == status and not cell.does_not_fit for cell in cells)
        if others:
            yield f"{others:,} {status}"


def _saturation(results: Results) -> Iterator[str]:
    """Yield the batch above which little is gained, if it is at most half of the best one."""
    grid = results.grid
    batches = next((place for place, axis in enumerate(grid.axes) if axis.key == "batch_size"), None)
    best = best_of(results.cells, SPEED)
    if batches is None or best is None:
        return
    values = numbers_of(grid.axes[batches])
    most = best.finite(SPEED) or 1.0
    for cell in sorted(results.cells, key=lambda cell: cell.places[batches]):
        same = all(
            mine == theirs
            for place, (mine, theirs) in enumerate(zip(cell.places, best.places, strict=True))
            if place != batches
        )
        speed = cell.conclusive(SPEED)
        if values is None or not same or speed is None:
            continue
        if speed >= _NEARLY * most and 2 * values[cell.places[batches]] <= values[best.places[batches]]:
            share = f"{100 * speed / most:.0f}%"
            batch = _value_words(grid, batches, cell)
            yield f"Above {batch} little is gained: {SPEED.text(speed)} is {share} of the best"
            return


def not_reached(plan: Plan, results: Results) -> Iterator[str]:
    """Yield a clause with the cells whose ratios are less certain than requested, if any."""
    wanted = plan.precision_percent or math.inf
    names = [
        f"“{cell.name}”"
        for cell in results.cells
        if cell.ratio is not None and cell.ratio_interval is not None
        if max(abs(end - cell.ratio) for end in cell.ratio_interval) > cell.ratio * wanted / 100
    ]
    if names:
        more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
        yield f"Not within {wanted:g}%: {', '.join(names[:_MOST_NAMES])}{more}"


def memory_sentences(results: Results) -> Iterator[str]:
    """Yield a sentence for each combination on the Pareto front of memory and speed, if it has several."""
    speed = next((figure for figure in results.figures if figure.name == SPEED.name), SPEED)
    front = pareto_front(results.cells, (PEAK_MEMORY, speed))
    places = list(zip(*(cell.places for cell in front), strict=True))
    differing = [axis for axis, of_axis in enumerate(places) if len(set(of_axis)) > 1]
    for cell in front if differing else ():
        memory, name = (
            PEAK_MEMORY.text_with_unit(cell.value(PEAK_MEMORY)),
            results.grid.name(cell.places, differing),
        )
        share = (cell.finite(speed) or 0.0) / (front[-1].finite(speed) or 1.0)
        rest = "" if cell is front[-1] else f", {100 * share:.0f}% of the maximum"
        yield f"With {memory}, the fastest is {name}: {speed.text_with_unit(cell.value(speed))}{rest}."


def sentences_of(results: Results) -> tuple[str, ...]:
    """Return the largest gain at the same settings, and how the throughput scales over devices."""
    compared = [cell for cell in results.cells if cell.places[results.grid.compared] != 0]
    gain = best_of(compared, RATIO_FIGURE)
    known = () if gain is None or gain.ratio is None else (_gain_sentence(gain, gain.ratio, results),)
    return (*known, *_scaling(results))


def _gain_sentence(cell: CellResult, ratio: float, results: Results) -> str:
    baseline, interval = results.grid.axes[results.grid.compared].text(0), cell.ratio_interval
    if ratio <= 1:
        return f"No combination is faster than with {baseline}."
    known = "" if interval is None else f" (95% interval {range_text(*interval)})"
    doubt = ", no significant difference" if interval is not None and interval[0] <= 1 else ""
    gain = f"{cell.name}, {pace_text(ratio)}{known}{doubt}"
    return f"The largest gain over {baseline} at the same settings is {gain}."


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
