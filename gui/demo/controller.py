"""Connect the place Demo to the window: the choice of the replay, the measurement, and full screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from gui.compare.controller import CompareController
from gui.compare.head import ItemHead
from gui.demo.measurement import GuidedMeasurement
from gui.demo.panel import DemoPanel
from gui.demo.reading import RaceReader
from gui.runs.exporting import ExportRequest
from gui.runs.panel import RunsPanel
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.widgets.notice import Notice

KEY = "show"
_ITSELF = "The demo needs the machine to itself. Anything else that runs would distort its result."
_LATER = ("The demo is running.", "Replay this comparison when it is done, or stop it first.")


class DemoController(QObject):
    """Connects the page Demo to the saved runs, the queue, the page Results and the window.

    `page_wanted` carries the name of a page to show. `experiment_wanted` asks for the form, and
    `engine_wanted` for the page that installs PyTorch.
    """

    page_wanted = Signal(str)
    experiment_wanted = Signal()
    engine_wanted = Signal()

    def __init__(
        self,
        store_path: Path,
        experiments: Experiments,
        panel: DemoPanel,
        comparisons: CompareController,
        notice: Notice,
        window: QMainWindow,
        parts: Sequence[QWidget],
    ) -> None:
        """`parts` of the window are hidden in full screen."""
        super().__init__(window)
        self._experiments, self._panel = experiments, panel
        self._comparisons, self._notice = comparisons, notice
        self._background = Background(self)
        self.reader = RaceReader(store_path, experiments.runs, panel, self)
        self.measurement = GuidedMeasurement(experiments, self._background, self)
        self.presenting = FullScreen(window, parts, self)
        self.state, self.restore = self.reader.state, self.reader.restore
        self.set_frame_ms = panel.set_frame_ms
        self.tells_of = self.measurement.owns
        """Whether the page reports how this run ends, so nothing else has to."""
        self._is_in_sight = False
        self._connect()

    def offer(self, runs: RunsPanel, head: ItemHead) -> None:
        """Connect the requests of the runs table and of the head of Results."""
        for source in (self._panel, runs.welcome):
            source.demo_wanted.connect(self.start)
            source.experiment_wanted.connect(self.experiment_wanted)
            source.limit_wanted.connect(lambda: self.page_wanted.emit("limit"))
        runs.race_requested.connect(self.show_runs)
        head.show_button.clicked.connect(
            lambda: self.show_runs(self._comparisons.reader.run_ids(), head.baseline(), head.headline())
        )

    def refresh(self) -> None:
        """Show the measurement's progress if the page is visible."""
        if self._panel.isVisible():
            self.measurement.report_progress()

    def welcome(self) -> None:
        """Show the welcome, or the measurement in progress."""
        self.page_wanted.emit(KEY)
        self.reader.welcome()

    def start(self) -> None:
        """Start the demo, or open the page that installs PyTorch."""
        if not self._experiments.engine.is_usable:
            self.engine_wanted.emit()
            return
        self.page_wanted.emit(KEY)
        self.measurement.start()

    def show_runs(
        self, run_ids: Sequence[str], baseline: str | None = None, side_id: str | None = None
    ) -> None:
        """Replay saved runs side by side. A single run stands for its whole comparison."""
        if self.measurement.is_at_work:
            self._notice.notify(*_LATER)
        else:
            self.reader.show_comparison(self._mates(run_ids), baseline, side_id)
        self.page_wanted.emit(KEY)

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Set whether the page is visible. Leaving it ends full screen."""
        self._is_in_sight = is_in_sight
        if not is_in_sight:
            self.presenting.leave()
        self.measurement.report_progress()
        self.reader.set_in_sight(is_in_sight)
        if is_in_sight:
            self._update_keys()

    def present(self) -> None:
        """Enter or leave full screen with the page."""
        if not self._is_in_sight:
            self.page_wanted.emit(KEY)
        self.presenting.toggle()

    @property
    def is_measuring(self) -> bool:
        """True if the run in progress belongs to the demo."""
        return self.measurement.is_measuring

    def stop(self) -> None:
        """Wait for readings in progress, before the window closes."""
        self.presenting.leave()
        self.measurement.close()
        self._background.stop()
        self.reader.stop()

    def _mates(self, run_ids: Sequence[str]) -> Sequence[str]:
        runs = self._experiments.runs
        run = runs.record(run_ids[0]) if len(run_ids) == 1 else None
        if run is None or run.comparison is None:
            return run_ids
        mates = [mate for mate in runs.records() if mate.comparison == run.comparison]
        return [mate.id for mate in reversed(mates) if mate.status.is_over]

    def _connect(self) -> None:
        panel, measurement = self._panel, self.measurement
        panel.present_toggled.connect(self.present)
        panel.stop_wanted.connect(measurement.stop)
        panel.compare_wanted.connect(self._compare)
        panel.again_wanted.connect(self._measure_again)
        panel.save_wanted.connect(self._save)
        self.presenting.changed.connect(panel.set_presenting)
        measurement.progressed.connect(panel.show_measuring)
        measurement.at_work.connect(self._hold)
        measurement.busy.connect(self._ask)
        self.reader.shown.connect(self._update_keys)
        measurement.stopped.connect(self.reader.open)
        measurement.refused.connect(self.reader.refuse)
        measurement.measured.connect(lambda ids: self.reader.show_comparison(ids, ids[0], ids[-1]))

    def _update_keys(self) -> None:
        # Space must play the race, and not press the button that Qt would focus
        if self._is_in_sight:
            self._panel.setFocus(Qt.FocusReason.OtherFocusReason)

    def _hold(self, is_at_work: bool) -> None:
        self.reader.set_measuring(is_at_work)
        self.reader.raced = None
        self._update_keys()

    def _ask(self, what_runs: str) -> None:
        # full screen would hide the question
        self.presenting.leave()
        self._notice.notify(
            what_runs,
            _ITSELF,
            "Start next",
            self.measurement.start_next,
            others=[("Stop it and start", self.measurement.stop_and_start)],
        )

    def _compare(self) -> None:
        raced = self.reader.raced
        if raced is None:
            self.page_wanted.emit("results")
        else:
            self._comparisons.compare(raced.choice.run_ids)

    def _measure_again(self) -> None:
        raced, case = self.reader.raced, self.measurement.case
        if raced is None:
            return
        full, mixed = (lane.side for lane in raced.race.lanes)
        sides = full, mixed
        if case is not None and case.matches(side.runs[0].experiment for side in sides):
            self.start()
        else:
            # the user's own runs may take hours: they are queued, and Results shows them
            self._compare()
            self._comparisons.measure_again(sides)

    def _save(self, form: str) -> None:
        raced = self.reader.raced
        if raced is not None:
            choice = raced.choice
            full, mixed = (lane.side for lane in raced.race.lanes)
            # no file dialog in full screen, and the window reports what was written
            self.presenting.leave()
            self._comparisons.exporting.ask(form, ExportRequest(choice.run_ids, full.id, mixed.id))


STILL_MS = 3_000
"""After so long without moving, the pointer is hidden."""

_SHOWS_POINTER = (
    QEvent.Type.MouseMove,
    QEvent.Type.MouseButtonPress,
    QEvent.Type.Wheel,
    # a blank pointer would be blank over the window that came to the front as well
    QEvent.Type.WindowDeactivate,
)


class FullScreen(QObject):
    """Switches `window` to full screen, with the widgets in `parts` hidden. Escape leaves it.

    `changed` carries whether full screen is on, also when the user leaves it through the desktop. A notice
    that appears during full screen stays hidden until the end.
    """

    changed = Signal(bool)

    def __init__(self, window: QMainWindow, parts: Sequence[QWidget], parent: QObject | None = None) -> None:
        super().__init__(parent or window)
        self._window, self._parts = window, tuple(parts)
        self._to_show: list[QWidget] = []
        self._state_before = Qt.WindowState.WindowNoState
        self._least = window.minimumSize()
        self.is_on = False
        self.pointer = Pointer(self)
        self._escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), window)
        self._escape.activated.connect(self.leave)
        self._escape.setEnabled(False)

    def toggle(self) -> None:
        """Enter or leave full screen."""
        (self.leave if self.is_on else self.enter)()

    def enter(self) -> None:
        """Enter full screen, unless it is on."""
        if self.is_on:
            return
        self.is_on = True
        self._to_show = [part for part in self._parts if not part.isHidden()]
        self._state_before = self._window.windowState()
        for part in self._parts:
            part.hide()
            part.installEventFilter(self)
        # a projector, or a large display scale, may have less than the window's minimum size
        self._least = self._window.minimumSize()
        self._window.setMinimumSize(0, 0)
        self._window.showFullScreen()
        self._window.installEventFilter(self)
        self._escape.setEnabled(True)
        self.pointer.watch(self._window)
        self.changed.emit(True)

    def leave(self) -> None:
        """Restore the window, unless full screen is off."""
        if not self.is_on:
            return
        self.is_on = False
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
        elif event.type() == QEvent.Type.ShowToParent and isinstance(watched, QWidget) and self.is_on:
            if watched not in self._to_show:
                self._to_show.append(watched)
            watched.hide()
        return False


class Pointer(QObject):
    """Hides the mouse pointer while it does not move over the active window."""

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
        # the window's handle gets every move of the pointer, whichever widget is below it
        handle = window.windowHandle()
        if handle is not None:
            self._window, self._watched = window, (window, handle)
            for target in self._watched:
                target.installEventFilter(self)
            self.still.start()

    def stop(self) -> None:
        self.still.stop()
        self._show()
        for target in self._watched:
            target.removeEventFilter(self)
        self._window, self._watched = None, ()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in _SHOWS_POINTER:
            self._show()
            self.still.start()
        return False

    def _hide(self) -> None:
        is_in_front = self._window is not None and self._window.isActiveWindow()
        if not is_in_front or QApplication.activePopupWidget() is not None:
            # the moves go to another window or a menu, which is not watched
            self.still.start()
        elif not self._is_hidden:
            self._is_hidden = True
            QApplication.setOverrideCursor(Qt.CursorShape.BlankCursor)

    def _show(self) -> None:
        if self._is_hidden:
            self._is_hidden = False
            QApplication.restoreOverrideCursor()
