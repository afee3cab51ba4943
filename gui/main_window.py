"""The window: panels side by side, and the signals between them."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtGui import QCloseEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QMainWindow, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from engine.catalog import Catalog
from engine.launcher import Launcher
from engine.presets import all_presets, broken_presets
from engine.problem import Problem, ProblemError
from engine.records.record import RunRecord
from engine.records.store import Store
from gui.device_memory import DeviceMemory
from gui.experiments import Experiments
from gui.help import show_help
from gui.kept import Kept, kept_bytes, remember, restore
from gui.limit_search import LimitSearch
from gui.oom_retries import Retry
from gui.panels.compare import ComparePanel
from gui.panels.compare_column import ComparisonColumn
from gui.panels.dock import OPEN_HEIGHT, Dock
from gui.panels.live import LivePanel
from gui.panels.memory_limit import MemoryLimitPanel
from gui.panels.setup import Request, SetupPanel
from gui.panels.setup_check import sentence
from gui.panels.top_bar import SIDE_WIDTH, TopBar
from gui.questions import may_delete, may_stop
from gui.settings import Key, Settings
from gui.shortcuts import install
from gui.theme import theme
from gui.widgets import FocusRing
from gui.widgets.notice import Notice

WORKSPACES = (
    ("train", "Train", "Train, and watch the curves live (Ctrl+1)"),
    ("memory", "Memory limit", "Find the largest batch that fits, on this card or a smaller one (Ctrl+2)"),
    ("compare", "Compare", "Lay runs over one another and read their ratios (Ctrl+3)"),
)
GPU_REPAINT_HZ = 30
CPU_REPAINT_HZ = 5
FIRST_PRESET = "fashion"
FULL_SIZE = QSize(1440, 900)
WINDOW_FRAME = QSize(8, 40)
"""What a window manager puts around a window, about: nobody knows it before the window is shown."""


class MainWindow(QMainWindow):
    """Owns the panels and `experiments`. It repaints at `repaint_hz`, or as the device that trains allows.

    Where the training shares the cores with the window it repaints five times a second: at 30 it would cost
    the training some 15 % of its speed.
    """

    def __init__(
        self,
        store: Store,
        launcher: Launcher,
        settings: Settings | None = None,
        repaint_hz: int | None = None,
    ) -> None:
        super().__init__()
        self.setWindowTitle("Ammeter")
        self.setMinimumSize(960, 600)
        room = self.screen().availableSize() - WINDOW_FRAME
        self.resize(room.boundedTo(FULL_SIZE).expandedTo(self.minimumSize()))
        self._settings = settings or Settings.load()
        self._repaint_hz = repaint_hz
        self._asks_before_closing = True
        self._dock_was_open = True
        self._followed: tuple[str, ...] = ()
        self.experiments = Experiments(store, launcher, self)
        self._make_panels()
        self._lay_out()
        self._connect()
        self._install_shortcuts()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._repaint)
        self.experiments.load()
        self._restore()
        for note in store.notes:
            self.dock.log.append("warning", note)
        for problem in broken_presets():
            self.dock.log.append("warning", f"{problem.message} {problem.remedy}")
        self._offer_waiting()

    def _make_panels(self) -> None:
        self.top_bar = TopBar(WORKSPACES)
        self.setup = SetupPanel()
        self.column = ComparisonColumn()
        self.live = LivePanel()
        self.memory_limit = MemoryLimitPanel()
        self.compare = ComparePanel()
        self.dock = Dock()
        self.runs = self.dock.runs
        self.notice = Notice()
        self._memory = DeviceMemory(self)
        self._focus_ring = FocusRing(self)

    def _lay_out(self) -> None:
        self._side = QStackedWidget()
        self._side.setMinimumWidth(300)
        self._side.setMaximumWidth(440)
        self._workspaces = QStackedWidget()
        for side in (self.setup, self.column):
            self._side.addWidget(side)
        for workspace in (self.live, self.memory_limit, self.compare):
            self._workspaces.addWidget(workspace)
        self._middle = QSplitter(Qt.Orientation.Vertical)
        self._middle.setChildrenCollapsible(False)
        self._middle.addWidget(_stacked(self.notice, self._workspaces))
        self._middle.addWidget(self.dock)
        self._middle.setStretchFactor(0, 1)
        self._fold_dock(True)
        self._body = QSplitter(Qt.Orientation.Horizontal)
        self._body.setChildrenCollapsible(False)
        self._body.addWidget(self._side)
        self._body.addWidget(self._middle)
        self._body.setStretchFactor(1, 1)
        self._body.setSizes([SIDE_WIDTH, 1120])
        self.setCentralWidget(_stacked(self.top_bar, self._body))

    def _connect(self) -> None:
        self.top_bar.workspace_chosen.connect(self.show_workspace)
        self.top_bar.theme_toggled.connect(theme().toggle)
        self.top_bar.help_requested.connect(lambda: show_help(self))
        self.setup.run_requested.connect(self._submit)
        self.setup.queue_requested.connect(self._submit)
        self.setup.problem_raised.connect(self._tell)
        self.live.stop_requested.connect(self.experiments.stop)
        self.live.pause_toggled.connect(self.experiments.toggle_pause)
        self.dock.opened.connect(self._fold_dock)
        self._memory.read.connect(self.top_bar.device.set_usage)
        self._connect_runs()
        self._connect_experiments()
        self._connect_limits()
        self.column.changed.connect(self._show_comparison)

    def _connect_limits(self) -> None:
        self._limits = LimitSearch(self.setup, self.memory_limit, self.experiments, self.top_bar, self)
        self._limits.workspace_wanted.connect(lambda: self.show_workspace("memory"))
        self._limits.refused.connect(self.notice.tell)

    def _connect_runs(self) -> None:
        self.runs.checked_changed.connect(self._compare_ticked)
        self.runs.compare_requested.connect(self._open_comparison)
        self.runs.delete_requested.connect(self._delete)
        self.runs.rename_requested.connect(lambda run, name: self.experiments.rename(run.id, name))
        self.runs.stop_requested.connect(self.experiments.stop)
        self.runs.take_out_requested.connect(self.experiments.take_out)
        self.runs.begin_requested.connect(lambda run_id: self.experiments.resume_waiting((run_id,)))
        self.runs.set_begin_obstacle(self.experiments.why_not_begun)
        self.runs.resume_requested.connect(self._resume)
        self.runs.set_resume_obstacle(self.experiments.why_not_resumed)
        self.runs.open_requested.connect(self._open_run)
        self.runs.details_requested.connect(self._open_details)
        self.runs.use_settings_requested.connect(self._use_settings)

    def _connect_experiments(self) -> None:
        self.experiments.catalog_known.connect(self._take_catalog)
        self.experiments.list_changed.connect(self._show_list)
        self.experiments.run_changed.connect(self._show_run)
        self.experiments.began.connect(self._follow)
        self.experiments.ended.connect(self._end)
        self.experiments.pause_asked.connect(self.live.set_pause_asked)
        self.experiments.logged.connect(self.dock.log.append)
        self.experiments.problem.connect(self._tell)

    def _install_shortcuts(self) -> None:
        install(
            self,
            {
                "run": self.setup.run_action,
                "queue": self.setup.queue_action,
                "save": self.setup.save_action,
                "reset": self.setup.reset_action,
                "pause": self.experiments.toggle_pause,
                "stop": self.experiments.stop,
                "train": lambda: self.show_workspace("train"),
                "memory": lambda: self.show_workspace("memory"),
                "compare": lambda: self.show_workspace("compare"),
                "limit": self.setup.find_limit,
                "filter": self.runs.filter.setFocus,
                "fold": lambda: self.runs.set_open(not self.runs.is_open()),
                "log": self.dock.toggle_log,
                "theme": theme().toggle,
                "help": lambda: show_help(self),
                "quit": self.close,
            },
        )

    def show_workspace(self, key: str) -> None:
        """Brings "train", "memory" or "compare" to the front, with its side column."""
        index = [name for name, _, _ in WORKSPACES].index(key)
        if key != self.workspace:
            self._make_room(key)
        self._workspaces.setCurrentIndex(index)
        self._side.setCurrentWidget(self.column if key == "compare" else self.setup)
        self.setup.set_on_limits(key == "memory")
        self._limits.refresh()
        if key == "memory":
            self._limits.open_newest()
        self.top_bar.set_workspace(key)

    def _make_room(self, workspace: str) -> None:
        """Folds the dock where the height is needed above it, and unfolds it again for training."""
        if self.workspace == "train":
            self._dock_was_open = self.runs.is_open()
        is_low = self.dock.usual_height(self.height()) < OPEN_HEIGHT
        is_crowded = {"compare": len(self.runs.checked()) > 1, "memory": is_low}
        self.runs.set_open(self._dock_was_open and not is_crowded.get(workspace, False))

    @property
    def workspace(self) -> str:
        return WORKSPACES[self._workspaces.currentIndex()][0]

    def close_without_asking(self) -> None:
        """Closes even while a run trains; the run is stopped and keeps what it recorded."""
        self._asks_before_closing = False
        self.close()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        # after the first paint: the worker that it starts would take a core from it
        QTimer.singleShot(0, self.experiments.start)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.dock.usual_height(event.oldSize().height()) != self.dock.usual_height(event.size().height()):
            # a window that became low gives the plots the room, and one that became high the runs
            self._fold_dock(self.runs.is_open())

    def closeEvent(self, event: QCloseEvent) -> None:
        if (
            self._asks_before_closing
            and self.experiments.running
            and not may_stop(self, len(self.experiments.waiting))
        ):
            event.ignore()
            return
        self.hide()
        self._timer.stop()
        self._memory.stop()
        remember(self._settings, self._kept())
        self.experiments.shut_down()
        super().closeEvent(event)

    def _take_catalog(self, catalog: Catalog) -> None:
        self.setup.set_catalog(catalog)
        device = catalog.devices[0]
        self.top_bar.set_device(device)
        self._memory.start(device)
        self._limits.refresh()

    def _submit(self, request: Request) -> None:
        try:
            run_ids = self.experiments.submit(request.title, request.experiments, request.name)
        except ProblemError as error:
            self._tell(error.problem)
            return
        self.notice.drop()
        if self.experiments.running is None:
            self._watch(run_ids)
        self.show_workspace("train")

    def _follow(self, run_id: str) -> None:
        """Shows the run that began, beside those it will be compared with."""
        self._watch(self.experiments.group(run_id))
        self.setup.set_running(True)
        self.experiments.forecaster.set_busy(True)
        record = self.experiments.record(run_id)
        on_cpu = record is not None and self._trains_on_cpu(record.experiment.device)
        rate = self._repaint_hz or (CPU_REPAINT_HZ if on_cpu else GPU_REPAINT_HZ)
        self._timer.start(1000 // rate)

    def _trains_on_cpu(self, device: str) -> bool:
        catalog = self.experiments.catalog
        entry = catalog.device(device) if catalog else None
        return entry is None or not entry.is_gpu

    def _repaint(self) -> None:
        """All that moves while a run trains, and none of it more often than this."""
        if self.live.isVisible():
            self.live.refresh()
        if self.experiments.running is not None:
            self.runs.set_progress(self.experiments.running, self.experiments.progress())

    def _end(self, run_id: str) -> None:
        self._timer.stop()
        self.live.refresh()
        self.setup.set_running(False)
        self.experiments.forecaster.set_busy(False)
        self._offer_retries(run_id)
        self._show_comparison()

    def _offer_retries(self, run_id: str) -> None:
        """Offers what would fit, where a run ran out of memory and a forecast knows it."""
        record = self.experiments.record(run_id)
        if record is None or record.problem is None:
            return
        offers = [(retry.words, partial(self._retry, retry)) for retry in self.experiments.retries(run_id)]
        if offers:
            (words, do), other = offers[0], offers[1] if len(offers) > 1 else None
            self.notice.tell(record.problem.message, record.problem.remedy, words, do, other=other)

    def _retry(self, retry: Retry) -> None:
        label = retry.experiment.precision.label
        self._submit(Request("", ((label, retry.experiment),), is_comparison=False))

    def _watch(self, run_ids: tuple[str, ...]) -> None:
        """Puts runs into the live panel."""
        self._followed = tuple(run_id for run_id in run_ids if self.experiments.record(run_id))
        records = [self.experiments.record(run_id) for run_id in self._followed]
        labels = [record.label or record.experiment.precision.label for record in records if record]
        names = [record.name for record in records if record]
        self.live.set_title(" against ".join(labels) if len(labels) > 1 else "".join(names))
        self.live.set_runs([self.experiments.live(run_id) for run_id in self._followed])
        self.live.refresh()

    def _show_list(self) -> None:
        self.runs.set_runs(self.experiments.records())
        left = tuple(run_id for run_id in self._followed if self.experiments.record(run_id))
        if left != self._followed:
            self._watch(left)
        self._show_comparison()

    def _show_run(self, run_id: str) -> None:
        record = self.experiments.record(run_id)
        if record is not None:
            self.runs.update_run(record)

    def _open_run(self, run_id: str) -> None:
        self._watch(self.experiments.group(run_id))
        self.show_workspace("train")

    def _open_details(self, run_id: str) -> None:
        self._open_run(run_id)
        self.live.open_details()

    def _resume(self, run_id: str) -> None:
        self.experiments.resume(run_id)
        if self.experiments.running is None:
            self._open_run(run_id)

    def _use_settings(self, run: RunRecord) -> None:
        self.setup.use_settings(run.experiment)
        self.show_workspace("train")

    def _delete(self, run_ids: tuple[str, ...]) -> None:
        if may_delete(self, len(run_ids)):
            self.experiments.delete(run_ids)

    def _compare_ticked(self, _run_ids: tuple[str, ...]) -> None:
        self._show_comparison()

    def _open_comparison(self, _run_ids: tuple[str, ...]) -> None:
        self._show_comparison()
        self.show_workspace("compare")

    def _show_comparison(self) -> None:
        """Lays the ticked runs that have figures over one another, in the order they were made."""
        records = [self.experiments.record(run_id) for run_id in self.runs.checked()]
        runs = tuple(sorted((record for record in records if record is not None), key=lambda one: one.number))
        self.column.set_runs(runs)
        self.compare.show_runs(self.column.choice(), [(run, self.experiments.live(run.id)) for run in runs])

    def _tell(self, problem: Problem) -> None:
        self.notice.tell(sentence(problem), problem.remedy)

    def _offer_waiting(self) -> None:
        left = self.experiments.left_waiting()
        if not left:
            return
        text = "1 run is" if len(left) == 1 else f"{len(left)} runs are"
        self.notice.tell(
            f"{text} still in the queue from last time.",
            action="Run now",
            do=lambda: self.experiments.resume_waiting(left),
        )

    def _restore(self) -> None:
        """Starts from the first preset, and lays over it what the last window left."""
        self.setup.set_presets(all_presets())
        self.setup.choose_preset(FIRST_PRESET)
        restore(self._settings, self._kept())
        self.dock.settle()

    def _kept(self) -> tuple[Kept, ...]:
        middle, body = self._middle, self._body
        return (
            Kept(Key.FORM, self.setup.state, self.setup.restore),
            Kept(Key.RUNS_TABLE, self.runs.state, self.runs.restore),
            Kept(Key.TICKED_RUNS, lambda: list(self.runs.checked()), self.runs.set_checked),
            Kept(Key.DOCK_OPEN, self._dock_is_open, self.runs.set_open),
            Kept(Key.DOCK_PAGE, lambda: self.dock.page, self.dock.show_page),
            kept_bytes(Key.GEOMETRY, self.saveGeometry, self.restoreGeometry),
            kept_bytes(Key.SIDE_SPLITTER, body.saveState, body.restoreState),
            kept_bytes(Key.DOCK_SPLITTER, middle.saveState, middle.restoreState),
            Kept(Key.MEMORY_LIMIT, self.memory_limit.state, self.memory_limit.restore),
            Kept(Key.WORKSPACE, lambda: self.workspace, self.show_workspace),
            Kept(Key.THEME, lambda: theme().mode, theme().set_mode),
        )

    def _dock_is_open(self) -> bool:
        """Whether the dock is open, or will be again when the workspace that folded it is left."""
        return self._dock_was_open if self.workspace != "train" else self.runs.is_open()

    def _fold_dock(self, _is_open: bool) -> None:
        height, dock = self._middle.height(), self.dock.usual_height(self.height())
        self._middle.setSizes([max(1, height - dock), dock])


def _stacked(above: QWidget, below: QWidget) -> QWidget:
    holder = QWidget()
    column = QVBoxLayout(holder)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    column.addWidget(above)
    column.addWidget(below, 1)
    return holder
