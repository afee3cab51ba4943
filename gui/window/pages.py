"""The pages other than that of a comparison, which are made after the window's first paint."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMainWindow, QPushButton

from gui.limit.controller import LimitController
from gui.limit.panel import LimitPanel
from gui.numerics.controller import NumericsController
from gui.numerics.panel import NumericsPanel
from gui.profile.controller import ProfileController
from gui.profile.export import TRACE_WRITTEN
from gui.profile.panel import ProfilePanel
from gui.results.controller import ResultsController
from gui.results.place import ResultsPlace
from gui.session.experiments import Experiments
from gui.session.orders.controller import StudyController
from gui.setup.panel import SetupPanel
from gui.show.controller import ShowController
from gui.show.panel import ShowPanel
from gui.sweep.controller import SweepController
from gui.sweep.panel import SweepPanel
from gui.tune.controller import TuneController
from gui.tune.panel import TunePanel
from gui.window.body import Body
from gui.window.remembered import HasState, Key
from gui.window.top_bar import TopBar


class OtherPages(QObject):
    """Makes the panels in the window's body, and joins their controllers.

    `page_wanted` carries the page to show; `experiment_wanted` asks for the form; `problem` carries the
    Problem to report, `runs_wanted` runs to show; `engine_wanted` asks to set up the engine.
    """

    page_wanted = Signal(str)
    experiment_wanted = Signal()
    problem = Signal(object)
    runs_wanted = Signal(object)  # tuple[str, ...]
    engine_wanted = Signal()

    def __init__(
        self,
        window: QMainWindow,
        store_path: Path,
        experiments: Experiments,
        *,
        top_bar: TopBar,
        body: Body,
        setup: SetupPanel,
        place: ResultsPlace,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._experiments = experiments
        self._setup, self._runs, self._notice = setup, place.runs, body.notice
        pages = body.pages
        # the order of Tab is that in which they are made
        self.limit_panel = LimitPanel(pages)
        self.show_panel = ShowPanel(pages)
        self.numerics_panel = NumericsPanel(pages)
        self.profile_panel = ProfilePanel(pages)
        self.sweep_panel = SweepPanel(pages)
        self.tune_panel = TunePanel(pages)
        body.add("limit", self.limit_panel, setup)
        body.add("show", self.show_panel, None)
        body.add("numerics", self.numerics_panel, setup)
        body.add("profile", self.profile_panel, setup)
        body.add("sweep", self.sweep_panel, setup)
        body.add("tune", self.tune_panel, setup)
        setup.form.put("limit", self.limit_panel.options)
        setup.form.put("numerics", self.numerics_panel.parts_choice)
        setup.form.put("tune", self.tune_panel.options)
        self.limits = LimitController(setup, self.limit_panel, experiments, self)
        self.numerics = NumericsController(setup, self.numerics_panel, experiments, self)
        self.profiles = ProfileController(setup, self.profile_panel, experiments, self)
        self.sweeps = SweepController(store_path, setup, self.sweep_panel, experiments, self)
        self.fastest = TuneController(setup, self.tune_panel, experiments, self)
        self.results = ResultsController(store_path, setup, place, experiments, self._notice, window)
        self.comparisons = self.results.comparisons
        self.compare, self.head = self.results.page.comparison, self.results.page.head
        self.shows = ShowController(
            store_path,
            experiments,
            self.show_panel,
            self.comparisons,
            self._notice,
            window,
            (top_bar, self._notice),
        )
        self._controllers: Mapping[str, StudyController[Any]] = {
            "limit": self.limits,
            "numerics": self.numerics,
            "profile": self.profiles,
            "sweep": self.sweeps,
            "tune": self.fastest,
        }
        self._stops = {
            "limit": self.limit_panel.stop,
            "numerics": self.numerics_panel.head.stop,
            "profile": self.profile_panel.head.stop,
            "sweep": self.sweep_panel.head.stop,
            "tune": self.tune_panel.head.stop,
        }
        self._connect()

    def parts(self) -> dict[Key, HasState]:
        """The pages' remembered states."""
        return {
            Key.LIMIT: self.limit_panel,
            Key.NUMERICS: self.numerics_panel,
            Key.PROFILE: self.profile_panel,
            Key.SWEEP: self.sweep_panel,
            Key.TUNE: self.tune_panel,
            Key.EXPORT: self.comparisons,
            Key.SHOW: self.shows,
        }

    def set_in_sight(self, key: str) -> None:
        """Sets which page is visible."""
        self.results.set_in_sight(key == "results")
        self.shows.set_in_sight(key == "show")
        self.limits.refresh()
        self.sweeps.set_in_sight(key == "sweep")
        if key in self._controllers:
            self._controllers[key].open_newest()

    def offers(self) -> tuple[QPushButton, ...]:
        """The buttons of the empty pages that ask what the form asks."""
        empty = (self.limit_panel.empty, self.numerics_panel.empty, self.profile_panel.empty)
        return (*(page.button for page in empty), self.tune_panel.page.offer)

    def find_limit(self) -> None:
        """Queues the limit of what the form describes."""
        self._setup.order("limit")

    def stop(self) -> None:
        """Waits for what is being read or written, before the window closes."""
        self.results.stop()
        for controller in self._controllers.values():
            controller.stop()
        self.shows.stop()

    def focus_stop(self, what: str | None) -> None:
        """Puts the focus on the button that stops an order of this kind."""
        if what in self._stops:
            self._stops[what].setFocus()

    def _connect(self) -> None:
        for page, controller in self._controllers.items():
            controller.page_wanted.connect(partial(self.page_wanted.emit, page))
            controller.reported.connect(self._notice.tell)
            controller.written.connect(self._tell_written)
        for teller in (self.sweeps, self.fastest):
            teller.comparison_wanted.connect(self.comparisons.compare)
        self.sweeps.runs_wanted.connect(self.runs_wanted)
        for panel in (self.numerics_panel, self.profile_panel, self.sweep_panel, self.tune_panel):
            panel.guide_wanted.connect(self._show_guide)
        self._runs.find_nan_requested.connect(self.numerics.find_nonfinite)
        self._runs.ranges_requested.connect(self.numerics.show_samples)
        self._experiments.ended.connect(self._offer_to_find)
        self._experiments.runs.list_changed.connect(self.comparisons.show_ticked)
        self.results.wanted.connect(lambda: self.page_wanted.emit("results"))
        self.results.problem.connect(self.problem)
        self.results.form_wanted.connect(self.experiment_wanted)
        self.results.guide_wanted.connect(self._show_guide)
        self.results.runs_wanted.connect(self.runs_wanted)
        self.compare.experiment_wanted.connect(self.experiment_wanted)
        self.shows.offer(self._runs, self.head)
        self.shows.page_wanted.connect(self.page_wanted)
        self.shows.experiment_wanted.connect(self.experiment_wanted)
        self.shows.engine_wanted.connect(self.engine_wanted)

    def _tell_written(self, path: Path) -> None:
        self._notice.tell_written(f"Wrote {path.name}.", path, TRACE_WRITTEN if path.suffix == ".gz" else "")

    def _show_guide(self, page: str) -> None:
        from gui.help.dialog import show_help

        show_help(self._window, page)

    def _offer_to_find(self, run_id: str) -> None:
        run = self._experiments.runs.record(run_id)
        if run is None or run.summary is None or self.shows.tells_of(run_id):
            return
        if (step := run.summary.first_nan_step) is not None:
            trouble = f"The loss of “{run.name}” is NaN from step {step:,} on."
        elif (scale := run.summary.final_grad_scale or 1.0) < 1.0:
            trouble = (
                f"The loss scale of “{run.name}” sank to {scale:g}: its gradients overflow at any scale."
            )
        else:
            return
        self._notice.tell(
            trouble,
            "Numerics repeats the steps before it and names the operation that made it.",
            "Find it",
            lambda: self.numerics.find_nonfinite(run),
        )
