"""The workspaces other than Train, which are made after the window's first paint."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMainWindow

from engine.protocol.numerics.advice import Changes
from gui.compare.column import ComparisonColumn
from gui.compare.controller import CompareController
from gui.compare.panel import ComparePanel
from gui.limit.controller import LimitController
from gui.limit.panel import MemoryLimitPanel
from gui.numerics.controller import NumericsController
from gui.numerics.panel import NumericsPanel
from gui.session.experiments import Experiments
from gui.setup.panel import SetupPanel
from gui.show.controller import ShowController
from gui.show.panel import ShowPanel
from gui.sweep.controller import SweepController
from gui.sweep.fastest.controller import FastestController
from gui.sweep.panel import SweepPanel
from gui.timing.controller import TimingController
from gui.timing.export import TRACE_WRITTEN
from gui.timing.panel import TimingPanel
from gui.widgets.answers.answer_page import changes_words
from gui.window.body import Body
from gui.window.remembered import HasState, Key
from gui.window.top_bar import TopBar

_WORKSPACES = {
    "limit": "memory",
    "numerics": "numerics",
    "profile": "timing",
    "sweep": "sweep",
    "tune": "sweep",
}
"""The workspace of each kind of orders."""


class OtherWorkspaces(QObject):
    """Makes the panels in the window's body, and joins their controllers.

    `workspace_wanted` carries the workspace to show; `experiment_wanted` asks for the form; `problem` carries
    the Problem to report, `runs_wanted` runs to show in Train; `engine_wanted` asks to set up the engine.
    """

    workspace_wanted = Signal(str)
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
    ) -> None:
        super().__init__(window)
        self._window = window
        self._experiments = experiments
        self._top_bar, self._setup, self._runs, self._notice = top_bar, setup, body.dock.runs, body.notice
        pages, side = body.pages, body.side
        # the order of Tab is that in which they are made
        self.memory_limit = MemoryLimitPanel(pages)
        self.compare = ComparePanel(pages)
        self.column = ComparisonColumn(side)
        self.show_panel = ShowPanel(pages)
        self.numerics_panel = NumericsPanel(pages)
        self.timing_panel = TimingPanel(pages)
        self.sweep_panel = SweepPanel(pages)
        body.add("memory", self.memory_limit, setup)
        body.add("compare", self.compare, self.column)
        body.add("show", self.show_panel, None)
        body.add("numerics", self.numerics_panel, setup)
        body.add("timing", self.timing_panel, setup)
        body.add("sweep", self.sweep_panel, setup)
        self.limits = LimitController(setup, self.memory_limit, experiments, self)
        self.numerics = NumericsController(setup, self.numerics_panel, experiments, self)
        self.timings = TimingController(setup, self.timing_panel, experiments, self)
        self.sweeps = SweepController(store_path, setup, self.sweep_panel, experiments, self)
        self.fastest = FastestController(setup, self.sweep_panel, experiments, self)
        self.comparisons = CompareController(
            store_path, experiments, self._runs, self.column, self.compare, self._notice, window
        )
        self.shows = ShowController(
            store_path,
            experiments,
            self.show_panel,
            self.comparisons,
            self._notice,
            window,
            (top_bar, self._notice),
        )
        self._stops = {
            "limit": self.memory_limit.stop,
            "numerics": self.numerics_panel.head.stop,
            "profile": self.timing_panel.head.stop,
            "sweep": self.sweep_panel.head.stop,
            "tune": self.sweep_panel.fastest_head.stop,
        }
        self._connect()

    def parts(self) -> dict[Key, HasState]:
        """The workspaces' remembered states."""
        return {
            Key.MEMORY_LIMIT: self.memory_limit,
            Key.NUMERICS: self.numerics_panel,
            Key.TIMING: self.timing_panel,
            Key.SWEEP: self.sweep_panel,
            Key.EXPORT: self.comparisons,
            Key.SHOW: self.shows,
        }

    def set_in_sight(self, key: str) -> None:
        """Sets which workspace is visible."""
        self.comparisons.set_in_sight(key == "compare")
        self.shows.set_in_sight(key == "show")
        self.limits.refresh()
        if key == "memory":
            self.limits.open_newest()
        if key == "numerics":
            self.numerics.open_newest()
        if key == "timing":
            self.timings.open_newest()
        self.sweeps.set_in_sight(key == "sweep")
        for controller in (self.sweeps, self.fastest):
            if key == "sweep" and self.sweep_panel.is_empty:
                controller.open_newest()

    def find_limit(self) -> None:
        """Searches for the largest batch of what the form describes."""
        self._setup.order("limit")

    def stop(self) -> None:
        """Waits for what is being read or written, before the window closes."""
        self.comparisons.stop()
        self.numerics.stop()
        self.timings.stop()
        self.sweeps.stop()
        self.fastest.stop()
        self.shows.stop()

    def focus_stop(self, what: str | None) -> None:
        """Puts the focus on the button that stops an order of this kind."""
        if what in self._stops:
            self._stops[what].setFocus()

    def _connect(self) -> None:
        for what, workspace in _WORKSPACES.items():
            self._experiments.orders[what].busy_changed.connect(partial(self._top_bar.set_busy, workspace))
        self.limits.workspace_wanted.connect(lambda: self.workspace_wanted.emit("memory"))
        self.numerics.workspace_wanted.connect(lambda: self.workspace_wanted.emit("numerics"))
        self.timings.workspace_wanted.connect(lambda: self.workspace_wanted.emit("timing"))
        for teller in (self.sweeps, self.fastest):
            teller.workspace_wanted.connect(lambda: self.workspace_wanted.emit("sweep"))
            teller.comparison_wanted.connect(self.comparisons.compare)
        experiments = self._experiments
        for head in (self.sweep_panel.head, self.sweep_panel.fastest_head):
            head.menu.set_source(lambda: (*experiments.sweeps.entries(), *experiments.tunings.entries()))
        self.sweeps.runs_wanted.connect(self.runs_wanted)
        for panel in (self.numerics_panel, self.timing_panel, self.sweep_panel):
            panel.guide_wanted.connect(self._show_guide)
        for controller in (self.limits, self.numerics, self.timings, self.sweeps, self.fastest):
            controller.reported.connect(self._notice.tell)
            controller.written.connect(self._tell_written)
        self._runs.find_nan_requested.connect(self.numerics.find_nonfinite)
        self._runs.ranges_requested.connect(self.numerics.show_samples)
        self._runs.sweep_requested.connect(self.sweeps.open)
        self._setup.changes_used.connect(self._tell_changes)
        self._experiments.ended.connect(self._offer_to_find)
        self.comparisons.workspace_wanted.connect(lambda: self.workspace_wanted.emit("compare"))
        self.comparisons.problem.connect(self.problem)
        self.column.why_not_explained = self._experiments.why_not_explained
        self.column.explain_wanted.connect(self.timings.explain)
        self._experiments.catalog_known.connect(lambda _catalog: self.column.fit_explain())
        self.compare.experiment_wanted.connect(self.experiment_wanted)
        self.shows.offer(self._runs, self.column)
        self.shows.show_me.at_work.connect(lambda is_on: self._top_bar.set_busy("show", is_on))
        self.shows.workspace_wanted.connect(self.workspace_wanted)
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

    def _tell_changes(self, changes: Changes, undo: Callable[[], object]) -> None:
        self._notice.tell(f"Put into the form: {changes_words(changes)}.", action="Undo", do=undo, asks=False)
