"""Cost of the live window: the throughput of training with it over that without it, in alternating pairs.

    QT_QPA_PLATFORM=offscreen uv run python tests/benchmarks/window_tax.py [--pairs 20] [--hz N] [--thread]
        [--model resnet50] [--precision bf16] [--steps N] [--seconds 300]

On a GPU it trains ResNet-18 on 32x32 images, batch 128, FP16 AMP, with the window at 30 and 60 Hz; on a CPU
the built-in images, with the window at 5 Hz. `--thread` adds the engine within the window's own process.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication
from side_by_side import median_interval, turns, within

from engine.experiment.experiment import Experiment, experiment_from
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher, Target
from gui.train.controller import CPU_REPAINT_HZ
from gui.window.app import make_application, run_until
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings

Kind = tuple[Target, int]
"""Target of the engine, and repaints of the window per second."""


def workload(
    has_gpu: bool, *, model: str | None = None, precision: str | None = None, steps: int | None = None
) -> Experiment:
    """Return the experiment; arguments that are given replace its defaults."""
    steps = steps or (600 if has_gpu else 150)
    few = min(10, max(1, steps // 6))  # so that there are blocks enough for a speed
    settings: dict[str, Any] = {"steps": steps, "measure": {"warmup_steps": few, "block_steps": few}}
    if has_gpu:
        settings |= {"model": "resnet18", "dataset": "synthetic", "image_size": 32, "num_classes": 100}
        settings |= {"batch_size": 128, "precision": "fp16"}
    else:
        settings |= {"model": "small-cnn", "dataset": "fashion", "batch_size": 64, "precision": "fp32"}
    given = {"model": model, "precision": precision}
    settings |= {name: value for name, value in given.items() if value is not None}
    return experiment_from({**settings, "validation": {"every": 0}})


def ratios_of(
    application: QApplication,
    experiment: Experiment,
    kinds: Sequence[Kind],
    folder: Path,
    pairs: int,
    seconds: float | None = None,
    without: Target = Target.PROCESS,
) -> dict[Kind, list[float]]:
    """Return the throughput with the window over that without it, for each kind a ratio per pair.

    No later pair starts after `seconds`.
    """
    ratios: dict[Kind, list[float]] = {kind: [] for kind in kinds}
    for pair in within(range(pairs), seconds):
        for target, hz in kinds:
            arms = {
                "with": partial(speed_with, application, experiment, folder, hz, target),
                "without": partial(speed_without, experiment, folder, without),
            }
            speeds = {name: arms[name]() for name in turns(arms, pair)}
            ratios[target, hz].append(speeds["with"] / speeds["without"])
    return ratios


def speed_without(experiment: Experiment, folder: Path, target: Target) -> float:
    with Store(folder / "without.sqlite") as store, Launcher(target) as launcher:
        record = store.add(experiment)
        for _ in Runner(store, launcher).run(record.id):
            pass
        return speed_of(store, record.id)


def speed_with(
    application: QApplication, experiment: Experiment, folder: Path, hz: int, target: Target
) -> float:
    with Store(folder / f"window-{hz}-{target}.sqlite") as store:
        window = MainWindow(store, Launcher(target), Settings(folder / "window.json"), repaint_hz=hz)
        window.show()
        run_until(lambda: window.experiments.catalog is not None)
        ended: list[str] = []
        window.experiments.ended.connect(ended.append)
        (run_id,) = window.experiments.submit("window tax", [("run", experiment)])
        run_until(lambda: bool(ended))
        speed = speed_of(store, run_id)
        window.close_without_asking()
        window.deleteLater()
        application.processEvents()
    return speed


def speed_of(store: Store, run_id: str) -> float:
    summary = store.run(run_id).summary
    assert summary is not None and summary.samples_per_second is not None, store.run(run_id)
    return summary.samples_per_second


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--model")
    parser.add_argument("--precision")
    parser.add_argument("--seconds", type=float, help="no pair starts after so many")
    parser.add_argument("--thread", action="store_true")
    parser.add_argument("--hz", type=int, action="append", help="another repaint rate; repeatable")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["AMMETER_HOME"] = home
        folder = Path(home)
        with Store(folder / "catalog.sqlite") as store, Launcher() as launcher:
            catalog = Runner(store, launcher).catalog()
        application = make_application([])
        experiment = workload(
            catalog.has_gpu, model=options.model, precision=options.precision, steps=options.steps
        )
        rates = options.hz or ([30, 60] if catalog.has_gpu else [CPU_REPAINT_HZ])
        targets = [Target.PROCESS, *([Target.THREAD] if options.thread else [])]
        kinds = [(target, hz) for target in targets for hz in rates]
        ratios = ratios_of(application, experiment, kinds, folder, options.pairs, options.seconds)
    pairs = max(len(values) for values in ratios.values())
    what = f"{experiment.model}, batch {experiment.batch_size}, {pairs} pairs"
    print(f"{catalog.devices[0].title}, {what}")
    print(f"{'engine':<12}{'window Hz':>10}{'with / without':>16}{'95% interval':>18}")
    for (target, hz), values in ratios.items():
        middle, low, high = median_interval(values)
        print(f"{target.value:<12}{hz:>10}{middle:>16.3f}{f'{low:.3f} to {high:.3f}':>18}")


if __name__ == "__main__":
    main()
