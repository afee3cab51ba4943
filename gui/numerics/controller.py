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
from gui.setup.panel import SetupPanel
from gui.widgets.messages import may_delete
from gui.widgets.saved_menu import SavedEntry

_NO_PARTS = "Tick what to diagnose."
_NO_SAMPLES = "This run has no sample of its ranges yet."


class NumericsController(QObject):
    """`workspace_wanted` asks for the workspace; `reported` carries what was done, or why nothing was;
    `diagnosing_changed` whether a diagnosis is running, `written` the path of a file."""

    workspace_wanted = Signal()
    reported = Signal(str)
    diagnosing_changed = Signal(bool)
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
        self._shown: str | None = None
        panel.menu.set_source(self._menu_entries)
        self._connect()
        self._show_kept()

    def open_newest(self) -> None:
        """Shows the diagnosis in progress, else the newest saved, unless one is shown."""
        if self._shown is None and (key := self._diagnoses.running or self._diagnoses.newest()) is not None:
            self._show(key)

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
        self._show(key)
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
        self._shown = run.id
        self._panel.show_samples(run, count, lambda number: runs.ranges(run.id, number))
        self.workspace_wanted.emit()

    def export(self, path: Path) -> None:
        """Writes the diagnosis that is shown, in the format of the path's ending."""
        record = self._diagnoses.record(self._shown or "")
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
        self._panel.stop_requested.connect(self._stop)
        self._panel.saved_opened.connect(self._show)
        self._panel.delete_requested.connect(self._delete)
        self._panel.changes_wanted.connect(self._setup.use_changes)
        self._panel.export.asked.connect(self.export)
        self._diagnoses.deleted.connect(self._drop)
        self._diagnoses.changed.connect(self._update)
        self._diagnoses.began.connect(self._begin)
        self._diagnoses.ended.connect(self._end)

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

    def _show(self, key: str) -> None:
        self._shown = key
        self._panel.show_diagnosis(self._diagnoses.view(key))

    def _update(self, key: str) -> None:
        if key == self._shown:
            self._panel.show_diagnosis(self._diagnoses.view(key))

    def _begin(self, key: str) -> None:
        was_pressed = self._setup.foot.run_button.hasFocus()
        self._set_diagnosing(True)
        self._show(key)
        if was_pressed:
            # Qt would move the focus to "Add to queue", where a press of Space would queue the same again
            self._panel.stop.setFocus()

    def _end(self, key: str) -> None:
        self._set_diagnosing(self._diagnoses.running is not None)
        if self._diagnoses.view(key) is None:
            # it was taken out of the queue, or stopped before its first part
            self._drop(key)

    def _delete(self, key: str) -> None:
        if may_delete(self._panel, "this diagnosis with its parts"):
            self._diagnoses.delete(key)

    def _drop(self, key: str) -> None:
        if key == self._shown:
            self._shown = None
            self._panel.show_diagnosis(None)
            self.open_newest()

    def _set_diagnosing(self, is_diagnosing: bool) -> None:
        self._setup.set_busy(self._experiments.busy_words)
        self.diagnosing_changed.emit(is_diagnosing)
        self._experiments.forecaster.set_busy(not self._experiments.is_idle)

    def _stop(self) -> None:
        if self._shown is not None:
            self._diagnoses.stop(self._shown)

    def _refuse(self, reason: str) -> None:
        self.workspace_wanted.emit()
        self.reported.emit(reason)
