"""Reads from the store what a comparison shows. No Qt: a thread does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence, evidence_from, steps_a_row
from engine.curves import Columns
from engine.drawing.curve_chart import Values
from engine.experiment.problem import ProblemError
from engine.protocol.events import Epoch, Started
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.charts.lines import Quantity, Trace, rows_a_point


@dataclass(frozen=True, eq=False)
class ReadRun:
    """A run's evidence and curves; `loss_unit` is "" if unknown."""

    evidence: Evidence
    traces: Mapping[Quantity, Trace]
    loss_unit: str

    def about(self, run: RunRecord) -> ReadRun:
        """The same for a renamed record."""
        return replace(self, evidence=replace(self.evidence, run=run))


@dataclass(frozen=True)
class Wanted:
    """The runs to compare, the baseline's id (None for any) and the accuracy to reach."""

    run_ids: tuple[str, ...]
    baseline: str | None
    target_accuracy: float | None


@dataclass(frozen=True, eq=False)
class ComparedRuns:
    """A comparison, and what was read of its runs, by id."""

    wanted: Wanted
    comparison: Comparison
    runs: Mapping[str, ReadRun]


def read_and_compare(
    store_path: Path,
    wanted: Wanted,
    runs: Sequence[RunRecord],
    known: Mapping[str, ReadRun],
    others: Sequence[RunRecord],
) -> ComparedRuns:
    """Compares `runs`, and reads those that are not `known`. Raises ProblemError.

    `others` are saved runs that may show where a gain comes from.
    """
    read = {run.id: known[run.id] for run in runs if run.id in known}
    missing = [run for run in runs if run.id not in read]
    if missing:
        with Store(store_path) as store:
            read |= {run.id: read_run(store, run) for run in missing}
    comparison = compare(
        [read[run.id].evidence for run in runs],
        wanted.baseline,
        target_accuracy=wanted.target_accuracy,
        others=akin(others, runs),
    )
    return ComparedRuns(wanted, comparison, read)


def akin(others: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs that may show where a gain comes from: readable, of the same models and datasets."""
    works: set[tuple[str, str]] = {(run.experiment.model, run.experiment.dataset) for run in runs}
    return [run for run in others if _is_readable(run, works)]


def _is_readable(run: RunRecord, works: set[tuple[str, str]]) -> bool:
    """Whether the run is such work and readable: another run's damage must not prevent this comparison."""
    try:
        # first: the settings of thousands of others must not be parsed
        if (run.overview.model, run.overview.dataset) not in works:
            return False
        return (run.experiment, run.environment, run.summary) is not None
    except (ProblemError, ValueError):
        return False


def read_run(store: Store, run: RunRecord) -> ReadRun:
    """Reads a run's evidence and curves. Raises ProblemError if the store cannot be read."""
    events, samples = store.events(run.id), store.curves(run.id).bins()
    evidence = evidence_from(run, events, samples)
    loss = _loss(run, samples)
    # the whole curve's blocks are computed here, not while the window is painted
    loss.blocks(rows_a_point(len(loss)))
    units = [event.loss_unit for event in events if isinstance(event, Started)]
    traces: dict[Quantity, Trace] = {"loss": loss, "accuracy": _accuracy(run, evidence.epochs)}
    return ReadRun(evidence, traces, units[-1] if units else "")


def _loss(run: RunRecord, samples: Columns) -> Trace:
    columns = [samples.get(name, np.empty(0)) for name in ("step", "seconds", "loss")]
    steps, seconds, loss = (column[: min(map(len, columns))] for column in columns)
    return Trace(_places(run, steps, seconds), loss, steps_a_row=steps_a_row(samples))


def _accuracy(run: RunRecord, epochs: Sequence[Epoch]) -> Trace:
    validated = [epoch for epoch in epochs if epoch.validation_accuracy is not None]
    steps = np.array([epoch.step for epoch in validated], dtype=np.float64)
    seconds = np.array([epoch.seconds for epoch in validated], dtype=np.float64)
    percent = np.array([100.0 * (epoch.validation_accuracy or 0.0) for epoch in validated], dtype=np.float64)
    return Trace(_places(run, steps, seconds), percent, smooths=False)


def _places(run: RunRecord, steps: Values, seconds: Values) -> dict[Any, Values]:
    return {"step": steps, "seconds": seconds, "samples": steps * run.experiment.step_samples}
