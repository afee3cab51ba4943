"""The four plots: training loss, loss scale, memory, throughput. They share a crosshair and an x range.

If no run has a loss scaler, accuracy replaces the loss scale, or, without accuracy, waiting for data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from PySide6.QtWidgets import QWidget

from engine.curves import Values
from engine.drawing.looks import By
from engine.words.names import is_validated
from engine.words.numbers import memory_text, memory_unit
from gui.charts.curves import Curve
from gui.charts.lines import Range
from gui.charts.live_plot import MOST_HEIGHT, LivePlot, PlotSpec
from gui.session.live_run import LiveRun
from gui.train import figures
from gui.widgets.boxes import grid_of

_LOSS = PlotSpec("Training loss", "", "The loss of each step on its batch", smooths=True)
_SCALE = PlotSpec(
    "Loss scale",
    "log2 axis",
    "The factor on the loss that keeps small FP16 gradients from becoming zero. It is halved when a step "
    "overflows. A mark at the bottom is a skipped step.",
    powers_of_two=True,
)
_ACCURACY = PlotSpec(
    "Validation accuracy", "%", "Correct answers on the validation samples, after each epoch", can_log=False
)
_WAITING = PlotSpec(
    "Waiting for data",
    "% of the time",
    "Share of each step's time that the device waited for a batch",
    smooths=True,
    can_log=False,
)
_MEMORY = PlotSpec("Memory", "GiB", "Memory in use after each step of the training")
_SPEED = PlotSpec(
    "Throughput",
    "img/s",
    "Samples per second in each step. The shaded warm-up steps are excluded.",
    smooths=True,
    shows_warmup=True,
)
_TWO = (0, 3)
"""The places of loss and throughput, which are shown if there is room for two plots only."""

BackgroundRuns = Sequence[tuple[LiveRun, str]]
"""Finished runs, named, that lie faintly under the others."""


class LivePlots(QWidget):
    """Two rows of two live plots that share their x axis and crosshair."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.loss, self.scale = LivePlot(_LOSS), LivePlot(_SCALE)
        self.memory, self.speed = LivePlot(_MEMORY), LivePlot(_SPEED)
        self.accuracy, self.waiting = LivePlot(_ACCURACY), LivePlot(_WAITING)
        seconds = ((plot, 0, 1) for plot in (self.scale, self.accuracy, self.waiting))
        self._places = ((self.loss, 0, 0), *seconds, (self.memory, 1, 0), (self.speed, 1, 1))
        self._second = self.scale
        self._chosen: tuple[int, int] | None = None
        self._last_chosen, self._named = _TWO, tuple[str, ...]()
        self._by: By = "step"
        self.background_runs: BackgroundRuns = ()
        """Drawn with the runs that `show_runs` shows next."""
        grid = self._grid = grid_of(self, spacing=(8, 8), grows=(0, 1))
        self.setMaximumHeight(2 * MOST_HEIGHT + grid.spacing())
        for row in range(2):
            grid.setRowStretch(row, 1)
        for plot, row, column in self._places:
            grid.addWidget(plot, row, column)
            plot.header.other_chosen.connect(lambda place, plot=plot: self._choose(plot, place))
            plot.hovered.connect(self.set_crosshair)
            plot.x_range_chosen.connect(self.set_x_range)
        self._place()

    @property
    def plots(self) -> tuple[LivePlot, ...]:
        """Return the four shown, in order."""
        return (self.loss, self._second, self.memory, self.speed)

    def set_two(self, are_two: bool) -> None:
        """Show only two of the four, each with a menu of them in place of its title."""
        if are_two != (self._chosen is not None):
            self._chosen = self._last_chosen if are_two else None
            self.setMaximumHeight(MOST_HEIGHT if are_two else 2 * MOST_HEIGHT + self._grid.spacing())
            self._place()

    def _choose(self, plot: LivePlot, place: int) -> None:
        if self._chosen is None:
            return
        mine = self.plots.index(plot)
        left, right = ({mine: place, place: mine}.get(shown, shown) for shown in self._chosen)
        self._chosen = self._last_chosen = (left, right)
        self._place()
        self.plots[place].header.others.setFocus()

    def _titles(self) -> tuple[str, ...]:
        return tuple(plot.header.title() for plot in self.plots)

    def _place(self) -> None:
        titles = self._named = self._titles() if self._chosen is not None else ()
        for plot, row, column in self._places:
            place = self.plots.index(plot) if plot in self.plots else None
            if self._chosen is not None and place in self._chosen:
                row, column = 0, self._chosen.index(place)
            self._grid.addWidget(plot, row, column)
            plot.header.offer_others(titles, place or 0)
            plot.setVisible(place is not None and (self._chosen is None or place in self._chosen))
        self._grid.setRowStretch(1, 0 if self._chosen is not None else 1)

    def set_crosshair(self, place: float | None) -> None:
        """Read all four plots at `place` in x units. None reads the latest values."""
        for plot in self.plots:
            plot.set_crosshair(place)

    def set_x_range(self, chosen: Range | None) -> None:
        """Show a range of x in all four plots. None follows the full run."""
        for plot in self.plots:
            plot.set_x_range(chosen)
            plot.refresh()

    def set_by(self, by: By) -> None:
        """Plot against steps, or against seconds since each run's first step."""
        self._by = by
        for plot, *_ in self._places:
            plot.set_crosshair(None)
            plot.set_x_range(None)
            plot.set_by(by)

    def show_runs(self, runs: Sequence[LiveRun]) -> None:
        """Pass the runs to the plots. `refresh()` draws them."""
        is_final, total = bool(runs) and all(run.is_over for run in runs), self._total(runs)
        for plot, *_ in self._places:
            plot.total = total
            plot.set_final(is_final)
        self._show_loss(runs)
        self._show_second(runs)
        self._show_memory(runs)
        self._show_speed(runs)
        if self._chosen is not None and self._titles() != self._named:
            self._place()

    def refresh(self) -> None:
        """Draw the changes."""
        for plot in self.plots:
            plot.refresh()

    def _total(self, runs: Sequence[LiveRun]) -> float | None:
        if self._by == "seconds":
            ends = [float(run.column("seconds")[-1]) for run in runs if len(run.column("seconds"))]
            return max(ends, default=None)
        totals = [run.total_steps for run in runs if run.total_steps is not None and not run.is_over]
        seen = [run.step for run in runs]
        return float(max([*totals, *seen], default=0)) or None

    def _curve(self, run: LiveRun, y: Values, *, key: str = "", **more: Any) -> Curve:
        x = run.column(self._by)
        count = min(len(x), len(y))
        cut = {name: value[:count] for name, value in more.items() if isinstance(value, np.ndarray)}
        return Curve(
            f"{run.run_id}:{self._by}:{key}",
            run.precision,
            run.label,
            x[:count],
            y[:count],
            changes=run.curves.changes,
            **{**more, **cut},
        )

    def _noisy_curve(self, run: LiveRun, name: str, *, is_rate: bool = False) -> Curve:
        return self._curve(run, run.column(name), means=run.curves.means(name), is_rate=is_rate)

    def _fill(
        self,
        plot: LivePlot,
        runs: Sequence[LiveRun],
        usual: str,
        curve_of: Callable[[LiveRun], Curve],
        alike: Callable[[LiveRun], object] | None = None,
    ) -> None:
        shown = {alike(run) for run in runs} if alike is not None else ()
        faint = [
            replace(
                curve,
                key=f"{curve.key}:background",
                name=name,
                shadow=None,
                skips=np.empty(0),
                is_background=True,
            )
            for run, name in self.background_runs
            if (alike is None or alike(run) in shown) and len((curve := curve_of(run)).x)
        ]
        plot.hint = _why_empty(runs, usual)
        plot.set_curves([*map(curve_of, runs), *faint])

    def _show_loss(self, runs: Sequence[LiveRun]) -> None:
        words = next(((run.loss_name, run.loss_unit) for run in runs if run.loss_name), ())
        self.loss.header.set_title("Training loss", ", ".join(filter(None, words)))
        self._fill(
            self.loss,
            runs,
            "The loss of each step appears here.",
            lambda run: self._noisy_curve(run, "loss"),
            lambda run: (run.loss_name, run.loss_unit),
        )

    def _show_second(self, runs: Sequence[LiveRun]) -> None:
        if not runs or any(map(figures.uses_scaler, runs)):
            plot = self.scale
            self._show_scale(runs)
        elif any(map(_may_have_accuracy, runs)):
            plot = self.accuracy
            usual = "The accuracy appears here after each epoch."
            self._fill(plot, runs, usual, self._accuracy_curve)
        else:
            plot = self.waiting
            usual = "The share of time spent waiting appears here."
            self._fill(
                plot, runs, usual, lambda run: self._curve(run, figures.waiting_percent(run), key="waiting")
            )
        if plot is not self._second:
            plot.set_crosshair(self._second.canvas.crosshair)
            plot.set_x_range(self._second.chosen)
            self._second = plot
            self._place()

    def _show_scale(self, runs: Sequence[LiveRun]) -> None:
        def curve(run: LiveRun) -> Curve:
            steps, seconds = run.skipped.values, run.column("seconds")
            rows = np.searchsorted(run.column("step"), steps)
            skips = steps if self._by == "step" else seconds[rows[rows < len(seconds)]]
            return replace(self._curve(run, run.column("grad_scale"), key="scale"), skips=skips)

        usual = "The loss scale appears here."
        self._fill(self.scale, [run for run in runs if len(run.column("grad_scale"))], usual, curve)
        self.scale.hint = _why_empty(runs, usual)

    def _accuracy_curve(self, run: LiveRun) -> Curve:
        epochs, by_step = figures.accuracies(run), self._by == "step"
        return Curve(
            f"{run.run_id}:{self._by}:accuracy",
            run.precision,
            run.label,
            np.array([float(epoch.step) if by_step else epoch.seconds for epoch in epochs]),
            np.array([100.0 * (epoch.validation_accuracy or 0.0) for epoch in epochs]),
        )

    def _show_memory(self, runs: Sequence[LiveRun]) -> None:
        columns = [run.column(figures.memory_column(run)) for run in runs]
        peaks = [float(np.nanmax(column)) for column in columns if np.isfinite(column).any()]
        unit, unit_mib = memory_unit(peaks)
        on_cpu = any(map(figures.is_on_cpu, runs))

        def curve(run: LiveRun) -> Curve:
            column, around = run.column(figures.memory_column(run)), run.column("reserved_mib")
            if not len(around) >= len(column) > 0:
                return self._curve(run, column / unit_mib, key=unit)
            return self._curve(
                run, column / unit_mib, shadow=around / unit_mib, shadow_name="reserved", key=unit
            )

        self.memory.header.set_title("Memory", unit)
        self._fill(self.memory, runs, "Memory in use appears here.", curve, figures.memory_column)
        size = max(
            (run.environment.device_memory_mib for run in runs if run.environment is not None), default=0
        )
        if size > 0:
            whose = "system memory" if on_cpu else "GPU memory"
            self.memory.set_capacity(size / unit_mib, f"{whose} {memory_text(size)}")
        else:
            self.memory.set_capacity(None)

    def _show_speed(self, runs: Sequence[LiveRun]) -> None:
        self.speed.header.set_title("Throughput", runs[0].unit if runs else "img/s")
        if self._by == "seconds":
            warm = [run.column("seconds")[: run.rows_until(run.warmup_steps)] for run in runs]
            self.speed.warmup = max((float(seconds[-1]) for seconds in warm if len(seconds)), default=None)
        else:
            self.speed.warmup = float(max((run.warmup_steps for run in runs), default=0)) or None
        self._fill(
            self.speed,
            runs,
            "Samples per second appear here.",
            lambda run: self._noisy_curve(run, "samples_per_second", is_rate=True),
            lambda run: run.unit,
        )


def _why_empty(runs: Sequence[LiveRun], usual: str) -> str:
    if not runs or not all(run.is_over for run in runs):
        return usual
    if any(len(run.column("step")) for run in runs):
        return "This was not recorded."
    ended = "the run ended before its" if len(runs) == 1 else "these runs ended before their"
    return f"No curve{'s' if len(runs) > 1 else ''}: {ended} first step."


def _may_have_accuracy(run: LiveRun) -> bool:
    is_open = not (run.epochs or run.is_over)
    validates = run.experiment is None or is_validated(run.experiment)
    return bool(figures.accuracies(run)) or (is_open and validates)
