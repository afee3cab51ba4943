"""The main window: its panels, and the signals between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QPaintEvent
from PySide6.QtWidgets import QMainWindow, QWidget

from engine.compare.failure import FailureRemedy
from engine.experiment.checks import Catalog
from engine.experiment.presets import all_presets, broken_presets
from engine.experiment.problem import Problem, ProblemError
from engine.store.record import RUN, RunRecord
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.results.place import ResultsPlace
from gui.runs.controller import RunsController
from gui.runs.queue_panel import QueueController
from gui.runs.queue_table import QueueSchedule
from gui.session.experiments import Experiments
from gui.session.items import QueueItem, describe_work
from gui.session.request import Request
from gui.setup.model.report import CheckController, may_run
from gui.setup.panel import SetupPanel
from gui.setup.question import QUESTIONS, offer_texts
from gui.setup.sweep.survey import EstimateData
from gui.theme.theme import theme
from gui.train.failure import open_file
from gui.train.panel import LivePanel
from gui.widgets import FocusRing
from gui.widgets.actions import PLACES, Actions
from gui.widgets.boxes import in_column, wide
from gui.widgets.messages import LEAVE, may_leave, may_stop
from gui.window.body import Body, ModelDrops
from gui.window.busy_machine import BusyMachineMonitor
from gui.window.chips import DeviceMemory, describe_activity, start_text
from gui.window.engine import EngineController
from gui.window.in_view import RunsInView
from gui.window.later import LATER, LaterPages
from gui.window.machines import MachinesController
from gui.window.queue_popover import QueuePopover
from gui.window.remembered import HasState, Kept, Key, Settings, kept_parts, remember, restore, state_parts
from gui.window.top_bar import TopBar

FIRST_PRESET = "fashion"
GUIDES = {
    "compare": "compare-precisions",
    "script": "compare-scripts",
    "limit": "largest-batch",
    "numerics": "check-numerics",
    "profile": "profile-a-step",
    "sweep": "sweep-settings",
    "tune": "tune",
    "results": "results-and-export",
    "show": "demo",
}
"""The page of the guide about each page of the window."""
FULL_SIZE = QSize(1440, 900)
WINDOW_FRAME = QSize(8, 40)
"""Roughly what a window manager adds around a window: the exact size is known only once it is shown."""


class MainWindow(QMainWindow):
    """The main window. It creates all pages and connects them to `experiments`.

    `make_installer` replaces the installer of PyTorch, for tests.
    """

    painted = Signal()  # once, after its first paint, when all pages are made

    def __init__(
        self,
        store: Store,
        launcher: Launcher,
        settings: Settings | None = None,
        repaint_hz: int | None = None,
        make_installer: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__()
        self.setWindowTitle("Ammeter")
        # with its frame it fits the smallest screens, of 1024 by 600
        self.setMinimumSize(960, 560)
        room = self.screen().availableSize() - WINDOW_FRAME
        self.resize(room.boundedTo(FULL_SIZE).expandedTo(self.minimumSize()))
        self._settings = settings or Settings.load()
        self._asks_before_closing, self._is_painted, self._leaves = True, False, False
        self._store_path = store.path
        self.experiments = Experiments(store, launcher, self)
        self._make_panels()
        setup, notice, bar = self.setup, self.notice, self.top_bar
        self.engine = EngineController(
            self.experiments, setup, self.live, bar, self.runs.welcome, notice, self, make_installer
        )
        self.machines = MachinesController(self.experiments, bar.device, setup, notice, self)
        self._checks = CheckController(self.experiments, self)
        self._runs_controller = RunsController(self.runs, self.experiments, self.notice, self)
        self.in_view = RunsInView(
            self.live,
            self.runs,
            self.experiments,
            self.notice,
            self._is_reported,
            repaint_hz,
            self,
        )
        self._queue_controller = QueueController(
            self.backstage.queue, self.experiments.works, self.notice, self
        )
        self._queue_controller.scheduled.connect(self._show_activity)
        self._queue_controller.show_wanted.connect(self._show_item)
        self._connect()
        self.experiments.load()
        self._restore()
        problems = (f"{problem.message} {problem.remedy}" for problem in broken_presets())
        for text in (*store.notes, *problems):
            self.backstage.log.append("warning", text)
        self._runs_controller.begin(self._queue_controller.offer_left)

    def _make_panels(self) -> None:
        holder = QWidget(self)
        self.setCentralWidget(holder)
        # the tab order is that in which they are made
        self.window_actions = self._make_actions()
        self.top_bar = TopBar(self.window_actions, holder)
        self.body = Body(holder)
        self.notice = self.body.notice
        self.backstage = QueuePopover(self.top_bar.activity)
        in_column(self.top_bar, wide(self.body), parent=holder, spacing=0)
        self.live = LivePanel(self.body.pages)
        self.results = ResultsPlace(self.body.pages)
        self.runs = self.results.runs
        seconds = self.experiments.works.factory.expected_seconds
        self.setup = SetupPanel(self.body.side, self.experiments.trust.code, seconds)
        runs = self.experiments.runs
        self.setup.scripts.precision_seen = runs.precision_seen
        self.setup.survey_thread.evidence = lambda: EstimateData(
            self.experiments.forecasts(),
            tuple(run for run in runs.records() if run.machine == self.experiments.machine),
        )
        for name, action in (
            ("run", self.setup.run_action),
            ("save", self.setup.own_presets.save_action),
            ("reset", self.setup.reset_action),
        ):
            self.window_actions.add(name, action)
        self.body.add("compare", self.live, self.setup)
        self.body.add("results", self.results, None)
        self._memory = DeviceMemory(self)
        self._focus_ring = FocusRing(self)
        self._drops = ModelDrops(self, self._open_model)
        self._busy_machine = BusyMachineMonitor(
            self.setup, self._may_look_around, self.experiments.submit_request, self
        )

    @cached_property
    def others(self) -> LaterPages:
        """Return all pages except that of a comparison, made on demand or after the first paint."""
        from gui.window.pages import OtherPages

        bar, live, results = self.top_bar, self.live, self.results
        others = OtherPages(
            self._store_path, self.experiments, self.setup, self.body, live, results, bar, self
        )
        others.page_wanted.connect(self.show_page)
        others.guide_wanted.connect(self.show_guide)
        others.problem.connect(self.report)
        others.runs_wanted.connect(self.in_view.show)
        others.form_wanted.connect(self.go_to_form)
        others.remedy_wanted.connect(self.apply_remedy)
        others.engine_wanted.connect(self.engine.show_page)
        self.in_view.progressed.connect(others.demo.refresh)
        self.in_view.repaint_ms_changed.connect(others.demo.set_frame_ms)
        restore(self._settings, state_parts(others.parts()))
        others.set_in_sight(self.page)
        return others

    @cached_property
    def _notifications(self) -> Any:
        """Return the `Notifications`, made on first use because they load a network library."""
        from gui.window.desktop import Notifications

        return Notifications(self)

    @property
    def _has_others(self) -> bool:
        return "others" in vars(self)

    def _connect(self) -> None:
        self.top_bar.activity.clicked.connect(lambda: self.backstage.toggle_page("queue"))
        self.setup.submitted.connect(self.experiments.submit_request)
        self.setup.check_wanted.connect(self._checks.check)
        self._checks.again_wanted.connect(self.setup.check_action.trigger)
        self.setup.page_wanted.connect(self.show_page)
        for source in (self.setup, self._checks):
            source.reported.connect(self.report)
        self.setup.changed_itself.connect(
            lambda text, undo: self.notice.notify(text, action="Undo", do=undo, asks=False)
        )
        self.body.compact_changed.connect(self.setup.set_compact)
        self.setup.run_action.changed.connect(
            lambda: self.live.set_offer(
                *offer_texts(
                    self.setup.question, self.setup.outcome(), self.experiments.machine or "this machine"
                )
            )
        )
        self.experiments.trust.ask = lambda code: may_run(code, self)
        self._memory.read.connect(self.top_bar.device.set_usage)
        self.live.experiment_wanted.connect(self.setup.run_action.trigger)
        self.live.remedy_wanted.connect(self.apply_remedy)
        self.runs.use_settings_requested.connect(self._use_settings)
        self.live.answer_wanted.connect(lambda run_ids: self.others.read_answer(run_ids))
        self.live.replay_wanted.connect(lambda run_ids: self.others.replay(run_ids))
        self.live.export_wanted.connect(lambda run_ids: self.others.export_runs(run_ids))
        for panel in (self.runs, self.live):
            panel.profile_requested.connect(lambda run_ids: self.others.profile_runs(run_ids))
        self.machines.problem.connect(self.report)
        self.machines.engine_wanted.connect(self.engine.show_page_of_machine)
        self.engine.page_shown.connect(lambda: self.in_view.show(()))
        self.in_view.page_wanted.connect(lambda: self.bring_up("compare"))
        self.experiments.machine_changed.connect(self._memory.stop)
        self.experiments.catalog_known.connect(self._on_catalog)
        self.experiments.busy_changed.connect(self._show_busy)
        self.experiments.logged.connect(self.backstage.log.append)
        self.experiments.problem.connect(self._on_problem)
        self.experiments.submitted.connect(self._on_submitted)
        self.experiments.works.finished.connect(
            lambda text: self._notifications.notify("Ammeter has finished", text)
        )

    def _make_actions(self) -> Actions:
        functions: dict[str, Callable[[], object]] = {
            "pause": self.experiments.toggle_pause,
            "stop": self.experiments.stop,
            **{place.name: partial(self.show_page, place.name) for place in PLACES},
            "present": lambda: self.others.present(),
            "limit": lambda: self.setup.submit("limit"),
            "undo": lambda: self._runs_controller.undo(),
            "filter": self._go_to_filter,
            "export": lambda: self.others.export(),
            "import": lambda: self.others.ask_for_archive(),
            "waiting": lambda: self.backstage.toggle_page("queue"),
            "log": lambda: self.backstage.toggle_page("log"),
            "theme": theme().toggle,
            "help": self.show_guide,
            "engine": lambda: self.engine.show_dialog(),
            "doctor": self._show_doctor,
            "about": self._show_about,
            "welcome": lambda: self.others.welcome(),
            "quit": self.close,
        }
        return Actions(self, functions)

    def _show_doctor(self) -> None:
        from gui.installation.doctor_page import show_doctor

        show_doctor(self, lambda: not self.experiments.is_idle, self.experiments.machine)

    def _show_about(self) -> None:
        from gui.help.dialog import show_about

        show_about(self)

    def show_guide(self, page: str | None = None) -> None:
        """Open the guide at a page, by default the one about the page in sight."""
        from gui.help.dialog import show_help

        asked = self.setup.question if self.page == "compare" else self.page
        show_help(self, page or GUIDES.get(asked))

    def show_page(self, key: str) -> None:
        """Show a place ("experiment", "results", "show"), or the page of a question, and set the question.

        Raises ValueError for an unknown key.
        """
        key = self.setup.question if key == "experiment" else key
        self.bring_up("compare" if key == "script" else key)
        if question := next((question for question in QUESTIONS if question == key), None):
            self.setup.set_question(question)

    def bring_up(self, key: str) -> None:
        """Show a page without changing the question in the form."""
        others = self.others if key != "compare" or self._has_others else None
        self.body.show_page(key)
        if others is not None:
            others.set_in_sight(key)
        self.top_bar.set_place(self.place)

    @property
    def page(self) -> str:
        """Return the current page: a question, "results" or "show"."""
        return self.body.page

    @property
    def place(self) -> str:
        """Return the current place: "experiment", "results" or "show"."""
        return self.body.place

    def _show_activity(self, schedule: QueueSchedule) -> None:
        self.top_bar.show_activity(describe_activity(schedule))
        self.setup.foot.set_facts(begins=start_text(schedule))

    def _show_item(self, item: QueueItem) -> None:
        self.backstage.dismiss()
        if item.kind == RUN:
            self.in_view.open(item.key)
        else:
            self.others.open(item.kind, item.key)

    def import_archive(self, path: Path) -> None:
        """Bring the window to the front and import the runs of an archive."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.raise_()
        self.activateWindow()
        self.others.import_archive(path)

    def close_without_asking(self) -> None:
        """Close without asking. A current run is stopped, and its results so far are kept."""
        self._asks_before_closing = False
        self.close()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._is_painted:
            self._is_painted = True
            QTimer.singleShot(0, self, self._finish)

    def _finish(self) -> None:
        # not before the first paint, from which the worker would take a core
        self.experiments.start()
        self.engine.start_checks()
        self._load_next(iter(LATER))

    def _load_next(self, modules: Iterator[str]) -> None:
        """Import and make the pages behind the first view, and handle events in between."""
        if self.isHidden():
            return
        for name in modules:
            import_module(name)
            QTimer.singleShot(0, self, lambda: self._load_next(modules))
            return
        # asking for them makes them
        assert self.others is not None
        self.painted.emit()

    def closeEvent(self, event: QCloseEvent) -> None:
        if self._asks_before_closing and not self._may_close():
            event.ignore()
            return
        self.hide()
        self.in_view.stop()
        self._queue_controller.stop()
        if self._has_others:
            self.others.stop()
        self._memory.stop()
        self._busy_machine.stop()
        self.engine.stop()
        self.machines.stop()
        if "_notifications" in vars(self):
            self._notifications.stop()
        remember(self._settings, self._kept_parts())
        self.experiments.shut_down(leaves=self._leaves)
        super().closeEvent(event)

    def _may_close(self) -> bool:
        # the runs of the demo are taken out of the queue
        tells_of, items = self.others.tells_of, self.experiments.works.items()
        waiting = describe_work(item.kind for item in items if not (item.is_running or tells_of(item.key)))
        what = self.experiments.in_progress
        if self.experiments.can_leave_running:
            run = self.experiments.runs.record(self.experiments.running or "")
            answer = may_leave(self, "" if run is None else run.machine, waiting)
            self._leaves = answer == LEAVE
            return answer is not None
        return what is None or may_stop(self, what, waiting)

    def _on_catalog(self, catalog: Catalog) -> None:
        self.setup.set_catalog(catalog)
        device = catalog.devices[0]
        self.top_bar.set_device(device)
        if catalog.machine:
            # neither the memory nor the load of another machine is looked at
            self._memory.stop()
            self.top_bar.device.set_usage(None, "")
        else:
            self._memory.start(device)
            self._busy_machine.start()
        self.live.fit_profile()
        self.engine.train_if_asked()

    def _may_look_around(self) -> bool:
        if self.experiments.machine:
            return False
        return self.experiments.is_idle and (self._busy_machine.is_waiting or self.setup.isVisible())

    def _on_submitted(self, kind: str, key: str) -> None:
        self.notice.drop()
        if kind == RUN:
            self.in_view.show_submitted(key)
        else:
            self.others.open(kind, key)

    def apply_remedy(self, remedy: FailureRemedy) -> None:
        """Do what a failure's remedy says. To train again, set the form to it first."""
        if remedy.action == "open" and remedy.file is not None:
            open_file(remedy.file)
            return
        try:
            sides = remedy.experiments()
        except ProblemError as error:
            self.report(error.problem)
            return
        self.setup.use_settings(sides[0][1], [experiment.precision for _, experiment in sides])
        self.show_page("experiment")
        if remedy.action == "check":
            self.setup.check_action.trigger()
        else:
            title = " against ".join(label for label, _ in sides) if len(sides) > 1 else ""
            self.experiments.submit_request(Request(title, sides, repeats=remedy.repeats))

    def _show_busy(self) -> None:
        was_pressed = self.setup.foot.run_button.hasFocus()
        self.setup.set_busy(self.experiments.busy_words is not None)
        self.experiments.forecaster.set_busy(self.experiments.busy_words is not None)
        if was_pressed and self._has_others:
            # a press of Space would queue the same again
            self.others.focus_stop(self.experiments.in_progress)

    def _use_settings(self, run: RunRecord) -> None:
        self.setup.use_settings(run.experiment)
        self.show_page("experiment")

    def _open_model(self, path: str) -> None:
        self.show_page("experiment")
        self.setup.picker.open(path)

    def go_to_form(self) -> None:
        """Show the form, with the focus on its button."""
        self.show_page("experiment")
        self.setup.foot.run_button.setFocus()

    def _go_to_filter(self) -> None:
        self.show_page("results")
        self.runs.filter.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _on_problem(self, problem: Problem) -> None:
        if self.page == "compare" and self.live.failure == problem:
            # the page says it, also what was said here of the run before
            self.notice.drop()
        # Show reports on its page how its own runs end
        elif self.experiments.running is not None or not (self._has_others and self.others.is_measuring):
            self.report(problem)

    def _is_reported(self, run_id: str) -> bool:
        if self.page == "compare" and run_id in (run.run_id for run in self.live.runs()):
            return True
        return self._has_others and self.others.tells_of(run_id)

    def report(self, problem: Problem) -> None:
        self.notice.notify(problem.message, problem.remedy)

    def _restore(self) -> None:
        """Start from the first preset, and restore the state of the last window."""
        self.setup.set_presets(all_presets())
        self.setup.choose_preset(FIRST_PRESET)
        is_first = self._settings.is_new and not self.experiments.runs.records()
        if is_first and self.experiments.engine.is_usable:
            self.others.welcome()
        restore(self._settings, self._kept_parts())

    def _kept_parts(self) -> tuple[Kept, ...]:
        machine = Kept(Key.MACHINE, self.machines.state, self.machines.restore)
        states: dict[Key, HasState] = {Key.FORM: self.setup, Key.ENGINE: self.engine}
        if self._has_others:
            states |= self.others.parts()
        return (machine, *kept_parts(self, self.body, self.results, states, self.show_page))
