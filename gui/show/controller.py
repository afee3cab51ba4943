"""The workspace Show: which race it plays, measuring a new one, and presenting on the full screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from gui.compare.column import ComparisonColumn
from gui.compare.controller import CompareController
from gui.runs.exporting import Order
from gui.runs.panel import RunsPanel
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.show.guided.measurement import GuidedMeasurement
from gui.show.panel import ShowPanel
from gui.show.reading import RaceReader
from gui.widgets.notice import Notice

STILL_MS = 3_000
"""For how long the pointer has to lie still before it is hidden."""

_SHOWING = (
    QEvent.Type.MouseMove,
    QEvent.Type.MouseButtonPress,
    QEvent.Type.Wheel,
    # another window came to the front: a blank pointer would be blank over that one too
    QEvent.Type.WindowDeactivate,
)


class FullScreen(QObject):
    """Takes `window` to the full screen and hides `parts` of it meanwhile; Escape leaves.

    So does the desktop's own way out of the full screen. `changed` carries whether it is on. A part that
    something else shows meanwhile (a notice) stays hidden, and is there afterwards.
    """

    changed = Signal(bool)

    def __init__(self, window: QMainWindow, parts: Sequence[QWidget], parent: QObject | None = None) -> None:
        super().__init__(parent or window)
        self._window, self._parts = window, tuple(parts)
        self._to_show: list[QWidget] = []
        self._state_before = Qt.WindowState.WindowNoState
        self._least = window.minimumSize()
        self._is_on = False
        self.pointer = Pointer(self)
        self._escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), window)
        self._escape.activated.connect(self.leave)
        self._escape.setEnabled(False)

    @property
    def is_on(self) -> bool:
        """Whether the window is taken."""
        return self._is_on

    def toggle(self) -> None:
        """Enters, or leaves."""
        if self._is_on:
            self.leave()
        else:
            self.enter()

    def enter(self) -> None:
        """Nothing happens where it is on already."""
        if self._is_on:
            return
        self._is_on = True
        self._to_show = [part for part in self._parts if not part.isHidden()]
        self._state_before = self._window.windowState()
        for part in self._parts:
            part.hide()
            part.installEventFilter(self)
        # a small beamer, or a large scale, has less than the window otherwise needs: nothing may be cut off
        self._least = self._window.minimumSize()
        self._window.setMinimumSize(0, 0)
        self._window.showFullScreen()
        self._window.installEventFilter(self)
        self._escape.setEnabled(True)
        self.pointer.watch(self._window)
        self.changed.emit(True)

    def leave(self) -> None:
        """The window as it was. Nothing happens where it is off."""
        if not self._is_on:
            return
        self._is_on = False
        self._escape.setEnabled(False)
        self._window.removeEventFilter(self)
        self.pointer.stop()
        for part in self._parts:
            part.removeEventFilter(self)
        for part in self._to_show:
            part.show()
        self._window.setMinimumSize(self._least)
        if self._window.isFullScreen():
            self._window.setWindowState(self._state_before & ~Qt.WindowState.WindowFullScreen)
        self.changed.emit(False)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._window:
            if event.type() == QEvent.Type.WindowStateChange and not self._window.isFullScreen():
                self.leave()
        elif event.type() == QEvent.Type.ShowToParent and isinstance(watched, QWidget) and self._is_on:
            if watched not in self._to_show:
                self._to_show.append(watched)
            watched.hide()
        return False


class Pointer(QObject):
    """Hides the mouse pointer over a window while it lies still, and nothing else is in front of it."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._is_hidden = False
        self._window: QWidget | None = None
        self._watched: tuple[QObject, ...] = ()
        self.still = QTimer(self)
        self.still.setSingleShot(True)
        self.still.setInterval(STILL_MS)
        self.still.timeout.connect(self._hide)

    def watch(self, window: QWidget) -> None:
        # the window's handle sees each move of the pointer, whichever widget is below it
        handle = window.windowHandle()
        if handle is not None:
            self._window, self._watched = window, (window, handle)
            for one in self._watched:
                one.installEventFilter(self)
            self.still.start()

    def stop(self) -> None:
        self.still.stop()
        self._show()
        for one in self._watched:
            one.removeEventFilter(self)
        self._window, self._watched = None, ()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in _SHOWING:
            self._show()
            self.still.start()
        return False

    def _hide(self) -> None:
        is_in_front = self._window is not None and self._window.isActiveWindow()
        if not is_in_front or QApplication.activePopupWidget() is not None:
            # the moves go to that window or menu, which is not watched
            self.still.start()
        elif not self._is_hidden:
            self._is_hidden = True
            QApplication.setOverrideCursor(Qt.CursorShape.BlankCursor)

    def _show(self) -> None:
        if self._is_hidden:
            self._is_hidden = False
            QApplication.restoreOverrideCursor()


KEY = "show"
_ITSELF = "“Show me” needs the machine to itself: its figures would be wrong beside anything else."
_LATER = ("“Show me” is measuring.", "Play this comparison when it is done, or stop it first.")


class ShowController(QObject):
    """Joins the panel with the runs, with Compare and with the window around it.

    `workspace_wanted` carries the workspace that should come to the front; `experiment_wanted` when the form
    should.
    """

    workspace_wanted = Signal(str)
    experiment_wanted = Signal()

    def __init__(
        self,
        store_path: Path,
        experiments: Experiments,
        panel: ShowPanel,
        comparisons: CompareController,
        notice: Notice,
        window: QMainWindow,
        parts: Sequence[QWidget],
    ) -> None:
        """`parts` of the window are hidden while it presents."""
        super().__init__(window)
        self._experiments, self._panel = experiments, panel
        self._comparisons, self._notice = comparisons, notice
        self._background = Background(self)
        self.reader = RaceReader(store_path, experiments.runs, panel, self._background, self)
        self.show_me = GuidedMeasurement(experiments, panel, self._background, self)
        self.presenting = FullScreen(window, parts, self)
        self._is_in_sight = False
        self._connect()

    def offer(self, runs: RunsPanel, column: ComparisonColumn) -> None:
        """Takes the wishes of the rest of the window."""
        self._panel.show_me_wanted.connect(self.begin)
        runs.show_me_wanted.connect(self.begin)
        for source in (self._panel, runs):
            source.experiment_wanted.connect(self.experiment_wanted)
            source.limit_wanted.connect(lambda: self.workspace_wanted.emit("memory"))
        runs.race_requested.connect(self.show_runs)
        column.show_wanted.connect(
            lambda: self.show_runs(self._comparisons.reader.run_ids(), column.baseline(), column.headline())
        )

    def welcome(self) -> None:
        """Says what the program does, and offers to begin; what is being measured stays on the page."""
        self.workspace_wanted.emit(KEY)
        self.reader.welcome()

    def begin(self) -> None:
        """What "Show me" does."""
        self.workspace_wanted.emit(KEY)
        self.show_me.begin()

    def show_runs(
        self, run_ids: Sequence[str], baseline: str | None = None, side_id: str | None = None
    ) -> None:
        """Plays saved runs side by side; one alone means all that it was trained to be compared with."""
        if self.show_me.is_at_work:
            self._notice.tell(*_LATER)
        else:
            self.reader.show_comparison(self._mates(run_ids), baseline, side_id)
        self.workspace_wanted.emit(KEY)

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Whether the workspace is looked at; presenting ends where it is left."""
        self._is_in_sight = is_in_sight
        if not is_in_sight:
            self.presenting.leave()
        self.show_me.show()
        self.reader.set_in_sight(is_in_sight)
        if is_in_sight:
            self._take_keys()

    def present(self) -> None:
        """Takes the workspace to the full screen, or back."""
        if not self._is_in_sight:
            self.workspace_wanted.emit(KEY)
        self.presenting.toggle()

    def tells_of(self, run_id: str | None) -> bool:
        """Whether what becomes of a run is told on the page, so that nobody else has to."""
        return self.show_me.owns(run_id)

    @property
    def is_measuring(self) -> bool:
        """Whether the run that trains is one of its own."""
        return self.show_me.is_measuring

    def refresh(self) -> None:
        """Paints what is being measured, at the rate at which that disturbs nothing."""
        self.show_me.refresh()

    def set_frame_ms(self, frame_ms: int | None) -> None:
        """How often a race may be painted beside a run that is measured; None for as smoothly as it goes."""
        self._panel.set_frame_ms(frame_ms)

    def stop(self) -> None:
        """Waits for what is being read; the window closes."""
        self.presenting.leave()
        self.show_me.close()
        self._background.stop()

    def state(self) -> dict[str, Any]:
        return self.reader.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        self.reader.restore(state)

    def _mates(self, run_ids: Sequence[str]) -> Sequence[str]:
        runs = self._experiments.runs
        run = runs.record(run_ids[0]) if len(run_ids) == 1 else None
        if run is None or run.comparison is None:
            return run_ids
        together = [one for one in runs.records() if one.comparison == run.comparison]
        return [one.id for one in reversed(together) if one.status.is_over]

    def _connect(self) -> None:
        panel, show_me = self._panel, self.show_me
        panel.present_toggled.connect(self.present)
        panel.stop_wanted.connect(show_me.stop)
        panel.compare_wanted.connect(self._compare)
        panel.again_wanted.connect(self._measure_again)
        panel.save_wanted.connect(self._save)
        self.presenting.changed.connect(panel.set_presenting)
        show_me.at_work.connect(self._hold)
        show_me.busy.connect(self._ask)
        self.reader.shown.connect(self._take_keys)
        show_me.given_up.connect(self.reader.open)
        show_me.refused.connect(self.reader.refuse)
        show_me.measured.connect(lambda ids: self.reader.show_comparison(ids, ids[0], ids[-1]))

    def _take_keys(self) -> None:
        """Space is to play the race, and not to press whichever button Qt thinks of next."""
        if self._is_in_sight:
            self._panel.setFocus(Qt.FocusReason.OtherFocusReason)

    def _hold(self, is_at_work: bool) -> None:
        self.reader.hold(is_at_work)
        self.reader.forget()
        self._take_keys()

    def _ask(self, what_goes_on: str) -> None:
        # nobody sees a question that the full screen hides
        self.presenting.leave()
        self._notice.tell(
            what_goes_on,
            _ITSELF,
            "Begin next",
            self.show_me.begin_next,
            other=("Stop it and begin", self.show_me.stop_and_begin),
        )

    def _compare(self) -> None:
        raced = self.reader.raced
        if raced is None:
            self.workspace_wanted.emit("compare")
        else:
            self._comparisons.compare(raced.choice.run_ids)

    def _measure_again(self) -> None:
        raced, case = self.reader.raced, self.show_me.case
        if raced is None:
            return
        sides = raced.race.full.side, raced.race.mixed.side
        if case is not None and case.holds(side.runs[0].experiment for side in sides):
            self.begin()
        else:
            # anyone's own runs may take hours: they are queued, and what becomes of them is told in Compare
            self._compare()
            self._comparisons.measure_again(sides)

    def _save(self, form: str) -> None:
        raced = self.reader.raced
        if raced is not None:
            choice, race = raced.choice, raced.race
            # a file dialog is nothing to present, and how the writing went is told in the window
            self.presenting.leave()
            self._comparisons.exporting.ask(
                form, Order(choice.run_ids, race.full.side.id, race.mixed.side.id)
            )
