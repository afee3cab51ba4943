"""What a thousand trials that ran out of memory leave behind in the window: nothing that grows.

    QT_QPA_PLATFORM=offscreen uv run python tests/benchmarks/limit_memory.py [--failures 1000]

The whole window, its store and its threads, with searches one after another on the page of the memory limit.
Only the worker is a small script that tells the machine's real catalog and lets nothing over one sample fit:
what the window keeps of a failed trial is the same whatever refused the memory. Each round prints the
process's own memory (unique set size), Python's objects, Qt's objects in the window, threads and open files.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import psutil
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from engine.experiment.checks import Catalog
from engine.experiment.experiment import Experiment, experiment_from
from engine.protocol.events import CatalogRead
from engine.protocol.trials import Limit, LimitSide
from engine.runner import Runner
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.window.app import make_application, run_until
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings

_ROUND = 25
_FAILURES_EACH = 3
_MIB = 2**20
_WORKER = """
import json, os, sys
def say(**event):
    sys.stdout.write(json.dumps(event) + chr(10)); sys.stdout.flush()
say(event="ready", pid=os.getpid(), python="3", torch="0", ammeter="0")
for line in sys.stdin:
    job = json.loads(line)
    if job["job"] == "catalog":
        sys.stdout.write(open(sys.argv[1]).read() + chr(10)); sys.stdout.flush()
    elif job["job"] == "try":
        batch = job["experiment"]["batch_size"]
        trial = dict(batch_size=batch, fits=batch == 1, steps=3)
        trial.update(dict(peak_mib=100.0) if batch == 1 else dict(cause="memory"))
        say(event="tried", trial=trial, budget_mib=256.0)
        break
    else:
        problem = dict(kind="internal", message="Nobody knows.", remedy="Try it.")
        say(event="failed", problem=problem)
"""


def scripted(folder: Path, catalog: Catalog) -> Launcher:
    """Starts workers that are the script above."""
    script, told = folder / "worker.py", folder / "catalog.json"
    script.write_text(_WORKER, encoding="utf-8")
    told.write_text(CatalogRead(catalog=catalog).model_dump_json(), encoding="utf-8")
    return Launcher(command=(sys.executable, str(script), str(told)))


def search(window: MainWindow, experiment: Experiment) -> None:
    limits = window.experiments.limits
    ended: list[str] = []
    limits.ended.connect(ended.append)
    limits.submit(Limit(sides=(LimitSide(label="FP32", experiment=experiment),)))
    run_until(lambda: bool(ended), asked_every_ms=5)
    limits.ended.disconnect(ended.append)


def show_state(window: MainWindow, failures: int) -> float:
    """Prints a line; the process's own memory in MiB."""
    QApplication.processEvents()
    gc.collect()
    process = psutil.Process()
    own_mib: float = process.memory_full_info().uss / _MIB
    print(
        f"{failures:>9,}{own_mib:>11.1f}{len(gc.get_objects()):>11,}"
        f"{len(window.findChildren(QObject)):>8,}{process.num_threads():>9}{process.num_fds():>7}",
        flush=True,
    )
    return own_mib


def measure(window: MainWindow, failures: int) -> None:
    experiment = experiment_from(
        {"model": "small-cnn", "dataset": "fashion", "device": "cpu", "memory_cap_gib": 0.25, "batch_size": 1}
    )
    print(f"{'failures':>9}{'own MiB':>11}{'objects':>11}{'Qt':>8}{'threads':>9}{'files':>7}")
    began, told = time.perf_counter(), []
    for number in range(failures // _FAILURES_EACH + 1):
        if number % _ROUND == 0:
            told.append(show_state(window, number * _FAILURES_EACH))
        search(window, experiment)
    told.append(show_state(window, (failures // _FAILURES_EACH + 1) * _FAILURES_EACH))
    print(
        f"grew by {told[-1] - told[1]:.1f} MiB from the second line to the last, "
        f"{told[-1] - told[len(told) // 2]:.1f} in the second half; {time.perf_counter() - began:,.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--failures", type=int, default=1_000)
    options = parser.parse_args()
    make_application([])
    with tempfile.TemporaryDirectory() as name, Store(Path(name) / "runs.sqlite") as store:
        with Launcher() as launcher:
            catalog = Runner(store, launcher).catalog()
        window = MainWindow(store, scripted(Path(name), catalog), Settings(Path(name) / "window.json"))
        window.resize(1_440, 900)
        window.show_page("limit")
        window.show()
        run_until(lambda: window.experiments.catalog is not None)
        measure(window, options.failures)
        window.close_without_asking()


if __name__ == "__main__":
    main()
