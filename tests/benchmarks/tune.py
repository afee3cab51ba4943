"""Tuning against trying every cell: is the winner as fast as the best, and how long does it take.

    uv run python tests/benchmarks/tune.py [--device cpu] [--model small-cnn] [--kinds precision recipe]
        [--repeats 5] [--quick]

Every combination of the values that Tune may choose is trained `--repeats` times as long as the
experiment says, each time in a fresh worker, all cells once before any is trained again. Then it searches the
same values. The found cell's share of the best one is that of the speeds measured for the grid. Its time is
that of the search and, in parentheses, with its proof and the gains. `--quick` trains a few steps of each:
its figures mean little.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import get_args
from unittest.mock import patch

from engine.experiment.checks import Catalog, resolve
from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol import jobs
from engine.protocol.events import Finished, Log
from engine.protocol.tune import CHANGE_KINDS, ChangeKind, Tuning, TuningPlan
from engine.runner import Runner
from engine.statistics import geometric_mean
from engine.store.saved.study import Study
from engine.store.store import Store
from engine.tune import driver, halving
from engine.tune.candidates import Places, Space, baseline_of, changed, space_of
from engine.worker.launcher import Launcher, iterate

AIM = "aim: within 3% of the best cell, in a third of the time or less"
QUICK_SECONDS = (0.2, 0.4)
NOT_VALIDATED = {"validation": {"every": 0}}
MODELS = {
    "small-cnn": {"dataset": "fashion", "batch_size": 64, "steps": 200},
    "resnet18": {"dataset": "synthetic", "image_size": 32, "num_classes": 10, "batch_size": 64, "steps": 60},
    "causal-lm-tiny": {"dataset": "synthetic-tokens", "sequence_length": 64, "batch_size": 8, "steps": 60},
}


def speed_of(launcher: Launcher, experiment: Experiment) -> float | None:
    """The speed of a run in a fresh worker, in samples a second; None where it fails."""
    session = launcher.start(jobs.Train(experiment=experiment))
    try:
        *_, last = (event for event in iterate(session) if event is not None)
    finally:
        session.close()
    return last.summary.samples_per_second if isinstance(last, Finished) else None


def grid_speeds(launcher: Launcher, space: Space, repeats: int) -> dict[Places, float]:
    """The speed of every cell that can be trained; of several repeats the geometric mean."""
    cells: list[Places] = list(product(*(space.places(kind) for kind in CHANGE_KINDS)))
    speeds: dict[Places, list[float]] = {places: [] for places in cells}
    for repeat in range(repeats):
        for places in cells if repeat % 2 == 0 else reversed(cells):
            experiment = changed(space.experiment, space.changes(places))
            speed = speed_of(launcher, experiment)
            if speed is not None:
                speeds[places].append(speed)
        print(f"  every cell trained {repeat + 1} of {repeats} times", flush=True)
    return {places: mean for places, known in speeds.items() if (mean := geometric_mean(known)) is not None}


def searched(
    store: Store, launcher: Launcher, catalog: Catalog, experiment: Experiment, plan: TuningPlan
) -> tuple[Tuning, float]:
    """The tuning, and the seconds that its search took without the proof and the gains."""
    known, search_seconds, began = Tuning(experiment=experiment, plan=plan), 0.0, time.monotonic()
    for event in driver.TuneDriver(store, launcher, catalog).follow(Study(answer=known)):
        if isinstance(event, Study):
            known = event.answer
            if known.phase == "halving":
                search_seconds = time.monotonic() - began
        elif isinstance(event, Log):
            print(f"  {event.message}", flush=True)
    return known, search_seconds


@dataclass(frozen=True)
class Compared:
    """What the search found beside the best of all cells: `share` of its speed, None where the found cell
    failed, in `search_share` of its time, with the proof and the gains in `whole_share`."""

    cells: int
    best: str
    found: str
    share: float | None
    search_share: float
    whole_share: float
    runs: int


def compared(
    launcher: Launcher, model: str, device: str, kinds: Sequence[ChangeKind], repeats: int, *, is_quick: bool
) -> Compared:
    """Trains every cell, then searches."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "tune.sqlite") as store:
        catalog = Runner(store, launcher).catalog()
        steps = {"steps": 15, "measure": {"block_steps": 1}} if is_quick else {}
        settings = {"model": model, "device": device, **MODELS[model], **steps, **NOT_VALIDATED}
        given = experiment_from(settings)
        plan = TuningPlan(kinds=tuple(kinds), guard="none", repeats=2)
        space = space_of(resolve(baseline_of(given), catalog), plan, catalog, {})
        print(f"{model} on {device}: {space.size:,} cells", flush=True)
        began = time.monotonic()
        speeds = grid_speeds(launcher, space, repeats)
        grid_seconds = time.monotonic() - began
        tuning, search_seconds = searched(store, launcher, catalog, given, plan)
    best = max(speeds, key=lambda places: speeds[places])
    found = space.of_changes(tuning.winner_changes)
    return Compared(
        cells=space.size,
        best=space.words(best),
        found=space.words(found),
        share=speeds[found] / speeds[best] if found in speeds else None,
        search_share=search_seconds / grid_seconds,
        whole_share=tuning.seconds / grid_seconds,
        runs=tuning.runs,
    )


@contextmanager
def quick(is_quick: bool) -> Iterator[None]:
    """While the context lasts the search trains for moments only, if `is_quick`."""
    short, long = QUICK_SECONDS if is_quick else (halving.SHORT, halving.LONG)
    with patch.multiple(halving, SHORT=short, LONG=long), patch.object(driver, "SHORT", short):
        yield


def row(model: str, device: str, options: argparse.Namespace) -> tuple[str, ...]:
    """A line of the table."""
    kinds = options.kinds or kinds_for(device)
    with Launcher() as launcher, quick(options.quick):
        one = compared(launcher, model, device, kinds, options.repeats, is_quick=options.quick)
    return (
        f"{model}, {device}",
        f"{one.cells:,}",
        one.best,
        one.found,
        "failed" if one.share is None else f"{one.share:.3f}",
        f"{one.search_share:.2f} ({one.whole_share:.2f})",
        f"{one.runs:,} of {one.cells * options.repeats:,}",
    )


def kinds_for(device: str) -> Sequence[ChangeKind]:
    """Kinds of which every combination can be tried within an hour."""
    return ("precision", "recipe", "loader") if device == "cpu" else ("precision", "recipe")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", nargs="+", default=["cpu"])
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--kinds", nargs="+", choices=get_args(ChangeKind))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rows = [row(model, device, options) for device in options.device for model in options.model]
    print(f"\n| | cells | best cell | found | share of the best | share of the time | runs |  {AIM}")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for cells in rows:
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
