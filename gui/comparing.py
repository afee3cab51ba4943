"""The runs that are compared: read in a thread while the workspace is in sight, then shown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.problem import Problem
from engine.records.record import RunRecord
from gui.background import Background
from gui.compared import Compared, ReadRun, Wanted, read_and_compare
from gui.panels.compare import ComparePanel
from gui.panels.compare_column import ComparisonColumn
from gui.saved_runs import SavedRuns


class Comparing(QObject):
    """`shown` when what is wanted is in sight; `problem` (Problem) where it could not be read."""

    shown = Signal()
    problem = Signal(object)

    def __init__(
        self,
        store_path: Path,
        runs: SavedRuns,
        column: ComparisonColumn,
        panel: ComparePanel,
        background: Background,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store_path, self._runs, self._background = store_path, runs, background
        self._column, self._panel = column, panel
        self._run_ids: tuple[str, ...] = ()
        self._known: dict[str, ReadRun] = {}
        self._is_in_sight = False
        self._is_stale = True
        self._is_reading = False
        column.baseline_chosen.connect(self.refresh)
        column.headline_chosen.connect(self._show_headline)
        panel.target_chosen.connect(self.refresh)

    def set_runs(self, run_ids: Iterable[str]) -> None:
        """Compares these runs, in the order in which they were made."""
        found = [run for run_id in run_ids if (run := self._runs.record(run_id)) is not None]
        self._run_ids = tuple(run.id for run in sorted(found, key=lambda run: run.number))
        self.refresh()

    def run_ids(self) -> tuple[str, ...]:
        """The runs that are compared, oldest first."""
        return self._run_ids

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Nothing is read before somebody looks: reading takes a core from what is measured."""
        self._is_in_sight = is_in_sight
        if is_in_sight and self._is_stale:
            self.refresh()

    def refresh(self) -> None:
        """Reads anew what may have changed, and shows it."""
        self._is_stale = True
        if self._is_in_sight and not self._is_reading:
            self._read()

    def _read(self) -> None:
        self._is_stale = False
        runs = [run for run_id in self._run_ids if (run := self._runs.record(run_id)) is not None]
        self._forget_but(runs)
        if not runs:
            self._column.clear()
            self._panel.clear()
            self.shown.emit()
            return
        wanted = Wanted(
            tuple(run.id for run in runs), self._column.own_baseline(runs), self._panel.target_accuracy
        )
        self._panel.say_reading(len(runs))
        self._is_reading = True
        known, others, path = dict(self._known), self._runs.records(), self._store_path
        self._background.do(
            lambda: read_and_compare(path, wanted, runs, known, others), self._take, self._fail
        )

    def _forget_but(self, runs: list[RunRecord]) -> None:
        """Keeps what was read of runs that are still compared, and that were over and are as they were."""
        self._known = {
            run.id: read
            for run in runs
            if (read := self._known.get(run.id)) is not None
            and run.status.is_over
            and read.evidence.run.ended == run.ended
        }
        for run in runs:
            if run.id in self._known and self._known[run.id].evidence.run != run:
                self._known[run.id] = self._known[run.id].about(run)

    def _take(self, compared: Compared) -> None:
        self._is_reading = False
        self._known = dict(compared.runs)
        if self._is_stale:
            self._read_again()
            return
        self._column.show_comparison(compared.comparison)
        self._panel.show_comparison(compared, self._column.headline())
        self.shown.emit()

    def _fail(self, problem: Problem) -> None:
        self._is_reading = False
        self.problem.emit(problem)
        if self._is_stale:
            self._read_again()

    def _read_again(self) -> None:
        if self._is_in_sight:
            self._read()

    def _show_headline(self) -> None:
        self._panel.set_headline(self._column.headline())
