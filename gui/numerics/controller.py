"""Connects the form, the workspace Numerics and the engine's diagnoses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.experiment.experiment import Experiment
from engine.experiment.presets import Preset
from engine.experiment.problem import ProblemError
from engine.export.diagnosis.formats import DIAGNOSIS_FORMATS
from engine.protocol.numerics.diagnosis import Part
from engine.store.record import RunRecord
from gui.numerics.map.view import KEY
from gui.numerics.panel import NumericsPanel
from gui.numerics.words import saved_entry, unfinished_entry
from gui.session.background import Background
from gui.session.experiments import Experiments
from gui.session.orders.shown import ShownWork
from gui.setup.panel import SetupPanel
from gui.widgets.saved_menu import SavedEntry

_NO_PARTS = "Tick what to diagnose."
_NO_SAMPLES = "This run has no sample of its ranges yet."


class NumericsController(QObject):
    """`workspace_wanted` asks for the workspace; `reported` carries what was done, or why nothing was;
    `written` the path of a file."""

    workspace_wanted = Signal()
    reported = Signal(str)
    written = Signal(object)  # Path

    def __init__(
        self,
        setup: SetupPanel,
        panel: NumericsPanel,
        experiments: Experiments,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._setup, self._panel, self._experiments = setup, panel, experiments
        self._diagnoses = experiments.diagnoses
        self._background = Background(self)
        self._shown = ShownWork(
            self._diagnoses, panel.show_diagnosis, stop=panel.head.stop, menu=panel.head.menu
        )
        panel.head.menu.set_source(self._menu_entries)
        self._connect()
        self._show_kept()

    def open_newest(self) -> None:
        """Shows the diagnosis in progress, else the newest saved, unless one is shown."""
        self._shown.open_newest()

    def submit(self, experiment: Experiment, parts: Sequence[Part], run_id: str | None = None) -> None:
        """Queues a diagnosis and shows it."""
        if not parts:
            self._refuse(_NO_PARTS)
            return
        try:
            self._experiments.trust.check([experiment])
            key = self._diagnoses.submit(experiment, parts, run_id)
        except ProblemError as error:
            self._refuse(error.problem.message)
            return
        self._shown.show(key)
        self.workspace_wanted.emit()

    def find_nonfinite(self, run: RunRecord) -> None:
        """Looks for the first NaN or Inf of a run."""
        self._panel.open_tab("nan")
        self.submit(run.experiment, ("nan",), run.id)

    def show_samples(self, run: RunRecord) -> None:
        """Shows the ranges that were sampled while a run trained."""
        runs = self._experiments.runs
        count = runs.count_ranges(run.id)
        if not count:
            self._refuse(_NO_SAMPLES)
            return
        self._shown.key = run.id
        self._panel.show_samples(run, count, lambda number: runs.ranges(run.id, number))
        self.workspace_wanted.emit()

    def export(self, path: Path) -> None:
        """Writes the diagnosis that is shown, in the format of the path's ending."""
        record = self._diagnoses.record(self._shown.key or "")
        if record is not None:
            # the dialog has asked whether to replace a file of that name
            self._background.do(
                lambda: DIAGNOSIS_FORMATS.export(record, path, force=True),
                self.written.emit,
                lambda problem: self.reported.emit(f"{problem.message} {problem.remedy}"),
            )

    def stop(self) -> None:
        """Waits for a file that is being written, before the window closes."""
        self._background.stop()

    def _connect(self) -> None:
        self._setup.diagnosis_requested.connect(
            lambda experiment: self.submit(experiment, self._panel.parts())
        )
        self._setup.diagnosis_refused.connect(self._refuse)
        self._setup.preset_chosen.connect(self._choose_parts)
        self._setup.draft_changed.connect(self._show_kept)
        self._panel.diagnose_wanted.connect(self._setup.diagnose)
        self._panel.changes_wanted.connect(self._setup.use_changes)
        self._panel.head.export.asked.connect(self.export)

    def _menu_entries(self) -> list[SavedEntry]:
        saved = self._diagnoses.saved().items()
        return [
            *map(unfinished_entry, self._diagnoses.unfinished()),
            *(saved_entry(key, record) for key, record in saved),
        ]

    def _choose_parts(self, preset: Preset) -> None:
        if preset.parts:
            self._panel.choose(preset.parts, only=True)
            self._panel.open_tab(preset.parts[0])
            self.workspace_wanted.emit()

    def _show_kept(self) -> None:
        patterns = self._setup.text(KEY).split(",")
        self._panel.map.show_kept([pattern.strip() for pattern in patterns if pattern.strip()])

    def _refuse(self, reason: str) -> None:
        self.workspace_wanted.emit()
        self.reported.emit(reason)
