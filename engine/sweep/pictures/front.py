"""The Pareto front: the cells that no other cell beats in every figure."""

from __future__ import annotations

from collections.abc import Sequence

from engine.compare.figures import Figure
from engine.sweep.pictures.picture import conclusive, is_higher_better
from engine.sweep.results import CellResult


def pareto_front(cells: Sequence[CellResult], figures: Sequence[Figure]) -> tuple[CellResult, ...]:
    """The cells of which no other is as good in all of these figures and better in some.

    They are in the order of the first figure. Cells without a conclusive value of each do not count.
    """
    signs = [1.0 if is_higher_better(figure) else -1.0 for figure in figures]
    known = []
    for cell in cells:
        values = [conclusive(cell, figure) for figure in figures]
        if all(value is not None for value in values):
            score = tuple(sign * (value or 0.0) for sign, value in zip(signs, values, strict=True))
            known.append((score, cell))
    # after the best, a cell can only be beaten by those before it
    known.sort(key=lambda entry: entry[0], reverse=True)
    front: list[tuple[tuple[float, ...], CellResult]] = []
    for score, cell in known:
        if not any(_beats(other, score) for other, _ in front):
            front.append((score, cell))
    return tuple(cell for _, cell in sorted(front, key=lambda entry: signs[0] * entry[0][0]))


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(mine >= theirs for mine, theirs in zip(one, other, strict=True))
