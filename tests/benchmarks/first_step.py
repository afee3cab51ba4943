"""From the button to the first training step, with a spare worker at the ready and without one, alternating.

    QT_QPA_PLATFORM=offscreen uv run python tests/benchmarks/first_step.py [--repeats 5] [--arm ready]

The preset is hello-amp. The time ends when the window's own process has the first step's figures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from engine.protocol.events import Samples
from engine.store.store import Store
from engine.worker.launcher import Launcher
from gui.window.app import make_application, run_until
from gui.window.main_window import MainWindow
from gui.window.remembered import Settings


def wait_for(signal: object, accept: object = lambda *_: True) -> None:
    loop = QEventLoop()
    connection = signal.connect(lambda *values: loop.quit() if accept(*values) else None)
    QTimer.singleShot(120_000, loop.quit)
    loop.exec()
    signal.disconnect(connection)


class Cold(Launcher):
    """Never keeps a spare."""

    def prepare(self) -> None:
        self._end("light")


ARMS = {"ready": Launcher, "cold": Cold}


def measure(application: QApplication, home: Path, launcher: Launcher) -> float:
    with Store(home / "runs.sqlite") as store:
        window = MainWindow(store, launcher, Settings(home / "window.json"))
        window.show()
        wait_for(window.experiments.catalog_known)
        window.setup.choose_preset("hello-amp")
        run_until(lambda: window.setup.run_action.isEnabled())
        run_until(lambda: launcher.has_ready_spare or isinstance(launcher, Cold))
        began = time.perf_counter()
        window.setup.run_action.trigger()
        wait_for(window.experiments.event_received, lambda _id, event: isinstance(event, Samples))
        took = time.perf_counter() - began
        window.close_without_asking()
        window.deleteLater()
        application.processEvents()
    return took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--arm", choices=ARMS, help="one alone")
    options = parser.parse_args()
    application = make_application([])
    found: dict[str, list[float]] = {name: [] for name in ARMS if options.arm in (None, name)}
    for _ in range(options.repeats):
        for name, times in found.items():
            with tempfile.TemporaryDirectory() as home:
                times.append(measure(application, Path(home), ARMS[name]()))
    print(f"{'button to first step':<24}{'median s':>10}{'min s':>8}{'max s':>8}")
    for name, times in found.items():
        print(f"{name:<24}{statistics.median(times):>10.2f}{min(times):>8.2f}{max(times):>8.2f}")
    if len(found) == 2:
        ready, cold = (statistics.median(times) for times in found.values())
        print(f"{'ratio':<24}{ready / cold:>10.2f}")


if __name__ == "__main__":
    main()
