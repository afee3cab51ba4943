"""What the workspace Compare shows, as it is read from the store. No Qt: a thread does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence, evidence_from
from engine.experiment.problem import ProblemError
from engine.protocol.events import Epoch, Started
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.charts.lines import Quantity, Trace, rows_a_point
from gui.charts.smoothing import Values


@dataclass(frozen=True, eq=False)
class ReadRun:
    """One run's evidence and curves; `loss_unit` is "" where it is not known."""

    evidence: Evidence
    traces: Mapping[Quantity, Trace]
    loss_unit: str

    def about(self, run: RunRecord) -> ReadRun:
        """The same of a record that was given another name."""
        return replace(self, evidence=replace(self.evidence, run=run))


@dataclass(frozen=True)
class Wanted:
    """Which runs are to be compared, `baseline` being the id of one (None: any), and for which accuracy."""

    run_ids: tuple[str, ...]
    baseline: str | None
    target_accuracy: float | None


@dataclass(frozen=True, eq=False)
class ComparedRuns:
    """A comparison, and what was read of each run by its id."""

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
    """Compares `runs`; those that are not `known` are read. Raises ProblemError.

    `others` are the saved runs in which more may be found of where a gain comes from.
    """
    found = {run.id: known[run.id] for run in runs if run.id in known}
    missing = [run for run in runs if run.id not in found]
    if missing:
        with Store(store_path) as store:
            found |= {run.id: read_run(store, run) for run in missing}
    comparison = compare(
        [found[run.id].evidence for run in runs],
        wanted.baseline,
        target_accuracy=wanted.target_accuracy,
        others=akin(others, runs),
    )
    return ComparedRuns(wanted, comparison, found)


def akin(others: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Those that may say where a gain comes from: of the same models and datasets, and readable."""
    works = {(run.experiment.model, run.experiment.dataset) for run in runs}
    return [run for run in others if _is_readable(run, works)]


def _is_readable(run: RunRecord, works: set[tuple[str, str]]) -> bool:
    """Whether it is of such work and can be read whole; damage to another run refuses no comparison."""
    try:
        # so that the settings of thousands of others are not even parsed
        if (run.overview.model, run.overview.dataset) not in works:
            return False
        return (run.experiment, run.environment, run.summary) is not None
    except (ProblemError, ValueError):
        return False


def read_run(store: Store, run: RunRecord) -> ReadRun:
    """What is known of a run. Raises ProblemError where the store cannot be read."""
    events, samples = store.events(run.id), store.samples(run.id)
    evidence = evidence_from(run, events, samples)
    loss = _loss(run, samples)
    # what the whole curve needs is worked out here, not while the window is painted
    loss.blocks(rows_a_point(len(loss)))
    units = [event.loss_unit for event in events if isinstance(event, Started)]
    traces: dict[Quantity, Trace] = {"loss": loss, "accuracy": _accuracy(run, evidence.epochs)}
    return ReadRun(evidence, traces, units[-1] if units else "")


def _loss(run: RunRecord, samples: Mapping[str, np.ndarray[Any, Any]]) -> Trace:
    columns = [np.asarray(samples.get(name, ()), dtype=np.float64) for name in ("step", "seconds", "loss")]
    rows = min(map(len, columns))
    steps, seconds, loss = (column[:rows] for column in columns)
    return Trace(_places(run, steps, seconds), loss)


def _accuracy(run: RunRecord, epochs: Sequence[Epoch]) -> Trace:
    validated = [epoch for epoch in epochs if epoch.validation_accuracy is not None]
    steps = np.array([epoch.step for epoch in validated], dtype=np.float64)
    seconds = np.array([epoch.seconds for epoch in validated], dtype=np.float64)
    percent = np.array([100.0 * (epoch.validation_accuracy or 0.0) for epoch in validated], dtype=np.float64)
    return Trace(_places(run, steps, seconds), percent, smooths=False)


def _places(run: RunRecord, steps: Values, seconds: Values) -> dict[Any, Values]:
    return {"step": steps, "seconds": seconds, "samples": steps * run.experiment.step_samples}
