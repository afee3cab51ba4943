"""The four plots: training loss, throughput, memory, and a fourth to choose. They share a crosshair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from PySide6.QtWidgets import QWidget

from engine.compare.metrics import ACCURACY, DATA_WAIT, SPEED
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
    ACCURACY.title,
    ACCURACY.unit,
    "Correct answers on the validation samples, after each epoch",
    can_log=False,
)
_WAITING = PlotSpec(
    DATA_WAIT.title,
    DATA_WAIT.unit,
    "Share of each step's time that the device waited for a batch",
    smooths=True,
    can_log=False,
)
_RATE = PlotSpec("Learning rate", "", "Learning rate at each step of the optimizer that steps first")
_MEMORY = PlotSpec("Memory", "GiB", "Memory in use after each step of the training")
_SPEED = PlotSpec(
    SPEED.title,
    "img/s",
    "Samples per second in each step. The shaded warm-up steps are excluded.",
    smooths=True,
    shows_warmup=True,
)
_MOST_IN_A_ROW = 300
"""The height of plots below a race, which needs the rest."""

BackgroundRuns = Sequence[tuple[LiveRun, str]]
"""Finished runs, named, that lie faintly under the others."""


class LivePlots(QWidget):
    """Live plots of loss, throughput, memory and a fourth quantity that share their x axis and crosshair.

    The title of the fourth is a menu: loss scale if a scaler runs, accuracy, waiting for data, of scripts the
    learning rate. Below a race they are in a row, otherwise in two. In a small window there are two, with a
    menu of all.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        specs = (_LOSS, _SPEED, _MEMORY, _SCALE, _ACCURACY, _WAITING, _RATE)
        self._all = tuple(LivePlot(spec, self) for spec in specs)
        self.loss, self.speed, self.memory, self.scale, self.accuracy, self.waiting, self.rate = self._all
        self._fourths: tuple[LivePlot, ...] = (self.scale,)
        self._fourth, self._wanted = self.scale, tuple[LivePlot, ...]()
        self._two = [self.loss, self.speed]
        self._are_two = self._in_a_row = self._has_news = False
        self._by: By = "step"
        self._runs: Sequence[LiveRun] = ()
        self._alike: frozenset[str] = frozenset()
        self.background_runs: BackgroundRuns = ()
        """Drawn with the runs that `show_runs` shows next."""
        self._grid = grid_of(self, spacing=(8, 8))
        for plot in self._all:
            plot.header.set_plain()
            plot.header.other_chosen.connect(lambda place, plot=plot: self._choose(plot, place))
            plot.hovered.connect(self.set_crosshair)
            plot.x_range_chosen.connect(self.set_x_range)
        self._place()

    @property
    def plots(self) -> tuple[LivePlot, ...]:
        """Return the four, in order."""
        return (self.loss, self.speed, self.memory, self._fourth)

    def set_shape(self, *, are_two: bool, in_a_row: bool) -> None:
        """Show two plots only, or all four in a row or in two rows."""
        if (are_two, in_a_row) != (self._are_two, self._in_a_row):
            self._are_two, self._in_a_row = are_two, in_a_row
            self._place()

    def set_log(self, is_log: bool) -> None:
        """Use logarithmic axes where that is possible."""
        for plot in self._all:
            plot.header.log.setChecked(is_log and plot.spec.can_log)

    def _offered(self, plot: LivePlot) -> tuple[LivePlot, ...]:
        if self._are_two:
            return (self.loss, self.speed, self.memory, *self._fourths)
        return self._fourths if plot is self._fourth and len(self._fourths) > 1 else ()

    def _choose(self, plot: LivePlot, place: int) -> None:
        offered = self._offered(plot)
        if place >= len(offered):
            return
        chosen = offered[place]
        if chosen in self._fourths:
            self._wanted, self._fourth = (chosen,), chosen
        if self._are_two and plot in self._two:
            self._two = [{plot: chosen, chosen: plot}.get(shown, shown) for shown in self._two]
        self._place()
        chosen.header.others.setFocus()

    def _place(self) -> None:
        shown = tuple(self._two) if self._are_two else self.plots
        columns = len(shown) if self._in_a_row or self._are_two else 2
        for plot in self._all:
            self._grid.removeWidget(plot)
            plot.setVisible(plot in shown)
        for place, plot in enumerate(shown):
            self._grid.addWidget(plot, place // columns, place % columns)
            offered = self._offered(plot)
            titles = [other.header.title() for other in offered]
            plot.header.offer_others(titles, offered.index(plot) if plot in offered else 0)
        for column in range(len(self._all)):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
        rows = -(-len(shown) // columns)
        self._grid.setRowStretch(1, rows - 1)
        self._grid.setRowStretch(0, 1)
        most = _MOST_IN_A_ROW if self._in_a_row and not self._are_two else MOST_HEIGHT
        self.setMaximumHeight(rows * most + (rows - 1) * self._grid.spacing())

    def set_crosshair(self, place: float | None) -> None:
        """Read all four plots at `place` in x units. None reads the latest values."""
        for plot in self._all:
            plot.set_crosshair(place)

    def set_x_range(self, chosen: Range | None) -> None:
        """Show a range of x in all four plots. None follows the full run."""
        for plot in self._all:
            plot.set_x_range(chosen)
        self.refresh()

    def set_by(self, by: By) -> None:
        """Plot against steps, or against seconds since each run's first step."""
        self._by = by
        for plot in self._all:
            plot.set_crosshair(None)
            plot.set_x_range(None)
            plot.set_by(by)

    def show_runs(self, runs: Sequence[LiveRun], alike: frozenset[str] = frozenset()) -> None:
        """Pass the runs to the plots. `refresh()` draws them.

        `alike` names the metrics that differ no more than repeats do.
        """
        self._runs, self._alike, self._has_news = runs, alike, True
        is_final, total = bool(runs) and all(run.is_over for run in runs), self._total(runs)
        for plot in self._all:
            plot.total = total
            plot.set_final(is_final)
        self._show_loss(runs)
        self._show_speed(runs)
        self._show_memory(runs)
        self._show_fourth(runs)

    def refresh(self) -> None:
        """Draw new data, and update the comparison next to the titles."""
        for plot in self.plots:
            plot.refresh()
        # some are read from the curves as drawn
        if self._has_news:
            self._has_news = False
            self._show_notes()

    def _show_notes(self) -> None:
        runs = self._runs
        for plot, note in (
            (self.loss, self._loss_note()),
            (self.accuracy, figures.accuracy_note(runs, self._alike)),
            (self.speed, figures.speed_note(runs)),
            (self.memory, figures.memory_note(runs)),
            (self.scale, figures.skipped_note(runs)),
        ):
            plot.header.set_note(*note)

    def _loss_note(self) -> figures.Note:
        runs, step = self._runs, figures.common_step(self._runs)
        if step is None or not figures.are_all_alike(runs):
            return figures.loss_note(runs, self._alike)
        ahead = max(runs, key=lambda run: run.step)
        x = ahead.column(self._by)[: ahead.rows_until(step)]
        value = self.loss.value_at(ahead.label, float(x[-1])) if len(x) else None
        return figures.same_step_note(ahead, step, value)

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
        # of many sides, those that have not started have no room in the legend
        started = [run for run in runs if run.status != "queued"] if len(runs) > 2 else runs
        plot.set_curves([*map(curve_of, started), *faint])

    def _show_loss(self, runs: Sequence[LiveRun]) -> None:
        words = next(((run.loss_name, run.loss_unit) for run in runs if run.loss_name), ())
        self.loss.header.set_title("Training loss", ", ".join(filter(None, words)), *words[1:])
        self._fill(
            self.loss,
            runs,
            "The loss of each step appears here.",
            lambda run: self._noisy_curve(run, "loss"),
            lambda run: (run.loss_name, run.loss_unit),
        )

    def _show_fourth(self, runs: Sequence[LiveRun]) -> None:
        fourths = []
        if not runs or any(map(figures.uses_scaler, runs)):
            fourths.append(self.scale)
            self._show_scale(runs)
        if any(map(_may_have_accuracy, runs)):
            fourths.append(self.accuracy)
            usual = "The accuracy appears here after each epoch."
            self._fill(self.accuracy, runs, usual, self._accuracy_curve)
        if runs and all(run.experiment.is_script for run in runs):
            fourths.append(self.rate)
            usual = "The learning rate appears here."
            self._fill(
                self.rate, runs, usual, lambda run: self._curve(run, run.column("learning_rate"), key="rate")
            )
        elif not fourths or any(len(run.column("data_wait_ms")) for run in runs):
            fourths.append(self.waiting)
            usual = "The share of time spent waiting appears here."
            self._fill(
                self.waiting,
                runs,
                usual,
                lambda run: self._curve(run, figures.waiting_percent(run), key="waiting"),
            )
        fourth = next((plot for plot in self._wanted if plot in fourths), fourths[0])
        if (tuple(fourths), fourth) != (self._fourths, self._fourth):
            self._two = [fourth if shown is self._fourth else shown for shown in self._two]
            self._fourths, self._fourth = tuple(fourths), fourth
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
            peak = figures.peak_memory_mib(run)
            more: dict[str, Any] = {"key": unit, "latest": None if peak is None else peak / unit_mib}
            if len(around) >= len(column) > 0:
                more |= {"shadow": around / unit_mib, "shadow_name": "reserved"}
            return self._curve(run, column / unit_mib, **more)

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
        self.speed.header.set_title(SPEED.title, runs[0].unit if runs else "img/s")
        if self._by == "seconds":
            warm = [run.column("seconds")[: run.rows_until(run.warmup_steps)] for run in runs]
            self.speed.warmup = max((float(seconds[-1]) for seconds in warm if len(seconds)), default=None)
        else:
            self.speed.warmup = float(max((run.warmup_steps for run in runs), default=0)) or None
        self._fill(
            self.speed,
            runs,
            "Samples per second appear here.",
            lambda run: replace(
                self._noisy_curve(run, "samples_per_second", is_rate=True),
                latest=figures.samples_per_second(run),
            ),
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
    return bool(figures.accuracies(run)) or (is_open and is_validated(run.experiment))
