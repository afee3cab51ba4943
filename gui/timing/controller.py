"""Connects the form, the runs, the workspace Timing and the engine's timings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.experiment.experiment import Experiment
from engine.experiment.problem import ProblemError
from engine.export.timing.formats import TIMING_FORMATS, TRACE, TRACE_FORMATS
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.session.orders.shown import ShownWork
from gui.setup.panel import SetupPanel
from gui.timing.panel import TimingPanel
from gui.timing.words import saved_entry, unfinished_entry
from gui.widgets.saved_menu import SavedEntry


class TimingController(QObject):
    """`workspace_wanted` asks for the workspace; `reported` carries what was done, or why nothing was;
    `written` the path of a file."""

    workspace_wanted = Signal()
    reported = Signal(str)
    written = Signal(object)  # Path

    def __init__(
        self,
        setup: SetupPanel,
        panel: TimingPanel,
        experiments: Experiments,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._panel, self._experiments = panel, experiments
        self._timings = experiments.timings
        self._background = Background(self)
        head = panel.head
        self._shown = ShownWork(self._timings, panel.show_view, stop=head.stop, menu=head.menu)
        head.menu.set_source(self._menu_entries)
        setup.timing_requested.connect(self.submit)
        setup.timing_refused.connect(self._refuse)
        panel.explain_wanted.connect(setup.explain)
        panel.again.clicked.connect(self._profile_again)
        panel.changes_wanted.connect(setup.use_changes)
        head.export.asked.connect(self.export)

    def open_newest(self) -> None:
        """Shows the timing in progress, else the newest saved, unless one is shown."""
        self._shown.open_newest()

    def submit(self, experiments: Sequence[Experiment], run_ids: Sequence[str | None] = ()) -> None:
        """Queues profiles of experiments, or of runs, and shows them."""
        try:
            self._experiments.trust.check(experiments)
            key = self._timings.submit(experiments, run_ids)
        except ProblemError as error:
            self._refuse(error.problem.message)
            return
        self._shown.show(key)
        self.workspace_wanted.emit()

    def explain(self, run_ids: Sequence[str]) -> None:
        """Shows the newest timing of these runs side by side, or makes one."""
        known = self._timings.of_runs(run_ids)
        if known is not None:
            self._shown.show(known)
            self.workspace_wanted.emit()
        elif (against := self._experiments.why_not_explained(run_ids)) is not None:
            self._refuse(against)
        else:
            runs = [run for run_id in run_ids if (run := self._experiments.runs.record(run_id)) is not None]
            self.submit([run.experiment for run in runs], run_ids)

    def export(self, path: Path) -> None:
        """Writes the timing that is shown, in the format of the path's ending."""
        record = self._timings.record(self._shown.key or "")
        if record is None:
            return
        formats = TRACE_FORMATS if path.name.endswith(TRACE) else TIMING_FORMATS
        # the dialog has asked whether to replace a file of that name
        self._background.do(
            lambda: formats.export(record, path, force=True),
            self.written.emit,
            lambda problem: self.reported.emit(f"{problem.message} {problem.remedy}"),
        )

    def stop(self) -> None:
        """Waits for a file that is being written, before the window closes."""
        self._background.stop()

    def _profile_again(self) -> None:
        view = self._timings.view(self._shown.key or "")
        if view is not None:
            runs = self._experiments.runs
            # a deleted run is profiled as what it was
            run_ids = [run_id if run_id and runs.record(run_id) else None for run_id in view.run_ids]
            self.submit([side.experiment for side in view.timing.sides], run_ids)

    def _menu_entries(self) -> list[SavedEntry]:
        return [
            *map(unfinished_entry, self._timings.unfinished()),
            *(saved_entry(key, record) for key, record in self._timings.saved().items()),
        ]

    def _refuse(self, reason: str) -> None:
        self.workspace_wanted.emit()
        self.reported.emit(reason)
