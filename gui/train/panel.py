"""The page of a comparison: the runs in view, or an empty state with a button to start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QStackedLayout, QWidget

from engine.compare.failure import Failure
from engine.drawing.looks import By
from engine.experiment.experiment import Precision
from engine.experiment.problem import Problem
from engine.protocol.pictures import Images
from gui.session.live_run import LiveRun
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.train.outcome import ComparisonOutcome
from gui.train.race import LiveRaceReader
from gui.train.strip import Wishes, still_seconds
from gui.widgets import draw_marker, label, set_text
from gui.widgets.boxes import Placed, Stretch, Surface, in_column
from gui.widgets.focus_ring import tab_after

if TYPE_CHECKING:
    from gui.train.page import RunsPage

__all__ = ["LivePanel", "LiveRun"]
_PILOT = "Trains a few steps to estimate how long the sweep takes and how much memory it needs."


class LivePanel(Surface):
    """Shows up to four runs while they train, and then their result.

    A timer calls `refresh()` to draw the current state of the `LiveRun`s. `experiment_wanted` asks for the
    form, and is emitted only while no run is shown. `answer_wanted` carries the ids of ended runs whose
    result is needed.
    """

    stop_requested = Signal()
    pause_toggled = Signal()
    profile_requested = Signal(object)  # tuple[str, ...]
    answer_wanted = Signal(object)  # tuple[str, ...]
    replay_wanted = Signal(object)  # tuple[str, ...]
    export_wanted = Signal(object)  # tuple[str, ...]
    experiment_wanted = Signal()
    remedy_wanted = Signal(object)  # Remedy
    command_wanted = Signal(object)  # tuple[str, ...]

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("page", "Live runs", parent)
        self._runs: tuple[LiveRun, ...] = ()
        self._title = ""
        self._wishes = Wishes()
        self._reader = LiveRaceReader()
        self._recorded: Mapping[str, str] = {}
        self._stand_ins: Mapping[str, LiveRun] = {}
        self._seen: object = None
        self._failure: Failure | None = None
        self._background_runs: tuple[tuple[LiveRun, str], ...] = ()
        self._answer: ComparisonOutcome | None = None
        self._offer: tuple[str, str, tuple[tuple[Precision, str], ...]] = ("", "", ())
        self._asked_for: tuple[str, ...] = ()
        self._has_own_axis = False
        self._pilot = ""
        self._placeholder: QWidget | None = None
        self.why_not_profiled: Callable[[Sequence[str]], str | None] = lambda _run_ids: None
        """Returns why runs cannot be profiled, if so. Set by the window."""
        self.empty = EmptyAnswer()
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self.empty)

    @cached_property
    def page(self) -> RunsPage:
        """Return the runs' page, made on demand, because its plots would slow the window's start."""
        from gui.train.page import RunsPage

        page = RunsPage(self)
        strip = page.strip
        strip.stop.clicked.connect(self._stop)
        strip.pause.clicked.connect(self.pause_toggled)
        strip.details.toggled.connect(self._on_details_toggled)
        strip.by.changed.connect(self._on_axis_chosen)
        strip.replay.clicked.connect(lambda: self.replay_wanted.emit(self._answered()))
        for button in (strip.profile, page.details.explain):
            button.clicked.connect(lambda: self.profile_requested.emit(self._answered()))
        strip.command.clicked.connect(lambda: self.command_wanted.emit(self._answered()))
        strip.export.clicked.connect(lambda: self.export_wanted.emit(self._answered()))
        page.failure.remedy_wanted.connect(self.remedy_wanted)
        page.fit(self.size())
        self._stack.addWidget(page)
        tab_after(self.empty, page)
        return page

    @property
    def _has_page(self) -> bool:
        return "page" in vars(self)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._has_page:
            self.page.fit(event.size())

    def set_runs(self, runs: Sequence[LiveRun]) -> None:
        """Show these runs. The first is the baseline of the ratios."""
        self._runs = tuple(runs)
        self._wishes = replace(self._wishes, stop=False)
        self._seen = None
        self._set_answer(None)
        self._asked_for = ()
        if self._runs or self._has_page:
            self.page.plots.set_crosshair(None)
            self.page.plots.set_x_range(None)
        self._stack.setCurrentWidget(self.page if self._runs else self._placeholder or self.empty)
        self.refresh()

    def set_placeholder(self, page: QWidget | None) -> None:
        """Show a page, a child of this panel, while no run is in view. None for the empty state."""
        if page is not None and self._stack.indexOf(page) < 0:
            self._stack.addWidget(page)
        self._placeholder = page
        self._stack.setCurrentWidget(self.page if self._runs else self._placeholder or self.empty)

    @property
    def failure(self) -> Problem | None:
        """Return the problem of the last run in view that failed, or None."""
        failed = self._failed()
        return None if failed is None else failed.problem

    def set_failure(self, failure: Failure | None) -> None:
        """Set why runs in view failed, to be shown with the next refresh."""
        if failure != self._failure:
            self._failure, self._seen = failure, None

    def _failed(self) -> LiveRun | None:
        return next((run for run in reversed(self._runs) if run.problem is not None), None)

    @property
    def _is_all_failed(self) -> bool:
        """Return True if there is nothing to see but a failure: all runs are over without a step."""
        return self._failed() is not None and all(run.is_over and run.step == 0 for run in self._runs)

    def show_answer(self, run_ids: tuple[str, ...], answer: ComparisonOutcome) -> None:
        """Show the answer of the runs in view, unless others are in view now. Plot curves over time."""
        if run_ids == tuple(run.run_id for run in self._runs):
            self._set_answer(answer)
            if not self._has_own_axis:
                self.set_by("seconds")
            self._seen = None
            self.refresh()

    def answer(self) -> ComparisonOutcome | None:
        return self._answer

    def _set_answer(self, answer: ComparisonOutcome | None) -> None:
        self._answer = answer
        if self._has_page:
            self.page.show_answer(answer)

    def _answered(self) -> tuple[str, ...]:
        return tuple(run.run_id for run in self._runs)

    def _on_axis_chosen(self, by: By) -> None:
        self._has_own_axis = True
        self.set_by(by)

    def _request_answer(self) -> None:
        run_ids = self._answered()
        if len(run_ids) > 1 and run_ids != self._asked_for and all(run.is_over for run in self._runs):
            self._asked_for = run_ids
            self.answer_wanted.emit(run_ids)

    def set_background_runs(self, runs: Sequence[tuple[LiveRun, str]]) -> None:
        """Draw finished runs, named, faintly under the curves."""
        self._background_runs = tuple(runs)
        self._seen = None

    def runs(self) -> tuple[LiveRun, ...]:
        return self._runs

    def set_title(self, title: str) -> None:
        """Set the strip's title. Empty for one made of the runs, as "FP32 against FP16 AMP"."""
        self._title = title
        self._seen = None

    def set_offer(self, question: str, hint: str, sides: Sequence[tuple[Precision, str]]) -> None:
        """Set the texts of the empty state."""
        self._offer = (question, hint, tuple(sides))
        self._fill_empty()

    def set_pilot(self, words: str) -> None:
        """Show in the empty state which pilot of a sweep trains, if any."""
        if words != self._pilot:
            self._pilot = words
            self._fill_empty()

    def _fill_empty(self) -> None:
        if self._pilot:
            self.empty.show_offer(self._pilot, _PILOT)
        else:
            self.empty.show_offer(*self._offer)

    def set_by(self, by: By) -> None:
        """Plot against `by`, "step" or "seconds"."""
        self.page.strip.by.set_value(by)
        self.page.plots.set_by(by)
        self._seen = None
        self.refresh()

    def set_pause_request(self, asked: bool | None) -> None:
        """Set the last request to the current run: pause (True), resume (False) or none."""
        self._wishes = replace(self._wishes, pause=asked)
        self._seen = None
        self.refresh()

    def open_details(self) -> None:
        self.page.strip.details.setChecked(True)

    def refresh(self) -> None:
        """Draw the changes since the last call. Fast if there are none."""
        now = tuple((run.run_id, run.revision, run.status, still_seconds(run)) for run in self._runs)
        if self._runs and now != self._seen:
            self._seen = now
            if not any(run.status == "running" for run in self._runs):
                self._wishes = replace(self._wishes, stop=False)
            failure, is_all = self._failed(), self._is_all_failed
            self.page.show_failure(self._failure if failure is not None else None, is_all=is_all)
            title = self._title if self._answer is None else ""
            self.page.strip.show_runs(title, self._runs, self._wishes, tells_why=failure is None)
            when = "" if self._answer is None else self._answer.when
            against = self.why_not_profiled(self._answered()) if self._is_over else None
            is_script = self._runs[0].experiment.is_script
            self.page.strip.show_answer(
                self._is_over and not is_all, when, against, has_curves=not is_all, is_script=is_script
            )
            alike = frozenset[str]() if self._answer is None else self._answer.alike
            self.page.gauges.show_runs(self._runs)
            self.page.ranks.show_runs(self._runs)
            if self.page.strip.details.isChecked():
                self._fill_details()
            self.page.plots.background_runs = self._background_runs
            self.page.plots.show_runs(self._runs, alike)
            self._show_race()
            self._request_answer()
        if self._runs:
            self.page.plots.refresh()

    def _show_race(self) -> None:
        is_on = not self._is_over and not self._is_all_failed
        scene = self._reader.scene(self._runs, self._recorded, self._stand_ins) if is_on else None
        self.page.show_race(scene)

    def set_race(self, recorded: Mapping[str, str], stand_ins: Mapping[str, LiveRun]) -> None:
        """Set when finished runs were recorded, by id, and earlier repeats of runs that have not started."""
        self._recorded, self._stand_ins = recorded, stand_ins
        self._seen = None

    def set_images(self, images: Images | None) -> None:
        """Set the training images in the race's blocks."""
        if self._has_page:
            self.page.race.set_images(images)

    @property
    def _is_over(self) -> bool:
        return all(run.is_over for run in self._runs)

    def _stop(self) -> None:
        self._wishes = replace(self._wishes, stop=True)
        self._seen = None
        self.stop_requested.emit()
        self.refresh()

    def _on_details_toggled(self, shown: bool) -> None:
        if shown:
            self._fill_details()
        self.page.details.setVisible(shown)

    def fit_profile(self) -> None:
        """Update whether the runs can be profiled."""
        if self._has_page:
            self._seen = None
            self.refresh()

    def _fill_details(self) -> None:
        self.page.details.show_runs(self._runs, self.why_not_profiled(self._answered()))


_OUTLINE, _PITCH, _BAR, _SHORTER = QSize(480, 170), 80, 40, 0.54
_LEAST_HEIGHT = 420
"""Of the page, below which the outline is left out."""


class Outline(QWidget):
    """A placeholder until there are results: two dashed bars for the times of two sides.

    The second bar is shorter, as that of the faster side.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sides: tuple[tuple[Precision, str], ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme().changed.connect(self.update)

    def show_sides(self, sides: Sequence[tuple[Precision, str]]) -> None:
        """Show the first two sides, each by its precision and label."""
        self._sides = tuple(sides[:2])
        self.update()

    def sizeHint(self) -> QSize:
        return _OUTLINE

    def paintEvent(self, event: QPaintEvent) -> None:
        palette, painter = theme().palette, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(font(12, 500))
        width = float(self.width() - 1)
        for place, (precision, words) in enumerate(self._sides):
            top = place * _PITCH
            draw_marker(painter, QPointF(6, top + 9), precision, fill="hollow")
            painter.setPen(QColor(palette.text2))
            painter.drawText(QRectF(18, top, width, 18), Qt.AlignmentFlag.AlignVCenter, words)
            painter.setPen(QPen(QColor(palette.line2), 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            length = width * (_SHORTER if place else 1.0)
            painter.drawRoundedRect(QRectF(0.5, top + 24.5, length, _BAR), 4, 4)
        if len(self._sides) > 1:
            self._draw_gain(painter, width)
        painter.end()

    def _draw_gain(self, painter: QPainter, width: float) -> None:
        palette, begin = theme().palette, width * _SHORTER
        painter.setPen(QColor(palette.line2))
        for x in (begin, width):
            painter.drawLine(QPointF(x, 68), QPointF(x, 165))
        painter.setPen(QColor(palette.text2))
        room = QRectF(begin, 146, width - begin, 18)
        painter.drawText(room, Qt.AlignmentFlag.AlignCenter, "time saved: ?")


class EmptyAnswer(QWidget):
    """The page shown while there is no run: the question that the form's button answers."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.outline = Outline()
        self._has_sides = False
        self._question, self._hint = label("", "pageTitle"), label("", "body")
        for words in (self._question, self._hint):
            words.setAlignment(Qt.AlignmentFlag.AlignCenter)
            words.setWordWrap(True)
        center = Qt.AlignmentFlag.AlignHCenter
        parts = (Placed(self.outline, 0, center), 24, self._question, 8, self._hint)
        in_column(Stretch(2), *parts, Stretch(3), parent=self, margins=(24, 0, 24, 0), spacing=0)

    def show_offer(self, question: str, hint: str, sides: Sequence[tuple[Precision, str]] = ()) -> None:
        """Show a question, a hint on how it is answered, and the sides to be compared."""
        set_text(self._question, question)
        set_text(self._hint, hint)
        self.outline.show_sides(sides)
        self._has_sides = bool(sides)
        self._fit()
        self.setAccessibleName(self.words())

    def words(self) -> str:
        """Return the question and the hint."""
        return f"{self._question.text()} {self._hint.text()}".strip()

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        self.outline.setVisible(self._has_sides and self.height() >= _LEAST_HEIGHT)
