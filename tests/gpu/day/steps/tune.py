"""Tuning on the GPU, compared with training every combination of what it may choose."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from day.work import Work
from engine.experiment.checks import Catalog, resolve
from engine.experiment.experiment import Experiment, changed, experiment_from
from engine.protocol import jobs
from engine.protocol.events import Finished
from engine.protocol.tune import CHANGE_KINDS, ChangeKind, Tuning, TuningPlan
from engine.runner import Runner
from engine.store.saved.studies import Study
from engine.store.store import Store
from engine.tune import driver, halving
from engine.tune.candidates import Places, Space, baseline_of, space_of
from engine.worker.launcher import Launcher, iterate

_ON_GPU: Sequence[ChangeKind] = ("recipe",)
"""All optimizations, captured and compiled ones too; with all precisions they would outlast a call."""
_ON_CPU: Sequence[ChangeKind] = ("checkpointing",)
_SMALL_CNN = {
    "model": "small-cnn",
    "dataset": "fashion",
    "batch_size": 64,
    "steps": 200,
    "validation": {"every": 0},
}
_SMALL = {"steps": 15, "measure": {"block_steps": 1}}
_SMALL_SECONDS = (0.2, 0.4)


def tune(work: Work) -> None:
    """Train every combination for the small CNN, then search for the fastest."""
    short, long = _SMALL_SECONDS
    moments = patch.multiple(halving, SHORT=short, LONG=long), patch.object(driver, "SHORT", short)
    first, second = moments if work.is_rehearsal else (nullcontext(), nullcontext())
    asked = experiment_from({**_SMALL_CNN, "device": work.device, **work.small({}, _SMALL)})
    plan = TuningPlan(kinds=tuple(work.small(_ON_GPU, _ON_CPU)), guard="none", repeats=2)
    with (
        first,
        second,
        work.launcher() as launcher,
        TemporaryDirectory() as folder,
        Store(Path(folder) / "tune.sqlite") as store,
    ):
        catalog = Runner(store, launcher).catalog()
        space = space_of(resolve(baseline_of(asked), catalog), plan, catalog, {})
        began = time.monotonic()
        speeds = _all_speeds(launcher, space)
        seconds = time.monotonic() - began
        tuning, search_seconds = _searched(store, launcher, catalog, asked, plan)
    best = max(speeds, key=lambda places: speeds[places])
    found = space.places_for(tuning.winner_changes)
    share = speeds[found] / speeds[best] if found in speeds else 0.0
    work.report("tune", share, f"(found: {space.words(found)}; best: {space.words(best)}; of {len(speeds)})")
    with_proof = f"({tuning.seconds / seconds:.2f} with the proof, {tuning.runs} runs)"
    work.report("tune-time", search_seconds / seconds, with_proof)


def _all_speeds(launcher: Launcher, space: Space) -> dict[Places, float]:
    """Return the samples per second of every combination that can be trained, each in a new worker."""
    speeds: dict[Places, float] = {}
    for places in filter(space.is_possible, product(*(space.places(kind) for kind in CHANGE_KINDS))):
        found = _speed_of(launcher, changed(space.experiment, space.changes(places)))
        if found is not None:
            speeds[places] = found
    return speeds


def _speed_of(launcher: Launcher, experiment: Experiment) -> float | None:
    session = launcher.start(jobs.Train(experiment=experiment))
    try:
        *_, last = (event for event in iterate(session) if event is not None)
    finally:
        session.close()
    return last.summary.samples_per_second if isinstance(last, Finished) else None


def _searched(
    store: Store, launcher: Launcher, catalog: Catalog, experiment: Experiment, plan: TuningPlan
) -> tuple[Tuning, float]:
    """Return the tuning, and the seconds of its search without the proof and the gains."""
    known, seconds, began = Tuning(experiment=experiment, plan=plan), 0.0, time.monotonic()
    for event in driver.TuneDriver(store, launcher, catalog).follow(Study(answer=known)):
        if isinstance(event, Study):
            known = event.answer
            if known.phase == "halving":
                seconds = time.monotonic() - began
    return known, seconds
