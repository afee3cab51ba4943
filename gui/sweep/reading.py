"""Reads from the store what the workspace Sweep shows of a sweep. No Qt: a thread does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.compare.evidence import Evidence, evidence_from
from engine.store.record import RunRecord
from engine.store.saved.sweeps import SweepRecord
from engine.store.store import Store
from engine.sweep.estimate import estimate_of
from engine.sweep.events import Estimate
from engine.sweep.reading import results_of
from engine.sweep.results import Results


@dataclass(frozen=True, eq=False)
class ReadSweep:
    """A sweep, the results of its cells, and the evidence of its runs by id."""

    record: SweepRecord
    results: Results
    estimate: Estimate | None
    evidence: Mapping[str, Evidence]


def read_sweep(store_path: Path, sweep_id: str, known: Mapping[str, Evidence]) -> ReadSweep:
    """Reads a sweep, and of its runs that are over those that are not `known`. Raises ProblemError."""
    with Store(store_path) as store:
        record = store.sweeps.find(sweep_id)
        runs = [run for cell in record.cells for run in cell.runs if run.status.is_over]
        evidence = {run.id: _evidence(store, run, known) for run in runs}
    return ReadSweep(record, results_of(record, tuple(evidence.values())), estimate_of(record), evidence)


def _evidence(store: Store, run: RunRecord, known: Mapping[str, Evidence]) -> Evidence:
    evidence = known.get(run.id)
    if evidence is not None and evidence.run.ended == run.ended:
        return evidence
    return evidence_from(run, store.events(run.id), store.curves(run.id).bins())
