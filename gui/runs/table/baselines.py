"""The run that each run is measured against, and how their figures differ."""

from __future__ import annotations

from collections.abc import Iterable

from engine.compare.figures import SPEED, Figure, count_alike
from engine.store.record import Status
from gui.runs.table.line import Line


class Baselines:
    """Every run's baseline: the `chosen` one, or else the first finished run of its own comparison.

    With repeats it is the run of that first run's side with the same seed. Later runs change nothing.
    """

    def __init__(self, lines: Iterable[Line] = (), chosen: Line | None = None) -> None:
        self.chosen = chosen
        self._firsts: dict[str, Line] = {}
        self._of_seeds: dict[tuple[str, int], Line] = {}
        # in the order of their numbers
        finished = sorted(
            (line for line in lines if line.run.comparison and line.run.status is Status.FINISHED),
            key=lambda line: line.run.number,
        )
        for line in finished if chosen is None else ():
            comparison = line.run.comparison or ""
            first = self._firsts.setdefault(comparison, line)
            if first.side == line.side:
                self._of_seeds.setdefault((comparison, line.overview.seed), line)

    @property
    def name(self) -> str:
        """What the baseline is called in a heading."""
        return self.chosen.run.name if self.chosen is not None else "first"

    def of(self, line: Line) -> Line | None:
        """The baseline of the run, if there is one."""
        if self.chosen is not None:
            return self.chosen
        comparison = line.run.comparison or ""
        return self._of_seeds.get((comparison, line.overview.seed)) or self._firsts.get(comparison)

    def ratio(self, line: Line) -> float | None:
        """The run's speed as a multiple of its baseline's; None if either is missing."""
        return self.change(line, SPEED)

    def change(self, line: Line, figure: Figure) -> float | None:
        """The ratio of the run's figure to its baseline's, or the difference of a figure that has no ratio.

        None if either is missing, or if they count different things.
        """
        baseline = self.of(line)
        mine = line.figure(figure)
        theirs = None if baseline is None or mine is None else baseline.figure(figure)
        if mine is None or theirs is None or baseline is None or (figure.has_ratio and not theirs):
            return None
        # the settings of thousands are not parsed to learn that they are the same
        is_alike = line.run.settings_but_precision == baseline.run.settings_but_precision
        if not is_alike and not count_alike(figure, (line.run, baseline.run)):
            return None
        return mine / theirs if figure.has_ratio else mine - theirs

    def spoiled(self, line: Line) -> tuple[Line, ...]:
        """Those of the run and its baseline that were disturbed: their ratio means nothing."""
        baseline = self.of(line)
        lines = (line,) if baseline is None or baseline is line else (line, baseline)
        return tuple(line for line in lines if line.is_spoiled)
