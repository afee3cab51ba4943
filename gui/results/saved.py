"""Reads what the table shows of limits, numerics, profiles, sweeps and tunings. No Qt: a thread does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from engine.experiment.experiment import Experiment
from engine.experiment.sweep.grid import Grid
from engine.protocol.numerics.diagnosis import Diagnosis
from engine.protocol.timing.timing import Timing
from engine.protocol.tuning import Tuning
from engine.store.saved.diagnoses import DiagnosisRecord
from engine.store.saved.searches import ProbeRecord
from engine.store.saved.sweeps import SweepRecord
from engine.store.saved.timings import TimingRecord
from engine.store.saved.tunings import TuningRecord
from engine.store.store import Store
from engine.timing.gain import gains
from engine.words.numbers import counted, number
from engine.words.settings import setting_text
from gui.runs.table.rows import Study
from gui.session.orders.searches import SearchView


def read_studies(store_path: Path) -> tuple[Study, ...]:
    """All saved studies, in any order; those that cannot be read are left out. Raises ProblemError."""
    with Store(store_path) as store:
        return tuple(_studies(store))


def _studies(store: Store) -> Iterator[Study]:
    yield from _limits(store.probes.newest())
    yield from (_numerics(record) for record in store.diagnoses.newest() if record.results or record.problem)
    yield from filter(None, map(_profile, store.timings.newest()))
    yield from map(_sweep, store.sweeps.bare.newest())
    yield from (_tune(record) for record in store.tunings.newest() if record.tuning.trials or record.problem)


def _limits(records: Iterable[ProbeRecord]) -> Iterator[Study]:
    by_series: dict[str, list[ProbeRecord]] = {}
    for record in records:
        by_series.setdefault(record.series, []).append(record)
    for series, sides in by_series.items():
        view = SearchView.of_records(sides)
        if view.trial_count:
            yield Study(
                "limit",
                series,
                "Largest batch",
                view.sides[0].experiment.model,
                view.created,
                _batches(view),
                view.ratio,
                sides[0].device_name,
                view.baseline.experiment,
                is_unfinished=any(not side.is_over for side in view.sides),
            )


def _batches(view: SearchView) -> str:
    best = view.best
    sides = [view.baseline] if best is None else [view.baseline, best]
    sizes = " → ".join(f"{side.largest_batch:,}" for side in sides)
    return f"{sizes} samples"


def _numerics(record: DiagnosisRecord) -> Study:
    return Study(
        "numerics",
        record.id,
        f"Numerics, {record.experiment.precision.label}",
        record.experiment.model,
        record.created,
        _finding(record.diagnosis) if record.results else "failed",
        device=record.device_name,
        experiment=record.experiment,
        is_failed=not record.results,
        is_unfinished=not record.is_over,
    )


def _finding(diagnosis: Diagnosis) -> str:
    """The most serious finding, in a few words."""
    if diagnosis.nan is not None and (first := diagnosis.nan.first) is not None:
        return f"NaN or Inf from {first.module or first.operation}"
    if diagnosis.islands is not None and diagnosis.islands.modules is not None:
        return f"{counted(len(diagnosis.islands.modules), 'module')} must stay in FP32"
    if diagnosis.range is not None:
        rows = diagnosis.range.rows
        losing = {row.module for row in rows if row.became_zero or row.became_nonfinite}
        modules = {row.module for row in rows}
        return f"{len(losing):,} of {counted(len(modules), 'module')} lose numbers"
    if diagnosis.nan is not None:
        return "no NaN or Inf"
    return "losses compared" if diagnosis.ladder is not None else "operations mapped"


_TITLES = {1: "Profile", 2: "Profile of both"}


def _profile(record: TimingRecord) -> Study | None:
    timing = record.timing
    if not any(side.profile or side.problem for side in timing.sides):
        return None
    first = timing.sides[0].experiment
    count = len(timing.sides)
    title = f"Profile, {first.precision.label}" if count == 1 else _TITLES.get(count, f"Profile of {count}")
    ratios = [gain.ratio for gain in gains(timing) if gain is not None and gain.ratio is not None]
    return Study(
        "profile",
        record.id,
        title,
        first.model,
        record.created,
        _step_times(timing),
        max(ratios, default=None),
        record.device_name,
        first,
        is_failed=not timing.profiles(),
        is_unfinished=not record.is_over,
    )


def _step_times(timing: Timing) -> str:
    times = [number(profile.step_ms) for profile in timing.profiles()]
    return f"{' → '.join(dict.fromkeys((times[0], times[-1])))} ms a step" if times else "failed"


def _sweep(record: SweepRecord) -> Study:
    first = record.grid.cells[0].experiment
    return Study(
        "sweep",
        record.id,
        record.name,
        first.model,
        record.created,
        _axes(record.grid),
        device=record.device_name,
        experiment=first,
        is_failed=record.problem is not None,
        is_unfinished=record.is_claimed,
    )


def _axes(grid: Grid) -> str:
    return f"{' × '.join(str(len(axis.values)) for axis in grid.axes)}, {counted(grid.size, 'cell')}"


def _tune(record: TuningRecord) -> Study:
    tuning = record.tuning
    return Study(
        "tune",
        record.id,
        "Tune",
        tuning.experiment.model,
        record.created,
        _fastest(tuning),
        tuning.proof.speedup if tuning.proof is not None else None,
        record.device_name,
        tuning.winner or tuning.experiment,
        is_failed=record.problem is not None and tuning.winner is None,
        is_unfinished=not record.is_over,
    )


def _fastest(tuning: Tuning) -> str:
    if tuning.winner is None:
        return "no winner" if tuning.phase == "over" else "unfinished"
    return _settings_of(tuning.winner, tuple(tuning.winner_changes)) or "as it was"


def _settings_of(experiment: Experiment, keys: Sequence[str]) -> str:
    texts = {"batch_size": f"batch {experiment.batch_size:,}", "precision": experiment.precision.label}
    recipe = setting_text("step.recipe", experiment.step.recipe).lower()
    return ", ".join({**texts, "step.recipe": recipe}[key] for key in keys if key in {*texts, "step.recipe"})
