"""Time to paint large amounts of data: live plots, the table of runs, and a comparison.

    QT_QPA_PLATFORM=offscreen uv run python tests/benchmarks/views.py [--only live] [--runs 10000]
        [--samples 100000] [--frames 200]

live: a frame of the live panel, which takes 50 new samples and paints four plots with two smoothed runs.
runs: `--runs` saved runs, each with its own settings, shown from a closed store, filtered and sorted.
compare: 20 runs of `--samples` steps until they are shown, and a frame while panning.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from side_by_side import print_spreads

from engine.experiment.experiment import Experiment, Precision, experiment_from
from engine.protocol.events import Environment, Epoch, Finished, Samples, Started, Summary
from engine.store.record import RunRecord, Status
from engine.store.saved.whole_runs import WholeRun
from engine.store.store import Store
from gui.compare.controller import CompareReader
from gui.compare.head import ItemHead
from gui.compare.panel import ComparePanel
from gui.runs.panel import RunsPanel
from gui.runs.table.columns import PLACES
from gui.session.saved_runs import SavedRuns
from gui.train.panel import LivePanel, LiveRun
from gui.window.app import make_application, run_until

_NEW_SAMPLES = 50
_MODELS = ("small-cnn", "resnet18", "resnet50", "vit_b_16")
_PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
_MORE_COLUMNS = tuple(PLACES[name] for name in ("STEP_RATIO", "PEAK_RATIO", "LOSS"))
_GPU = Environment(
    device_name="a GPU", device_memory_mib=81_920, torch="2.15", python="3.13", os="Linux", ammeter="0.1"
)


def milliseconds(do: Callable[[], object], paint: Callable[[], object]) -> float:
    begun = time.perf_counter()
    do()
    paint()
    return 1e3 * (time.perf_counter() - begun)


def live_samples(first: int, count: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return columns of `count` steps from step `first` on, as noisy as those of a real run."""
    step = np.arange(first, first + count, dtype=np.float64)
    return {
        "step": step,
        "seconds": step * 0.01,
        "loss": 1.4 + 5.4 * np.exp(-step / 3000) + rng.normal(0, 0.15, count),
        "samples_per_second": 5000 + rng.normal(0, 60, count),
        "allocated_mib": 3000 + rng.normal(0, 5, count),
        "reserved_mib": np.full(count, 3300.0),
        "grad_scale": 2.0 ** (14 + (step // 700) % 3),
    }


def live_frames(points: int, frames: int) -> list[float]:
    """Return the milliseconds of each frame, with `points` samples per curve."""
    rng = np.random.default_rng(0)
    runs = [LiveRun.queued(name, Experiment(precision=name)) for name in (Precision.FP32, Precision.FP16)]
    for run in runs:
        run.status, run.total_steps = "running", points + frames * _NEW_SAMPLES
        run.add_samples(live_samples(1, points, rng))
    panel = LivePanel()
    panel.resize(1120, 660)
    panel.show()
    panel.set_runs(runs)
    QApplication.processEvents()
    taken = []
    for _ in range(frames):
        more = live_samples(runs[1].step + 1, _NEW_SAMPLES, rng)
        taken.append(milliseconds(partial(_load, panel, runs[1], more), QApplication.processEvents))
    panel.close()
    panel.deleteLater()
    return taken


def _load(panel: LivePanel, run: LiveRun, more: dict[str, np.ndarray]) -> None:
    run.add_samples(more)
    panel.refresh()


def table_times(path: Path) -> dict[str, list[float]]:
    """Return the milliseconds of each use of the table of runs."""
    with Store(path) as store:
        runs, panel = SavedRuns(store), RunsPanel()
        panel.resize(1_120, 640)

        def show() -> None:
            runs.reload()
            panel.set_runs(runs.records())

        def timed(do: Callable[[], object]) -> float:
            return milliseconds(do, panel.grab)

        def sort(column: int, order: Qt.SortOrder = Qt.SortOrder.DescendingOrder) -> float:
            return timed(partial(panel.table.sortByColumn, column, order))

        def type_filter(text: str) -> list[float]:
            return [timed(partial(panel.filter.setText, text[:end])) for end in range(1, len(text) + 1)]

        found = {"to show": [timed(show)]}
        found["filter, one key"] = type_filter("resnet50 tag:paper")
        found["filter cleared"] = [timed(panel.filter.clear)]
        columns = tuple(PLACES[name] for name in ("MODEL", "SPEED", "RATIO", "WHEN"))
        found["sorted by a column"] = [sort(column) for column in columns]
        panel.table.selectAll()
        found["sorted, all selected"] = [sort(column) for column in columns]
        panel.table.clearSelection()
        store.set_note(runs.records()[0].id, "Changed.")
        found["reloaded, one run changed"] = [timed(show)]
        for column in _MORE_COLUMNS:
            panel.table.choose(column, True)
        first = next(iter(panel.model.lines))
        found["a baseline chosen"] = [timed(lambda: panel.model.set_baseline(first))]
        found["sorted by a ratio, both ways"] = [
            sort(column, order) for column in _MORE_COLUMNS for order in Qt.SortOrder
        ]
        found["filter by tag, one key"] = type_filter('tag:"thesis" seed')
        panel.deleteLater()
    return found


def saved_runs(count: int) -> Iterator[RunRecord]:
    """Yield finished runs whose settings differ in each, so that nothing is known from another run."""
    dice, moment = random.Random(0), datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(1, count + 1):
        begun = moment + timedelta(minutes=number)
        yield RunRecord(
            id=f"{number:012x}",
            number=number,
            name=f"Run {number}",
            status=Status.FINISHED,
            created=begun,
            started=begun,
            ended=begun,
            experiment=Experiment(
                model=dice.choice(_MODELS),
                precision=tuple(Precision)[number % 4],
                seed=number // 4,
                batch_size=2 ** dice.randint(3, 9),
            ),
            environment=_GPU,
            summary=Summary(
                steps=200,
                recipe="plain",
                samples_per_second=dice.uniform(500, 5_000),
                step_ms=dice.uniform(10, 100),
                final_train_loss=dice.random(),
                peak_allocated_mib=dice.uniform(1_000, 20_000),
                final_validation_accuracy=dice.random(),
            ),
            problem=None,
            detail="",
            comparison=None,
            label=None,
            total_steps=200,
            tags=("paper",) if dice.random() < 0.2 else (),
        )


def fill(path: Path, count: int) -> None:
    """Save runs, a third of them with a tag, some of them pinned."""
    with Store(path) as store:
        store.import_runs(WholeRun(record, (), {}) for record in saved_runs(count))
        ids = [run.id for run in store.runs()]
        tags = ("thesis", "week 47")
        store.set_all_tags({run_id: (tags[place % 2],) for place, run_id in enumerate(ids[::3])})
        store.set_pinned(ids[5::500], True)


def add_run(store: Store, settings: dict[str, object], speed: float) -> str:
    """Add a finished run as a worker would have sent it, with every column; return its id."""
    rng = np.random.default_rng(0)
    experiment = experiment_from({"device": "cuda:0", **settings})
    run_id, count = store.add(experiment).id, experiment.steps or 0
    store.begin(run_id)
    steps = np.arange(1, count + 1)
    seconds = steps * experiment.batch_size / speed
    columns = {
        "loss": 0.5 + 5 * np.exp(-steps / (count / 10)) + rng.normal(0, 0.1, count),
        "samples_per_second": speed * (1 + 0.02 * rng.normal(size=count)),
        **{name: np.ones(count) for name in ("learning_rate", "gradient_norm", "grad_scale")},
        **{name: np.ones(count) for name in ("allocated_mib", "reserved_mib", "device_used_mib")},
    }
    rows = {name: tuple(one.tolist()) for name, one in columns.items() if name in Samples.model_fields}
    every = max(1, count // 100)
    epochs = [
        Epoch(epoch=place, step=step, seconds=step / speed, train_loss=1.0, validation_accuracy=0.9)
        for place, step in enumerate(range(every, count + 1, every), 1)
    ]
    started = Started(
        experiment=experiment, environment=_GPU, total_steps=count, steps_per_epoch=every,
        parameters=11, loss_name="cross-entropy", loss_unit="nats",
    )  # fmt: skip
    samples = Samples(step=tuple(steps.tolist()), seconds=tuple(seconds.tolist()), **rows)
    end = Finished(
        summary=Summary(
            steps=count, samples_per_second=speed, step_ms=1e3 * experiment.batch_size / speed,
            final_train_loss=0.5, final_validation_accuracy=0.9, seconds=float(seconds[-1]),
            peak_allocated_mib=3_000.0,
        )
    )  # fmt: skip
    store.record(run_id, [started, samples, *epochs, end])
    return run_id


def comparison_times(store: Store, frames: int) -> dict[str, list[float]]:
    """Return the milliseconds until all runs are shown and painted, and of each frame of a pan."""
    head, panel = ItemHead(), ComparePanel()
    saved = SavedRuns(store)
    saved.reload()
    comparing = CompareReader(store.path, saved, head, panel)
    panel.resize(1_120, 848)
    panel.show()
    head.show()
    QApplication.processEvents()
    there: list[bool] = []
    comparing.shown.connect(lambda: there.append(True))

    def compare() -> None:
        comparing.set_runs(run.id for run in saved.records())
        comparing.set_in_sight(True)
        run_until(lambda: bool(there))

    found = {"to open": [milliseconds(compare, panel.grab)], "a frame while panning": []}
    whole = panel.curves.canvas.frame.x_range[1]
    for frame in range(frames):
        low = 0.3 * whole * (1 + np.sin(frame / 20))
        pan = partial(panel.curves.set_x_range, (low, low + whole / (2 + frame % 3)))
        found["a frame while panning"].append(milliseconds(pan, panel.curves.canvas.viewport().repaint))
        QApplication.processEvents()
    comparing.stop()
    panel.close()
    head.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("live", "runs", "compare"))
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=200)
    options = parser.parse_args()
    views = [options.only] if options.only else ["live", "runs", "compare"]
    application = make_application([])
    if "live" in views:
        frames = {f"{count:,} points": live_frames(count, options.frames) for count in (1_000, 10_000)}
        print_spreads("a frame of the live plots: ms", frames, digits=1)
    with tempfile.TemporaryDirectory() as folder:
        if "runs" in views:
            fill(Path(folder) / "runs.sqlite", options.runs)
            title = f"the table of {options.runs:,} runs: ms"
            print_spreads(title, table_times(Path(folder) / "runs.sqlite"), digits=0)
        if "compare" in views:
            with Store(Path(folder) / "compared.sqlite") as store:
                for number in range(20):
                    side, repeat = number % 4, number // 4
                    settings = {"precision": _PRECISIONS[side], "seed": repeat, "steps": options.samples}
                    add_run(store, settings, 1_000.0 * (1 + side) * (1 + 0.01 * repeat))
                title = f"a comparison of 20 runs of {options.samples:,} steps: ms"
                print_spreads(title, comparison_times(store, options.frames), digits=1)
    application.processEvents()


if __name__ == "__main__":
    main()
