"""The content of a comparison as read from the store: evidence and curves of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.compare.comparison import Comparison, compare
from engine.compare.evidence import Evidence, evidence_from, steps_per_row
from engine.curves import Columns
from engine.drawing.curve_chart import Points, Values, smoothed
from engine.experiment.problem import ProblemError
from engine.experiment.value import MIB_PER_GIB
from engine.protocol.events import Epoch, Log, Started
from engine.store.record import RunRecord
from engine.store.store import Store
from gui.charts.lines import Quantity, RecordedCurve, rows_a_point


@dataclass(frozen=True, eq=False)
class ReadRun:
    """A run as read for a comparison: its evidence, its curves, and its smoothed loss in few points.

    `loss_unit` is "" if unknown. `printed` is what a script printed.
    """

    evidence: Evidence
    traces: Mapping[Quantity, RecordedCurve]
    loss: Points
    loss_unit: str
    printed: str = ""


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
    """Return the readable runs of the same models and datasets, which may show where a gain comes from.

    Scripts have none.
    """
    experiments = [run.experiment for run in runs if not run.experiment.is_script]
    works: set[tuple[str, str]] = {(experiment.model, experiment.dataset) for experiment in experiments}
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
    logs = [event for event in events if isinstance(event, Log)] if run.overview.is_script else []
    printed = "\n".join(log.message for log in logs if log.level == "stderr")
    return ReadRun(evidence, traces, loss, units[-1] if units else "", printed)


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
