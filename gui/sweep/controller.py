"""Connect the form, the runs, the page Sweep and the session's sweeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QInputDialog

from engine.compare.evidence import Evidence, evidence_from
from engine.experiment.experiment import Precision
from engine.export.document import Document
from engine.export.formats import SWEEP
from engine.export.kinds.sweep import document
from engine.store.record import RunRecord
from engine.store.store import Store
from engine.sweep.results import Results, results_of
from gui.answer.controller import StudyController
from gui.session.experiments import Experiments
from gui.session.reader import Reader
from gui.session.views import SweepView
from gui.setup.panel import SetupPanel
from gui.sweep.panel import SweepPanel

_EXCLUDED_BY_USER = "Excluded by the user."


class SweepController(StudyController[SweepView]):
    """Queues sweeps, shows them and exports them. `comparison_wanted` carries runs to compare.

    `runs_wanted` carries the ids of runs to show live.
    """

    comparison_wanted = Signal(object)  # tuple[str, ...]
    runs_wanted = Signal(object)  # tuple[str, ...]

    def __init__(
        self,
        store_path: Path,
        setup: SetupPanel,
        panel: SweepPanel,
        experiments: Experiments,
        parent: QObject | None = None,
        *,
        follows: bool = True,
    ) -> None:
        self._setup, self._panel, self._store_path = setup, panel, store_path
        super().__init__(experiments, "sweep", self._show_sweep, panel.head, parent, follows=follows)
        # not the thread of exports, which must not delay what is shown
        self._reader = Reader(self._next_work, self, is_in_sight=False)
        self.set_in_sight = self._reader.set_in_sight
        self._sweep_id: str | None = None
        self._revision = 0
        self._known: Mapping[str, Evidence] = {}
        self._connect()

    def export(self, path: Path) -> None:
        """Write the sweep in view, in the format of the path's ending."""
        key, store_path = self._key, self._store_path
        if key is not None:
            self._write(lambda: _export(store_path, key, path))

    def stop(self) -> None:
        self._reader.stop()
        super().stop()

    def _show_sweep(self, view: SweepView | None) -> None:
        self._panel.show_view(view)
        sweep_id, revision = (None, 0) if view is None else (view.key, view.revision)
        if sweep_id != self._sweep_id:
            self._reader.drop()
            self._sweep_id, self._known = sweep_id, {}
            self._reader.refresh()
        elif revision != self._revision:
            self._reader.refresh()
        self._revision = revision

    def _next_work(self) -> Callable[[], ReadSweep] | None:
        sweep_id, path, known = self._sweep_id, self._store_path, self._known
        return None if sweep_id is None else lambda: read_sweep(path, sweep_id, known)

    def _show_results(self, read: ReadSweep) -> None:
        self._known = read.evidence
        self._panel.show_results(read.results, read.document)

    def _order(self, order: Callable[[str], str]) -> None:
        if (view := self._panel.view()) is not None:
            self._enqueue((cell.experiment for cell in view.grid.cells), lambda: order(view.key))

    def _rename(self) -> None:
        view = self._panel.view()
        if view is not None:
            name, is_given = QInputDialog.getText(
                self._panel, "Rename the sweep", "Name of the sweep", text=view.name
            )
            if is_given:
                self._works.edit_sweep(view.key, lambda sweeps: sweeps.rename(view.key, name))

    def _compare(self) -> None:
        results, cells = self._panel.results, self._panel.chosen
        if results is None:
            return
        grid = results.grid
        if len(cells) == 1:
            cells = (grid.baseline(grid.cells[cells[0]]).index, *cells)
        run_ids = (run_id for cell in dict.fromkeys(cells) for run_id in results.cells[cell].run_ids)
        self.comparison_wanted.emit(tuple(run_ids))

    def _show_runs(self) -> None:
        if (results := self._panel.results) is not None:
            self.runs_wanted.emit(results.cells[self._panel.chosen[-1]].run_ids)

    def _use(self) -> None:
        if (results := self._panel.results) is not None:
            cell = self._panel.chosen[-1]
            self._setup.use_settings(results.grid.cells[cell].experiment)
            self.reported.emit(f"The settings of {results.cells[cell].name} are in the form.")

    def _fill_in_example(self) -> None:
        batch = self._setup.text("batch_size").replace(",", "")
        size = int(batch) if batch.isdecimal() else 0
        sizes = [f"{value}" for value in (size // 2, size, size * 2) if value] or ["32", "64", "128"]
        precisions = [experiment.precision for _, experiment in self._setup.outcome().experiments]
        if precisions == [Precision.FP32]:
            self._setup.use_changes((("precision", Precision.BF16.value),))
        self._setup.set_axis("batch_size", sizes)

    def _pause(self) -> None:
        key, cell, would_pause = self._key or "", self._panel.chosen[-1], self._panel.card.would_pause
        self._works.edit_sweep(key, lambda sweeps: sweeps.pause(key, cell, would_pause))

    def _exclude(self) -> None:
        reason = _EXCLUDED_BY_USER if self._panel.card.would_exclude else ""
        key, cell = self._key or "", self._panel.chosen[-1]
        self._works.edit_sweep(key, lambda sweeps: sweeps.leave_out(key, cell, reason))

    def _connect(self) -> None:
        self._reader.read.connect(self._show_results)
        self._reader.failed.connect(self._report)
        panel, card = self._panel, self._panel.card
        menu = panel.head.menu
        menu.offer("Rename this sweep…", self._rename)
        menu.offer("Repeat this sweep", lambda: self._order(self._works.repeat))
        panel.example_wanted.connect(self._fill_in_example)
        panel.resume.clicked.connect(lambda: self._order(self._works.resume))
        card.compare.clicked.connect(self._compare)
        card.show_runs.clicked.connect(self._show_runs)
        card.use.clicked.connect(self._use)
        card.pause.clicked.connect(self._pause)
        card.exclude.clicked.connect(self._exclude)
        # a run of it may have been deleted, or another program may carry it on
        self._experiments.runs.list_changed.connect(self._reader.refresh)


def _export(store_path: Path, sweep_id: str, path: Path) -> Path:
    with Store(store_path) as store:
        # the dialog has asked whether to replace a file of that name
        return SWEEP.export(store.sweeps.find(sweep_id), path, force=True)


class ReadSweep(NamedTuple):
    """A sweep as read from the store: its results as a document, and the evidence of its runs by id."""

    results: Results
    document: Document
    evidence: Mapping[str, Evidence]


def read_sweep(store_path: Path, sweep_id: str, known: Mapping[str, Evidence]) -> ReadSweep:
    """Read a sweep, and its finished runs that are not yet `known`. Raises ProblemError."""
    with Store(store_path) as store:
        record = store.sweeps.find(sweep_id)
        runs = [run for cell in record.cells for run in cell.runs if run.status.is_over]
        evidence = {run.id: _evidence(store, run, known) for run in runs}
    results = results_of(record, tuple(evidence.values()))
    return ReadSweep(results, document(record, results), evidence)


def _evidence(store: Store, run: RunRecord, known: Mapping[str, Evidence]) -> Evidence:
    evidence = known.get(run.id)
    if evidence is not None and evidence.run.ended == run.ended:
        return evidence
    return evidence_from(run, store.events(run.id), store.curves(run.id).bins())
