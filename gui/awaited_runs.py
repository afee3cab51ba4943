"""Runs that were queued to tell where a gain comes from, until they join what is compared."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from engine.experiment import Experiment
from engine.records.record import Status
from gui.saved_runs import SavedRuns


class AwaitedRuns(QObject):
    """`arrived` carries the id of a run that has finished, and the ids of those it was queued for.

    `changed` says that other experiments are awaited than before.
    """

    arrived = Signal(str, object)
    changed = Signal()

    def __init__(self, runs: SavedRuns, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs = runs
        self._awaited: dict[str, frozenset[str]] = {}
        runs.run_changed.connect(lambda _run_id: self._look())
        runs.list_changed.connect(self._look)

    def add(self, run_ids: Iterable[str], beside: Iterable[str]) -> None:
        """Waits for these, which are to be compared with those `beside`."""
        self._awaited |= dict.fromkeys(run_ids, frozenset(beside))
        self.changed.emit()

    def experiments(self) -> frozenset[Experiment]:
        """What will be known once they have finished."""
        found = (self._runs.record(run_id) for run_id in self._awaited)
        return frozenset(run.experiment for run in found if run is not None)

    def _look(self) -> None:
        runs = {run_id: self._runs.record(run_id) for run_id in self._awaited}
        gone = [run_id for run_id, run in runs.items() if run is None or run.status.is_over]
        for run_id in gone:
            run, beside = runs[run_id], self._awaited.pop(run_id)
            if run is not None and run.status is Status.FINISHED:
                self.arrived.emit(run_id, beside)
        if gone:
            self.changed.emit()
