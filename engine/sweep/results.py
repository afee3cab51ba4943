"""A sweep as its pictures and tables show it: a result for every cell, and the figures to choose from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.compare.figures import LOSS, Figure
from engine.experiment.sweep import Grid
from engine.statistics import Interval

CellStatus = Literal["waiting", "held", "running", "piloted", "done", "stopped", "failed", "left out"]


@dataclass(frozen=True)
class CellResult:
    """A cell: its name, where it is on the grid's axes, its runs, and why it has no figures.

    `values` are by the names of the figures, over the finished runs; until there is one, those of its pilot
    (`is_piloted`). `ratio` is its speed as a multiple of the baseline cell's, with its interval where there
    are repeats. From the times of a cell that `is_disturbed` nothing follows, nor from the ratio if either
    cell is.
    """

    index: int
    places: tuple[int, ...]
    name: str
    status: CellStatus
    run_ids: tuple[str, ...] = ()
    why: str = ""
    values: Mapping[str, float] | None = None
    intervals: Mapping[str, Interval] | None = None
    ratio: float | None = None
    ratio_interval: Interval | None = None
    is_piloted: bool = False
    is_disturbed: bool = False
    is_ratio_disturbed: bool = False

    def value(self, figure: str) -> float | None:
        """The value of the figure of that name, or of "ratio"."""
        return self.ratio if figure == RATIO else (self.values or {}).get(figure)

    @property
    def has_diverged(self) -> bool:
        """Whether its loss is no finite number any more: it is best in nothing."""
        loss = self.value(LOSS.name)
        return loss is not None and not math.isfinite(loss)

    def is_disturbed_in(self, figure: Figure) -> bool:
        """Whether a disturbance changed its value of the figure; of a ratio, also the baseline cell's."""
        if figure.name == RATIO:
            return self.is_ratio_disturbed
        return self.is_disturbed and figure.is_of_time

    def can_be_best(self, figure: Figure) -> bool:
        """Whether its value of the figure, if any, is that of undisturbed runs that did not diverge."""
        return not (self.is_piloted or self.has_diverged or self.is_disturbed_in(figure))


RATIO = "ratio"


@dataclass(frozen=True)
class Results:
    """The cells in the grid's order, and the figures that any of them has, the speed first."""

    grid: Grid
    cells: tuple[CellResult, ...]
    figures: tuple[Figure, ...]
