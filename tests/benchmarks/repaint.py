"""How long a frame of the live panel takes: four plots whose curves grow by a batch of samples a frame.

Run it with `python tests/benchmarks/repaint.py [points] [frames]`; it prints a table. A frame is taking
the new samples, preparing all four plots and painting the whole panel, with Smooth on and two runs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from PySide6.QtWidgets import QApplication

from engine.experiment.experiment import Experiment, Precision
from gui.theme.theme import theme
from gui.train.panel import LivePanel, LiveRun
from gui.window.app import make_application

_BATCH = 50


def samples(first: int, count: int, rng: np.random.Generator, scaled: bool) -> dict[str, np.ndarray]:
    """Columns of `count` steps from step `first` on, as noisy as those of a real run."""
    step = np.arange(first, first + count, dtype=np.float64)
    columns = {
        "step": step,
        "seconds": step * 0.01,
        "loss": 1.4 + 5.4 * np.exp(-step / 3000) + rng.normal(0, 0.15, count),
        "samples_per_second": 5000 + rng.normal(0, 60, count),
        "allocated_mib": 3000 + rng.normal(0, 5, count),
        "reserved_mib": np.full(count, 3300.0),
    }
    if scaled:
        columns["grad_scale"] = 2.0 ** (14 + (step // 700) % 3)
    return columns


def measure(points: int, frames: int) -> np.ndarray:
    """Milliseconds of each frame, with `points` samples a curve."""
    rng = np.random.default_rng(0)
    runs = [LiveRun.queued(name, Experiment(precision=name)) for name in (Precision.FP32, Precision.FP16)]
    for run in runs:
        run.status, run.total_steps = "running", points + frames * _BATCH
        run.add_samples(samples(1, points, rng, run.precision is Precision.FP16))
    panel = LivePanel()
    panel.resize(1120, 660)
    panel.show()
    panel.set_runs(runs)
    QApplication.processEvents()
    taken = []
    for _ in range(frames):
        more = samples(runs[1].step + 1, _BATCH, rng, True)
        begun = time.perf_counter()
        runs[1].add_samples(more)
        panel.refresh()
        QApplication.processEvents()
        taken.append((time.perf_counter() - begun) * 1000.0)
    panel.close()
    panel.deleteLater()
    return np.array(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("points", nargs="?", type=int)
    parser.add_argument("frames", nargs="?", type=int, default=200)
    options = parser.parse_args()
    frames = options.frames
    sizes = [1_000, 10_000, 100_000] if options.points is None else [options.points]
    application = make_application([])
    theme().set_mode("dark")
    print("points a curve   frames   median ms   95th percentile ms   longest ms")
    for points in sizes:
        taken = measure(points, frames)
        middle, high, longest = np.percentile(taken, (50, 95, 100))
        print(f"{points:>14,}   {frames:>6}   {middle:>9.1f}   {high:>18.1f}   {longest:>10.1f}")
    application.processEvents()


if __name__ == "__main__":
    main()
