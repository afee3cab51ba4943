"""The four plots: training loss, grad scale, memory, throughput; they share a crosshair and an x range.

If no run has a loss scaler, validation accuracy takes the place of the grad scale, or, without an accuracy,
waiting for data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from PySide6.QtWidgets import QGridLayout, QWidget

from engine.curves import Values
from engine.drawing.looks import By
from engine.experiment.value import MIB_PER_GIB
from engine.words.names import is_validated
from engine.words.numbers import memory_text, memory_unit
from gui.charts.curves import Curve
from gui.charts.live_plot import MOST_HEIGHT, LivePlot, PlotSpec
from gui.session.live_run import LiveRun
from gui.train import figures as figures
from gui.train.gauges import waiting_percent

_LOSS = PlotSpec("Training loss", "", "The loss of each step on its own batch", smooths=True)
_SCALE = PlotSpec(
    "Grad scale",
    "log2 axis",
    "The loss is multiplied by this so that small FP16 gradients do not become zero; halved when a step "
    "overflows. A tick at the bottom marks a skipped step",
    powers_of_two=True,
)
_ACCURACY = PlotSpec(
    "Validation accuracy", "%", "Correct answers on the validation samples, after each epoch", can_log=False
)
_WAITING = PlotSpec(
    "Waiting for data",
    "% of the time",
    "The share of each step's time that the device waited for a batch",
    smooths=True,
    can_log=False,
)
_MEMORY = PlotSpec("Memory", "GiB", "Memory that training takes, step by step")
_ABOUT_SPEED = "Samples per second in each step; the shaded steps are warm-up, which is not counted"
_SPEED = PlotSpec("Throughput", "img/s", _ABOUT_SPEED, smooths=True, shows_warmup=True)


_TWO = (0, 3)
"""The places of loss and throughput, which stay where there is room for two plots."""


class LivePlots(QWidget):
    """Two by two plots that share their x axis."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.loss, self.scale = LivePlot(_LOSS), LivePlot(_SCALE)
        self.memory, self.speed = LivePlot(_MEMORY), LivePlot(_SPEED)
        self.accuracy, self.waiting = LivePlot(_ACCURACY), LivePlot(_WAITING)
        self._second = self.scale
        self._chosen: tuple[int, int] | None = None
        self._last_chosen, self._named = _TWO, tuple[str, ...]()
        self._by: By = "step"
        self._unit_mib = MIB_PER_GIB
        self._beneath: tuple[tuple[LiveRun, str], ...] = ()
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(8)
        self.setMaximumHeight(2 * MOST_HEIGHT + grid.spacing())
        for number in range(2):
            grid.setRowStretch(number, 1)
            grid.setColumnStretch(number, 1)
        self._grid = grid
        for plot, row, column in self._grid_places():
            grid.addWidget(plot, row, column)
            plot.header.other_chosen.connect(lambda place, plot=plot: self._choose(plot, place))
            plot.hovered.connect(self.set_crosshair)
            plot.x_range_chosen.connect(self.set_x_range)
        self._place()

    @property
    def plots(self) -> tuple[LivePlot, ...]:
        """The four shown, in order."""
        return (self.loss, self._second, self.memory, self.speed)

    def set_two(self, are_two: bool) -> None:
        """Shows only two of the four, each with a menu of them in place of its title."""
        if are_two != (self._chosen is not None):
            self._chosen = self._last_chosen if are_two else None
            self.setMaximumHeight(MOST_HEIGHT if are_two else 2 * MOST_HEIGHT + self._grid.spacing())
            self._place()

    def _choose(self, plot: LivePlot, place: int) -> None:
        """Shows another plot in the place of this one; one that is shown already changes places with it."""
        if self._chosen is None:
            return
        mine = self.plots.index(plot)
        left, right = ({mine: place, place: mine}.get(one, one) for one in self._chosen)
        self._chosen = self._last_chosen = (left, right)
        self._place()
        self.plots[place].header.others.setFocus()

    def _titles(self) -> tuple[str, ...]:
        return tuple(plot.header.title() for plot in self.plots)

    def _place(self) -> None:
        """Puts each plot where it is shown, and hides the others."""
        places = self._grid_places()
        titles = self._named = self._titles() if self._chosen is not None else ()
        for plot, row, column in places:
            place = self.plots.index(plot) if plot in self.plots else None
            if self._chosen is not None and place in self._chosen:
                row, column = 0, self._chosen.index(place)
            self._grid.addWidget(plot, row, column)
            is_shown = place is not None and (self._chosen is None or place in self._chosen)
            plot.header.offer_others(titles, place or 0)
            plot.setVisible(is_shown)
        self._grid.setRowStretch(1, 0 if self._chosen is not None else 1)

    def _grid_places(self) -> tuple[tuple[LivePlot, int, int], ...]:
        seconds = tuple((plot, 0, 1) for plot in (self.scale, self.accuracy, self.waiting))
        return ((self.loss, 0, 0), *seconds, (self.memory, 1, 0), (self.speed, 1, 1))

    def set_crosshair(self, place: float | None) -> None:
        """Reads all four plots at `place` in x units; None reads the latest values."""
        for plot in self.plots:
            plot.set_crosshair(place)

    def set_x_range(self, chosen: tuple[float, float] | None) -> None:
        """Shows a range of x in all four plots; None follows the whole run."""
        for plot in self.plots:
            plot.set_x_range(chosen)
            plot.refresh()

    def set_by(self, by: By) -> None:
        """Plots against steps, or against seconds since each run's first step."""
        self._by = by
        for plot, *_ in self._grid_places():
            plot.set_crosshair(None)
            plot.set_x_range(None)
            plot.set_by(by)

    def set_beneath(self, runs: Sequence[tuple[LiveRun, str]]) -> None:
        """Draws finished runs, named, faintly under those that `show_runs` shows next."""
        self._beneath = tuple(runs)

    def show_runs(self, runs: Sequence[LiveRun]) -> None:
        """Hands the runs' buffers to the plots; `refresh()` draws them."""
        is_final = bool(runs) and all(run.is_over for run in runs)
        for plot, *_ in self._grid_places():
            plot.set_final(is_final)
        self._show_loss(runs)
        self._show_second(runs)
        self._show_memory(runs)
        self._show_speed(runs)
        if self._chosen is not None and self._titles() != self._named:
            self._place()
        total = self._total(runs)
        for plot in self.plots:
            plot.set_total(total)

    def refresh(self) -> None:
        """Draws what changed."""
        for plot in self.plots:
            plot.refresh()

    def _total(self, runs: Sequence[LiveRun]) -> float | None:
        if self._by == "seconds":
            ends = [float(run.column("seconds")[-1]) for run in runs if len(run.column("seconds"))]
            return max(ends, default=None)
        totals = [run.total_steps for run in runs if run.total_steps is not None and not run.is_over]
        seen = [run.step for run in runs]
        return float(max([*totals, *seen], default=0)) or None

    def _curve(
        self,
        run: LiveRun,
        y: Values,
        *,
        means: Values | None = None,
        shadow: Values | None = None,
        key: str = "",
    ) -> Curve:
        x = run.column(self._by)
        count = min(len(x), len(y))
        skips = self._places(run) if key == "scale" else np.empty(0)
        return Curve(
            key=f"{run.run_id}:{self._by}:{key}",
            precision=run.precision,
            colour=run.colour,
            name=run.label,
            x=x[:count],
            y=y[:count],
            means=None if means is None else means[:count],
            changes=run.curves.changes,
            shadow=shadow[:count] if shadow is not None else None,
            shadow_name="reserved" if shadow is not None else "",
            skips=skips,
        )

    def _noisy_curve(self, run: LiveRun, name: str) -> Curve:
        return self._curve(run, run.column(name), means=run.curves.means(name))

    def _fill(
        self,
        plot: LivePlot,
        runs: Sequence[LiveRun],
        beneath: Sequence[tuple[LiveRun, str]],
        curve_of: Callable[[LiveRun], Curve],
    ) -> None:
        faint = [
            replace(
                curve,
                key=f"{curve.key}:beneath",
                name=name,
                shadow=None,
                skips=np.empty(0),
                is_beneath=True,
            )
            for curve, name in ((curve_of(run), name) for run, name in beneath)
            if len(curve.x)
        ]
        plot.set_curves([*map(curve_of, runs), *faint])

    def _like(
        self, runs: Sequence[LiveRun], quantity: Callable[[LiveRun], object]
    ) -> Sequence[tuple[LiveRun, str]]:
        """The runs beneath whose values are of the same quantity as those of `runs`."""
        shown = {quantity(run) for run in runs}
        return [(run, name) for run, name in self._beneath if quantity(run) in shown]

    def _places(self, run: LiveRun) -> Values:
        """The run's skipped steps, in x units."""
        steps, seconds = run.skipped.values, run.column("seconds")
        if self._by == "step":
            return steps
        rows = np.searchsorted(run.column("step"), steps)
        return seconds[rows[rows < len(seconds)]]

    def _show_loss(self, runs: Sequence[LiveRun]) -> None:
        words = next(((run.loss_name, run.loss_unit) for run in runs if run.loss_name), ())
        self.loss.set_title("Training loss", ", ".join(filter(None, words)))
        alike = self._like(runs, lambda run: (run.loss_name, run.loss_unit))
        self._fill(self.loss, runs, alike, lambda run: self._noisy_curve(run, "loss"))
        self.loss.set_hint(_why_empty(runs, "The loss of each step appears here."))

    def _show_second(self, runs: Sequence[LiveRun]) -> None:
        """Shows the second plot: grad scale, accuracy, or waiting for data."""
        if not runs or any(map(figures.uses_scaler, runs)):
            plot, show = self.scale, self._show_scale
        elif any(map(_may_have_accuracy, runs)):
            plot, show = self.accuracy, self._show_accuracy
        else:
            plot, show = self.waiting, self._show_waiting
        show(runs)
        if plot is not self._second:
            plot.set_crosshair(self._second.canvas.crosshair())
            plot.set_x_range(self._second.chosen_x_range)
            self._second = plot
            self._place()

    def _show_scale(self, runs: Sequence[LiveRun]) -> None:
        using = [run for run in runs if len(run.column("grad_scale"))]
        beneath = [(run, name) for run, name in self._beneath if len(run.column("grad_scale"))]
        self._fill(
            self.scale, using, beneath, lambda run: self._curve(run, run.column("grad_scale"), key="scale")
        )
        self.scale.set_hint(_why_empty(runs, "The grad scale appears here."))

    def _show_accuracy(self, runs: Sequence[LiveRun]) -> None:
        self._fill(self.accuracy, runs, self._beneath, self._accuracy_curve)
        self.accuracy.set_hint(_why_empty(runs, "The accuracy appears here after each epoch."))

    def _accuracy_curve(self, run: LiveRun) -> Curve:
        epochs = figures.accuracies(run)
        by_step = self._by == "step"
        return Curve(
            key=f"{run.run_id}:{self._by}:accuracy",
            precision=run.precision,
            colour=run.colour,
            name=run.label,
            x=np.array([float(epoch.step) if by_step else epoch.seconds for epoch in epochs]),
            y=np.array([100.0 * (epoch.validation_accuracy or 0.0) for epoch in epochs]),
        )

    def _show_waiting(self, runs: Sequence[LiveRun]) -> None:
        self._fill(
            self.waiting,
            runs,
            self._beneath,
            lambda run: self._curve(run, waiting_percent(run), key="waiting"),
        )
        self.waiting.set_hint(_why_empty(runs, "The share of time spent waiting appears here."))

    def _show_memory(self, runs: Sequence[LiveRun]) -> None:
        columns = [run.column(figures.memory_column(run)) for run in runs]
        peaks = [float(np.nanmax(column)) for column in columns if np.isfinite(column).any()]
        unit, self._unit_mib = memory_unit(peaks)
        on_cpu = any(figures.is_on_cpu(run) for run in runs)
        self.memory.set_title("Memory" if on_cpu or not peaks else "VRAM", unit)
        self.memory.set_hint(_why_empty(runs, "Memory in use appears here."))
        alike = self._like(runs, figures.memory_column)
        self._fill(self.memory, runs, alike, lambda run: self._memory_curve(run, unit))
        self._show_capacity(runs, unit, on_cpu)

    def _memory_curve(self, run: LiveRun, unit: str) -> Curve:
        column, around = run.column(figures.memory_column(run)), run.column("reserved_mib")
        shadow = around / self._unit_mib if len(around) >= len(column) > 0 else None
        return self._curve(run, column / self._unit_mib, shadow=shadow, key=unit)

    def _show_capacity(self, runs: Sequence[LiveRun], unit: str, on_cpu: bool) -> None:
        sizes = [run.environment.device_memory_mib for run in runs if run.environment is not None]
        if not sizes or max(sizes) <= 0:
            self.memory.set_capacity(None)
            return
        whose = "machine's memory" if on_cpu else "card capacity"
        self.memory.set_capacity(max(sizes) / self._unit_mib, f"{whose} {memory_text(max(sizes))}")

    def _show_speed(self, runs: Sequence[LiveRun]) -> None:
        self.speed.set_title("Throughput", runs[0].unit if runs else "img/s")
        alike = self._like(runs, lambda run: run.unit)
        self._fill(
            self.speed,
            runs,
            alike,
            lambda run: replace(self._noisy_curve(run, "samples_per_second"), is_rate=True),
        )
        self.speed.set_hint(_why_empty(runs, "Samples per second appear here."))
        if self._by == "seconds":
            warm = [run.column("seconds")[: run.rows_until(run.warmup_steps)] for run in runs]
            self.speed.set_warmup(max((float(seconds[-1]) for seconds in warm if len(seconds)), default=None))
            return
        self.speed.set_warmup(float(max((run.warmup_steps for run in runs), default=0)) or None)


def _why_empty(runs: Sequence[LiveRun], usual: str) -> str:
    """What an empty plot says: what will appear, or why nothing will."""
    if not runs or not all(run.is_over for run in runs):
        return usual
    if any(len(run.column("step")) for run in runs):
        return "This was not recorded."
    return "No curve: the run ended before its first step." if len(runs) == 1 else _NO_STEPS


def _may_have_accuracy(run: LiveRun) -> bool:
    """Whether the run has an accuracy, or may have one after its first epoch."""
    is_open = not (run.epochs or run.is_over)
    return bool(figures.accuracies(run)) or (
        is_open and (run.experiment is None or is_validated(run.experiment))
    )


_NO_STEPS = "No curves: these runs ended before their first step."
