"""The run that each run is measured against, and how their figures differ."""

from __future__ import annotations

from collections.abc import Iterable

from engine.compare.figures import SPEED, Figure, count_alike
from engine.experiment.experiment import Precision
from engine.store.record import Status
from gui.runs.table.line import Line

FP32 = Precision.FP32.label


class Baselines:
    """Every run's baseline: the `chosen` one, or else the FP32 run of its own comparison, with the same
    settings and seed. Later runs change nothing: of several finished ones it is the oldest.
    """

    def __init__(self, lines: Iterable[Line] = (), chosen: Line | None = None) -> None:
        self.chosen = chosen
        self._of_pairs: dict[tuple[str, ...], Line] = {}
        for line in filter(_is_baseline, lines if chosen is None else ()):
            if (pair := line.pair_key) is not None:
                known = self._of_pairs.setdefault(pair, line)
                if line.run.number < known.run.number:
                    self._of_pairs[pair] = line

    @property
    def name(self) -> str:
        """What the baseline is called in a heading."""
        return self.chosen.run.name if self.chosen is not None else FP32

    def of(self, line: Line) -> Line | None:
        """The baseline of the run, if there is one."""
        if self.chosen is not None:
            return self.chosen
        return None if line.pair_key is None else self._of_pairs.get(line.pair_key)

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
        # the default baseline has the same settings
        if self.chosen is not None and not count_alike(figure, (line.run, baseline.run)):
            return None
        return mine / theirs if figure.has_ratio else mine - theirs

    def spoiled(self, line: Line) -> tuple[Line, ...]:
        """Those of the run and its baseline that were disturbed: their ratio means nothing."""
        baseline = self.of(line)
        lines = (line,) if baseline is None or baseline is line else (line, baseline)
        return tuple(line for line in lines if line.is_spoiled)


def _is_baseline(line: Line) -> bool:
    return line.overview.precision is Precision.FP32 and line.run.status is Status.FINISHED
