"""The live workspace: title strip, stat cards, gauges and four linked plots of the runs in view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QStackedLayout, QVBoxLayout, QWidget

from gui.charts.live_plot import XAxis
from gui.session.live_run import LiveRun
from gui.train.cards import LiveCards
from gui.train.details import LiveDetails, LiveGauges
from gui.train.plots import LivePlots
from gui.train.strip import LiveStrip, Wishes, still_seconds
from gui.widgets import EmptyState

__all__ = ["LivePanel", "LiveRun"]

NOTHING_YET = (
    "Nothing was trained yet.",
    "Loss, speed and memory appear here step by step while a run trains.",
    "Run an experiment",
    "Trains what the form at the left says",
)
NONE_OPEN = (
    "No run is open.",
    "Double-click a run in the table below to see its curves, or train a new one.",
    "Open the newest run",
    "Shows the newest run beside those it was started with",
)
_COMPACT_BELOW = 560


class LivePanel(QFrame):
    """Shows up to four runs. Events go into the `LiveRun`s; `refresh()`, called by one timer, draws them.

    `stop_requested` and `pause_toggled` are emitted when those buttons are pressed; `newest_wanted` and
    `experiment_wanted` when, with no run in view, the newest one is to be opened or the first one trained.
    """

    stop_requested = Signal()
    pause_toggled = Signal()
    newest_wanted = Signal()
    experiment_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self.setAccessibleName("Live runs")
        self._runs: tuple[LiveRun, ...] = ()
        self._title = ""
        self._wishes = Wishes()
        self._seen: object = None
        self.strip, self.cards, self.plots = LiveStrip(), LiveCards(), LivePlots()
        self.gauges, self.details = LiveGauges(), LiveDetails()
        self.details.hide()
        self.strip.stop_requested.connect(self._stop)
        self.strip.pause_toggled.connect(self.pause_toggled)
        self.strip.details_toggled.connect(self._show_details)
        self.strip.x_axis_chosen.connect(self.set_x_axis)
        self._has_saved = False
        self.empty = EmptyState(*NOTHING_YET)
        self.empty.pressed.connect(self._offer)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self._workspace())

    def _workspace(self) -> QWidget:
        page = QWidget()
        self._column = column = QVBoxLayout(page)
        column.setSpacing(8)
        column.addWidget(self.strip)
        column.addWidget(self.cards)
        column.addWidget(self.gauges)
        column.addWidget(self.details)
        column.addWidget(self.plots, 1)
        column.addStretch()
        scroller = QScrollArea()
        scroller.setWidgetResizable(True)
        scroller.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroller.setWidget(page)
        return scroller

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        low = event.size().height() < _COMPACT_BELOW
        margin = 8 if low else 16
        self._column.setContentsMargins(16, margin, 16, margin)
        self.cards.set_compact(low)
        self.gauges.set_room(not low)

    def set_runs(self, runs: Sequence[LiveRun]) -> None:
        """Shows these runs; the first is the baseline of the ratios."""
        self._runs = tuple(runs)
        self._wishes = replace(self._wishes, stop=False)
        self._seen = None
        self.plots.set_crosshair(None)
        self.plots.set_x_range(None)
        self._stack.setCurrentIndex(1 if self._runs else 0)
        self.refresh()

    def set_beneath(self, runs: Sequence[tuple[LiveRun, str]]) -> None:
        """Lays finished runs, by their names, faintly under the curves."""
        self.plots.set_beneath(runs)
        self._seen = None

    def runs(self) -> tuple[LiveRun, ...]:
        return self._runs

    def set_title(self, title: str) -> None:
        """The strip's title; empty makes it "FP32 against FP16 AMP" from the runs."""
        self._title = title
        self._seen = None

    def set_has_saved(self, has_saved: bool) -> None:
        """Whether there are runs that could be opened, which it says while none is in view."""
        if has_saved != self._has_saved:
            self._has_saved = has_saved
            self.empty.tell(*(NONE_OPEN if has_saved else NOTHING_YET))

    def set_x_axis(self, x_axis: XAxis) -> None:
        """Plots against "steps" or "seconds"."""
        self.strip.x_axis.set_value(x_axis)
        self.plots.set_x_axis(x_axis)
        self._seen = None
        self.refresh()

    def set_pause_asked(self, asked: bool | None) -> None:
        """What was asked last of the run that trains: to pause, to go on, or neither (None)."""
        self._wishes = replace(self._wishes, pause=asked)
        self._seen = None
        self.refresh()

    def open_details(self) -> None:
        """Unfolds what the runs consist of."""
        self.strip.details.setChecked(True)

    def refresh(self) -> None:
        """Draws what changed since the last call; costs next to nothing where nothing did."""
        now = tuple((run.run_id, run.revision, run.status, still_seconds(run)) for run in self._runs)
        if self._runs and now != self._seen:
            self._seen = now
            if not any(run.status == "running" for run in self._runs):
                self._wishes = replace(self._wishes, stop=False)
            self.strip.show_runs(self._title, self._runs, self._wishes)
            self.cards.show_runs(self._runs)
            self.gauges.show_runs(self._runs)
            if self.strip.details.isChecked():
                self.details.show_runs(self._runs)
            self.plots.show_runs(self._runs)
        if self._runs:
            self.plots.refresh()

    def _offer(self) -> None:
        (self.newest_wanted if self._has_saved else self.experiment_wanted).emit()

    def _stop(self) -> None:
        self._wishes = replace(self._wishes, stop=True)
        self._seen = None
        self.stop_requested.emit()
        self.refresh()

    def _show_details(self, shown: bool) -> None:
        if shown:
            self.details.show_runs(self._runs)
        self.details.setVisible(shown)
