"""Runs queued from a comparison, which join it or replace some of its runs once they have finished."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from engine.experiment.experiment import Experiment
from engine.store.record import Status
from gui.session.saved_runs import SavedRuns


@dataclass(frozen=True)
class Awaited:
    """Runs awaited together for the comparison of the runs `beside`, to replace those `instead`."""

    run_ids: tuple[str, ...]
    beside: frozenset[str]
    instead: frozenset[str] = frozenset()


class AwaitedRuns(QObject):
    """`arrived` carries an `Awaited` whose runs have all finished; `changed` when `experiments` changes."""

    arrived = Signal(object)
    changed = Signal()

    def __init__(self, runs: SavedRuns, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs = runs
        self._awaited: list[Awaited] = []
        runs.run_changed.connect(lambda _run_id: self._look())
        runs.list_changed.connect(self._look)

    def add(self, *awaited: Awaited) -> None:
        self._awaited += awaited
        self.changed.emit()

    def experiments(self) -> frozenset[Experiment]:
        """The experiments that are awaited."""
        runs = (self._runs.record(run_id) for awaited in self._awaited for run_id in awaited.run_ids)
        return frozenset(run.experiment for run in runs if run is not None and not run.status.is_over)

    def _look(self) -> None:
        over = [awaited for awaited in self._awaited if self._is_over(awaited)]
        self._awaited = [awaited for awaited in self._awaited if awaited not in over]
        for awaited in over:
            runs = [self._runs.record(run_id) for run_id in awaited.run_ids]
            if all(run is not None and run.status is Status.FINISHED for run in runs):
                self.arrived.emit(awaited)
        if over:
            self.changed.emit()

    def _is_over(self, awaited: Awaited) -> bool:
        runs = (self._runs.record(run_id) for run_id in awaited.run_ids)
        return all(run is None or run.status.is_over for run in runs)
