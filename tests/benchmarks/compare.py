"""How long a comparison of many long runs takes to open, and how long a frame takes while it is panned.

Run it with `python tests/benchmarks/compare.py [runs] [samples] [frames]`; it prints both, for runs that are
repeats of four precisions, and for runs that are each a side of their own. The store is made anew each time,
in a folder that is thrown away. A frame is taking the new part of x and painting the whole plot.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from PySide6.QtWidgets import QApplication

from engine.experiment.experiment import experiment_from
from engine.protocol.events import Environment, Epoch, Finished, Samples, Started, Summary
from engine.store.store import Store
from gui.compare.head import ItemHead
from gui.compare.panel import ComparePanel
from gui.compare.reading import CompareReader
from gui.session.background import Background
from gui.session.saved_runs import SavedRuns
from gui.window.app import make_application, run_until

_PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
_CARD = Environment(
    device_name="a card", device_memory_mib=81_920, torch="2.15", python="3.13", os="Linux", ammeter="0.1"
)


def fill(store: Store, runs: int, samples: int, *, are_repeats: bool) -> None:
    """Runs as a worker would have told them, with every column that a GPU gives."""
    rng = np.random.default_rng(0)
    for number in range(runs):
        group = number // len(_PRECISIONS)
        experiment = experiment_from(
            {
                "precision": _PRECISIONS[number % len(_PRECISIONS)],
                "device": "cuda:0",
                "steps": samples,
                "seed": group if are_repeats else 0,
                "batch_size": 64 if are_repeats else 64 * (1 + group),
            }
        )
        run_id = store.add(experiment).id
        store.begin(run_id)
        steps = np.arange(1, samples + 1)
        speed = 1_000.0 * (1 + number % len(_PRECISIONS)) * (1 + 0.01 * rng.normal())
        seconds = steps * experiment.batch_size / speed
        columns = {
            "loss": 0.5 + 5 * np.exp(-steps / (samples / 10)) + rng.normal(0, 0.1, samples),
            "samples_per_second": speed * (1 + 0.02 * rng.normal(size=samples)),
            **{name: np.ones(samples) for name in ("learning_rate", "gradient_norm", "grad_scale")},
            **{name: np.ones(samples) for name in ("allocated_mib", "reserved_mib", "device_used_mib")},
        }
        told = {
            name: tuple(values.tolist()) for name, values in columns.items() if name in Samples.model_fields
        }
        epochs = [
            Epoch(epoch=1 + place, step=int(step), seconds=float(seconds[step - 1]), train_loss=1.0,
                  validation_accuracy=0.5 + 0.004 * place)
            for place, step in enumerate(range(samples // 100, samples + 1, samples // 100))
        ]  # fmt: skip
        begun = Started(
            experiment=experiment, environment=_CARD, total_steps=samples, steps_per_epoch=samples // 100,
            parameters=11, loss_name="cross-entropy", loss_unit="nats",
        )  # fmt: skip
        end = Finished(
            summary=Summary(
                steps=samples, samples_per_second=speed, step_ms=1e3 * experiment.batch_size / speed,
                final_train_loss=0.5, final_validation_accuracy=0.9, seconds=float(seconds[-1]),
                peak_allocated_mib=3_000.0,
            )
        )  # fmt: skip
        rows = Samples(step=tuple(steps.tolist()), seconds=tuple(seconds.tolist()), **told)
        store.record(run_id, [begun, rows, *epochs, end])


def measure(store: Store, frames: int) -> tuple[float, np.ndarray]:
    """Seconds until everything is shown and painted, and of each frame of a pan its milliseconds: by the
    clock, and of the processor, which other programs do not add to."""
    head, panel, reading = ItemHead(), ComparePanel(), Background()
    saved = SavedRuns(store)
    saved.reload()
    comparing = CompareReader(store.path, saved, head, panel, reading)
    panel.resize(1_120, 848)
    panel.show()
    head.show()
    QApplication.processEvents()
    there = []
    comparing.shown.connect(lambda: there.append(True))
    begun = time.perf_counter()
    comparing.set_runs(run.id for run in saved.records())
    comparing.set_in_sight(True)
    run_until(lambda: bool(there))
    panel.grab()
    opened = time.perf_counter() - begun
    whole = panel.curves.canvas.frame.x_range[1]
    taken = []
    for frame in range(frames):
        low = 0.3 * whole * (1 + np.sin(frame / 20))
        begun = time.perf_counter(), time.thread_time()
        panel.curves.set_x_range((low, low + whole / (2 + frame % 3)))
        panel.curves.canvas.viewport().repaint()
        taken.append((1e3 * (time.perf_counter() - begun[0]), 1e3 * (time.thread_time() - begun[1])))
        QApplication.processEvents()
    reading.stop()
    panel.close()
    head.close()
    return opened, np.array(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="?", type=int, default=20)
    parser.add_argument("samples", nargs="?", type=int, default=100_000)
    parser.add_argument("frames", nargs="?", type=int, default=200)
    options = parser.parse_args()
    runs, samples, frames = options.runs, options.samples, options.frames
    application = make_application([])
    for are_repeats, words in ((True, "repeats of 4 sides"), (False, "sides of their own")):
        with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "ammeter.sqlite") as store:
            fill(store, runs, samples, are_repeats=are_repeats)
            opened, taken = measure(store, frames)
        middle, late = np.median(taken, axis=0), np.percentile(taken, 95, axis=0)
        print(
            f"{runs} runs of {samples:,} samples, {words}: open in {opened:.2f} s; a frame {middle[0]:.1f} ms"
            f" ({middle[1]:.1f} of the processor), 95th percentile {late[0]:.1f} ({late[1]:.1f}) ms"
        )
    application.quit()


if __name__ == "__main__":
    main()
