"""Runs that were queued from a comparison, until they join what is compared or take a place in it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from engine.experiment.experiment import Experiment
from engine.store.record import Status
from gui.session.saved_runs import SavedRuns


@dataclass(frozen=True)
class Awaited:
    """Runs that are awaited together for the comparison of those `beside`, `instead` of some of them."""

    run_ids: tuple[str, ...]
    beside: frozenset[str]
    instead: frozenset[str] = frozenset()


class AwaitedRuns(QObject):
    """`arrived` carries an `Awaited` whose runs have all finished.

    `changed` says that other experiments are awaited than before.
    """

    arrived = Signal(object)
    changed = Signal()

    def __init__(self, runs: SavedRuns, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs = runs
        self._awaited: list[Awaited] = []
        runs.run_changed.connect(lambda _run_id: self._look())
        runs.list_changed.connect(self._look)

    def add(self, *awaited: Awaited) -> None:
        """Waits for these."""
        self._awaited += awaited
        self.changed.emit()

    def experiments(self) -> frozenset[Experiment]:
        """What will be known once they have finished."""
        found = (self._runs.record(run_id) for one in self._awaited for run_id in one.run_ids)
        return frozenset(run.experiment for run in found if run is not None and not run.status.is_over)

    def _look(self) -> None:
        over = [one for one in self._awaited if self._is_over(one)]
        self._awaited = [one for one in self._awaited if one not in over]
        for one in over:
            runs = [self._runs.record(run_id) for run_id in one.run_ids]
            if all(run is not None and run.status is Status.FINISHED for run in runs):
                self.arrived.emit(one)
        if over:
            self.changed.emit()

    def _is_over(self, awaited: Awaited) -> bool:
        runs = (self._runs.record(run_id) for run_id in awaited.run_ids)
        return all(run is None or run.status.is_over for run in runs)
