"""Reading the content of a comparison from the store, in a thread, while the page is visible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import QObject, Signal

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence, evidence_from, steps_per_row
from engine.curves import Columns
from engine.drawing.curve_chart import Points, Values, smoothed
from engine.experiment.problem import Problem, ProblemError
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.events import Epoch, Started
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.charts.lines import Quantity, RecordedCurve, rows_a_point
from gui.compare.head import ItemHead
from gui.session.background import Background
from gui.session.saved_runs import SavedRuns

if TYPE_CHECKING:
    from gui.compare.panel import ComparePanel


@dataclass(frozen=True, eq=False)
class ReadRun:
    """A run as read for a comparison: its evidence, its curves, and its smoothed loss in few points.

    `loss_unit` is "" if unknown.
    """

    evidence: Evidence
    traces: Mapping[Quantity, RecordedCurve]
    loss: Points
    loss_unit: str


@dataclass(frozen=True, eq=False)
class ComparedRuns:
    """A comparison with the evidence and curves of its runs, by run id."""

    comparison: Comparison
    runs: Mapping[str, ReadRun]


def read_and_compare(
    store_path: Path,
    baseline: str | None,
    target_accuracy: float | None,
    runs: Sequence[RunRecord],
    known: Mapping[str, ReadRun],
    others: Sequence[RunRecord],
) -> ComparedRuns:
    """Compare `runs` with the run of id `baseline` (None: any). Only runs that are not `known` are read.

    `others` are saved runs that may show where a gain comes from. Raises ProblemError.
    """
    read = {run.id: known[run.id] for run in runs if run.id in known}
    missing = [run for run in runs if run.id not in read]
    if missing:
        with Store(store_path) as store:
            read |= {run.id: read_run(store, run) for run in missing}
    evidence = [read[run.id].evidence for run in runs]
    comparison = compare(
        evidence, baseline, target_accuracy=target_accuracy, others=related_runs(others, runs)
    )
    return ComparedRuns(comparison, read)


def related_runs(others: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the readable runs of the same models and datasets, which may show where a gain comes from."""
    works: set[tuple[str, str]] = {(run.experiment.model, run.experiment.dataset) for run in runs}
    return [run for run in others if _is_readable(run, works)]


def _is_readable(run: RunRecord, works: set[tuple[str, str]]) -> bool:
    # another run's damage must not prevent this comparison
    try:
        # first: the settings of thousands of others must not be parsed
        if (run.overview.model, run.overview.dataset) not in works:
            return False
        return (run.experiment, run.environment, run.summary) is not None
    except (ProblemError, ValueError):
        return False


def read_run(store: Store, run: RunRecord) -> ReadRun:
    """Read a run's evidence and curves. Raises ProblemError if the store cannot be read."""
    events, samples = store.events(run.id), store.curves(run.id).bins()
    evidence = evidence_from(run, events, samples)
    traces: dict[Quantity, RecordedCurve] = {
        "loss": _trace(run, samples, "loss"),
        "accuracy": _accuracy(run, evidence.epochs),
        "throughput": _trace(run, samples, "samples_per_second", is_rate=True),
        "memory": _trace(run, samples, _memory_column(samples), scale=1 / MIB_PER_GIB, smooths=False),
    }
    # the whole curve's blocks are computed here, not while the window is painted
    for trace in traces.values():
        trace.blocks(rows_a_point(len(trace)))
    steps, seconds, values = _columns(samples, "loss")
    loss = smoothed(Points(steps, seconds, steps * run.experiment.step_samples, values))
    units = [event.loss_unit for event in events if isinstance(event, Started)]
    return ReadRun(evidence, traces, loss, units[-1] if units else "")


def _columns(samples: Columns, name: str) -> tuple[Values, Values, Values]:
    columns = [samples.get(key, np.empty(0)) for key in ("step", "seconds", name)]
    steps, seconds, values = (column[: min(map(len, columns))] for column in columns)
    return steps, seconds, values


def _memory_column(samples: Columns) -> str:
    return next((name for name in ("allocated_mib", "resident_mib") if name in samples), "")


def _trace(run: RunRecord, samples: Columns, name: str, *, scale: float = 1.0, **more: bool) -> RecordedCurve:
    steps, seconds, values = _columns(samples, name)
    return RecordedCurve(
        _places(run, steps, seconds), scale * values, steps_per_row=steps_per_row(samples), **more
    )


def _accuracy(run: RunRecord, epochs: Sequence[Epoch]) -> RecordedCurve:
    validated = [epoch for epoch in epochs if epoch.validation_accuracy is not None]
    steps = np.array([epoch.step for epoch in validated], dtype=np.float64)
    seconds = np.array([epoch.seconds for epoch in validated], dtype=np.float64)
    percent = np.array([100.0 * (epoch.validation_accuracy or 0.0) for epoch in validated], dtype=np.float64)
    return RecordedCurve(_places(run, steps, seconds), percent, smooths=False)


def _places(run: RunRecord, steps: Values, seconds: Values) -> dict[Any, Values]:
    return {"step": steps, "seconds": seconds, "samples": steps * run.experiment.step_samples}


class CompareReader(QObject):
    """Reads the runs of a comparison in a thread while its page is visible, and shows them in head and panel.

    `shown` is emitted when the comparison is shown, and `problem` carries a Problem if it cannot be read.
    """

    shown = Signal()
    problem = Signal(object)

    def __init__(
        self,
        store_path: Path,
        runs: SavedRuns,
        head: ItemHead,
        panel: ComparePanel,
        background: Background,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store_path, self._runs, self._background = store_path, runs, background
        self._head, self._panel = head, panel
        self._run_ids: tuple[str, ...] = ()
        self._known: dict[str, ReadRun] = {}
        self._is_in_sight = self._is_reading = False
        self._is_stale = True
        head.baseline_chosen.connect(self.refresh)
        head.headline_chosen.connect(lambda: panel.set_headline(head.headline()))
        panel.table.target.changed.connect(self.refresh)

    def _records(self, run_ids: Iterable[str]) -> list[RunRecord]:
        return [run for run_id in run_ids if (run := self._runs.record(run_id)) is not None]

    def set_runs(self, run_ids: Iterable[str]) -> None:
        """Compare these runs, in the order in which they were created."""
        runs = self._records(run_ids)
        self._run_ids = tuple(run.id for run in sorted(runs, key=lambda run: run.number))
        self.refresh()

    def follow(self, run_ids: Iterable[str]) -> None:
        """Compare these runs, unless their present state is already shown."""
        runs = {run.id: run for run in self._records(run_ids)}
        if runs != {run_id: read.evidence.run for run_id, read in self._known.items()}:
            self.set_runs(runs)

    def run_ids(self) -> tuple[str, ...]:
        """Return the ids of the compared runs, oldest first."""
        return self._run_ids

    def set_in_sight(self, is_in_sight: bool) -> None:
        """Set whether the page is visible. Otherwise nothing is read, to leave the cores to a run."""
        self._is_in_sight = is_in_sight
        self._read_if_stale()

    def refresh(self) -> None:
        """Read changed runs again, and show them."""
        self._is_stale = True
        self._read_if_stale()

    def _read_if_stale(self) -> None:
        if not self._is_stale or not self._is_in_sight or self._is_reading:
            return
        self._is_stale = False
        runs = self._records(self._run_ids)
        self._forget_but(runs)
        if not runs:
            self._head.clear()
            self._panel.clear()
            self.shown.emit()
            return
        self._panel.show_reading(len(runs))
        self._is_reading = True
        work = partial(
            read_and_compare,
            self._store_path,
            self._head.chosen_baseline(runs),
            self._panel.table.target.accuracy(),
            runs,
            dict(self._known),
            self._runs.records(),
        )
        self._background.do(work, self._take, self._fail)

    def _forget_but(self, runs: list[RunRecord]) -> None:
        known, self._known = self._known, {}
        for run in runs:
            read = known.get(run.id)
            if read is not None and run.status.is_over and read.evidence.run.ended == run.ended:
                # it may have been renamed
                self._known[run.id] = replace(read, evidence=replace(read.evidence, run=run))

    def _take(self, compared: ComparedRuns) -> None:
        self._is_reading = False
        self._known = dict(compared.runs)
        if not self._is_stale:
            self._head.show_comparison(compared.comparison)
            self._panel.show_comparison(compared, self._head.headline())
            self.shown.emit()
        self._read_if_stale()

    def _fail(self, problem: Problem) -> None:
        self._is_reading = False
        self.problem.emit(problem)
        self._read_if_stale()
