"""The workspace Train: the runs in view, or what to do while there are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QStackedLayout, QWidget

from gui.session.live_run import LiveRun
from gui.train.strip import LiveStrip, Wishes, still_seconds
from gui.widgets import EmptyState
from gui.widgets.shortcuts import tab_after

if TYPE_CHECKING:
    from engine.drawing.looks import By
    from engine.experiment.problem import Problem
    from gui.train.cards import LiveCards
    from gui.train.details import LiveDetails
    from gui.train.gauges import LiveGauges
    from gui.train.page import RunsPage
    from gui.train.plots import LivePlots

__all__ = ["LivePanel", "LiveRun"]

NOTHING_YET = (
    "Nothing has been trained yet.",
    "Loss, speed and memory appear here step by step while a run trains.",
    "Train now",
    "Trains what the form on the left describes",
)
NONE_OPEN = (
    "No run is open.",
    "Double-click a run in the table below to see its curves, or train a new one.",
    "Open the newest run",
    "Shows the newest run with those it was started with",
)
PILOT = "It trains a few steps, from which the time and memory of the sweep's runs are foretold."


class LivePanel(QFrame):
    """Shows up to four runs. Events go into the `LiveRun`s; `refresh()`, called by one timer, draws them.

    `newest_wanted` and `experiment_wanted` ask, with no run in view, to open the newest run or to train one.
    """

    stop_requested = Signal()
    pause_toggled = Signal()
    explain_requested = Signal(object)  # tuple[str, ...]
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
        self._beneath: tuple[tuple[LiveRun, str], ...] = ()
        self._has_saved = False
        self._pilot = ""
        self._instead: QWidget | None = None
        self.why_not_explained: Callable[[Sequence[str]], str | None] = lambda _run_ids: None
        """Says why the time of runs cannot be explained; the window sets it."""
        self.empty = EmptyState(*NOTHING_YET)
        self.empty.pressed.connect(self._offer)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self.empty)

    @cached_property
    def page(self) -> RunsPage:
        """The runs' page, made on demand: its plots would slow the window's start."""
        from gui.train.page import RunsPage

        page = RunsPage(self)
        page.strip.stop_requested.connect(self._stop)
        page.strip.pause_toggled.connect(self.pause_toggled)
        page.strip.details_toggled.connect(self._show_details)
        page.strip.by_chosen.connect(self.set_by)
        page.details.explain_wanted.connect(self.explain_requested)
        page.fit(self.height())
        self._stack.addWidget(page)
        tab_after(self.empty, page)
        return page

    @property
    def strip(self) -> LiveStrip:
        return self.page.strip

    @property
    def cards(self) -> LiveCards:
        return self.page.cards

    @property
    def gauges(self) -> LiveGauges:
        return self.page.gauges

    @property
    def details(self) -> LiveDetails:
        return self.page.details

    @property
    def plots(self) -> LivePlots:
        return self.page.plots

    @property
    def _has_page(self) -> bool:
        return "page" in vars(self)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._has_page:
            self.page.fit(event.size().height())

    def set_runs(self, runs: Sequence[LiveRun]) -> None:
        """Shows these runs; the first is the baseline of the ratios."""
        self._runs = tuple(runs)
        self._wishes = replace(self._wishes, stop=False)
        self._seen = None
        if self._runs or self._has_page:
            self.plots.set_crosshair(None)
            self.plots.set_x_range(None)
        self._show_fitting()
        self.refresh()

    def set_instead(self, page: QWidget | None) -> None:
        """Shows a page, a child of this panel, while no run is in view; None for the empty state."""
        if page is not None and self._stack.indexOf(page) < 0:
            self._stack.addWidget(page)
        self._instead = page
        self._show_fitting()

    @property
    def failure(self) -> Problem | None:
        """Why the runs in view, which are over without a step, failed; None if there is more to see."""
        if not all(run.is_over and run.step == 0 for run in self._runs):
            return None
        return next((run.problem for run in reversed(self._runs) if run.problem is not None), None)

    def set_beneath(self, runs: Sequence[tuple[LiveRun, str]]) -> None:
        """Draws finished runs, named, faintly under the curves."""
        self._beneath = tuple(runs)
        self._seen = None

    def runs(self) -> tuple[LiveRun, ...]:
        return self._runs

    def set_title(self, title: str) -> None:
        """Sets the strip's title; empty for one made of the runs, as "FP32 against FP16 AMP"."""
        self._title = title
        self._seen = None

    def set_has_saved(self, has_saved: bool) -> None:
        """Sets whether there are saved runs, which the empty state then offers."""
        if has_saved != self._has_saved:
            self._has_saved = has_saved
            self._fill_empty()

    def set_pilot(self, words: str) -> None:
        """Says, while no run is in view, which pilot of a sweep trains; empty for none."""
        if words != self._pilot:
            self._pilot = words
            self._fill_empty()

    def _show_fitting(self) -> None:
        self._stack.setCurrentWidget(self.page if self._runs else self._instead or self.empty)

    def _fill_empty(self) -> None:
        if self._pilot:
            self.empty.tell(self._pilot, PILOT)
        else:
            self.empty.tell(*(NONE_OPEN if self._has_saved else NOTHING_YET))

    def set_by(self, by: By) -> None:
        """Plots against `by`, "step" or "seconds"."""
        self.strip.by.set_value(by)
        self.plots.set_by(by)
        self._seen = None
        self.refresh()

    def set_pause_asked(self, asked: bool | None) -> None:
        """Sets what was last asked of the run in progress: to pause, to continue (False), or neither."""
        self._wishes = replace(self._wishes, pause=asked)
        self._seen = None
        self.refresh()

    def open_details(self) -> None:
        """Opens the details."""
        self.strip.details.setChecked(True)

    def refresh(self) -> None:
        """Draws what changed since the last call; costs next to nothing if nothing did."""
        now = tuple((run.run_id, run.revision, run.status, still_seconds(run)) for run in self._runs)
        if self._runs and now != self._seen:
            self._seen = now
            if not any(run.status == "running" for run in self._runs):
                self._wishes = replace(self._wishes, stop=False)
            failure = self.failure
            self.page.show_failure(failure)
            self.strip.show_runs(self._title, self._runs, self._wishes, tells_why=failure is None)
            self.cards.show_runs(self._runs)
            self.gauges.show_runs(self._runs)
            if self.strip.details.isChecked():
                self._fill_details()
            self.plots.set_beneath(self._beneath)
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
            self._fill_details()
        self.details.setVisible(shown)

    def fit_explain(self) -> None:
        """Enables the button that explains the time, where it can."""
        if self._has_page and self.strip.details.isChecked():
            self._fill_details()

    def _fill_details(self) -> None:
        self.details.show_runs(self._runs, self.why_not_explained([run.run_id for run in self._runs]))
