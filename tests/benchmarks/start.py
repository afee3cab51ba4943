"""Time from `ammeter` to its first painted window, and from Run to the first training step.

    QT_QPA_PLATFORM=offscreen uv run python tests/benchmarks/start.py [--repeats 5] [--package FOLDER]
        [--steps-only]

The window is compared with an empty Qt window, alternating, each start in its own process. The very first
start opens the welcome. With `--package`, the folder of an unpacked package (`dpkg-deb --extract`), its
program starts too: without PyTorch, and the first time from the disk after `sync; echo 1 >
/proc/sys/vm/drop_caches`. The first step is that of the preset hello-amp, with a spare worker ready and with
none.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "packaging")]

from PySide6.QtWidgets import QApplication  # noqa: E402
from side_by_side import print_spreads  # noqa: E402

from engine.protocol.events import Samples  # noqa: E402
from engine.store.store import Store  # noqa: E402
from engine.worker.launcher import Launcher  # noqa: E402
from gui.window.app import make_application, run_until  # noqa: E402
from gui.window.main_window import MainWindow  # noqa: E402
from gui.window.remembered import Settings  # noqa: E402
from smoke_test.steps import INSTALLED, first_paint  # noqa: E402

_EMPTY_WINDOW = """
import os, sys, time
from PySide6.QtWidgets import QApplication, QMainWindow
class Window(QMainWindow):
    def paintEvent(self, event):
        print(time.monotonic() - float(sys.argv[1]), time.process_time(), flush=True)
        os._exit(0)
application = QApplication([])
window = Window()
window.resize(1440, 900)
window.show()
application.exec()
"""


class Cold(Launcher):
    """A launcher that never keeps a spare worker."""

    def prepare(self) -> None:
        self._end("light")


def empty_window() -> tuple[float, float]:
    """Return the seconds of an empty window: wall clock, CPU."""
    command = [sys.executable, "-c", _EMPTY_WINDOW, str(time.monotonic())]
    wall, processor = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(wall), float(processor)


def program(interpreter: Path, home: str, *, is_first: bool = False) -> tuple[float, float]:
    """Return the seconds until the program's window is painted: wall clock, CPU."""
    if not is_first:
        (Path(home) / "window.json").write_text('{"theme": "system"}', encoding="utf-8")
    common = {"PATH": os.environ["PATH"], "HOME": home, "AMMETER_HOME": home}
    common["QT_QPA_PLATFORM"] = os.environ["QT_QPA_PLATFORM"]
    own = {"PYTHONPATH": str(ROOT)} if interpreter == Path(sys.executable) else {}
    painted = first_paint(interpreter, common | own)
    assert not painted.torch, "torch came into the window's process"
    return painted.seconds, painted.processor_seconds


def in_new_home(interpreter: Path, *, is_first: bool) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as home:
        return program(interpreter, home, is_first=is_first)


def first_step(launcher: Launcher) -> float:
    """Return the seconds from the press on Run until the window has the first step's metrics."""
    with tempfile.TemporaryDirectory() as home, Store(Path(home) / "runs.sqlite") as store:
        window = MainWindow(store, launcher, Settings(Path(home) / "window.json"))
        window.show()
        run_until(lambda: window.experiments.catalog is not None)
        window.setup.choose_preset("hello-amp")
        run_until(lambda: window.setup.run_action.isEnabled())
        run_until(lambda: launcher.has_ready_spare or isinstance(launcher, Cold))
        steps: list[bool] = []
        window.experiments.event_received.connect(lambda _, event: steps.append(isinstance(event, Samples)))
        began = time.perf_counter()
        window.setup.run_action.trigger()
        run_until(lambda: any(steps))
        took = time.perf_counter() - began
        window.close_without_asking()
        window.deleteLater()
        QApplication.processEvents()
    return took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--package", type=Path, metavar="FOLDER", help="the folder of the unpacked package")
    parser.add_argument("--steps-only", action="store_true", help="only the time to the first step")
    options = parser.parse_args()
    here = Path(sys.executable)
    starts: dict[str, Callable[[], tuple[float, float]]] = {
        "an empty Qt window": empty_window,
        "the very first start": lambda: in_new_home(here, is_first=True),
        "any later start": lambda: in_new_home(here, is_first=False),
    }
    if options.package:
        packaged = options.package.resolve() / INSTALLED / "python/bin/python3"
        starts["the package"] = lambda: in_new_home(packaged, is_first=False)
        print(f"the package's first start: {starts['the package']()[0]:.2f} s")
    if not options.steps_only:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in starts}
        for number in range(options.repeats + 1):
            for name, start in starts.items():
                times = start()
                if number:  # the first start of each reads its files from the disk
                    found[name].append(times)
        for column, title in enumerate(("wall clock", "CPU")):
            rows = {name: [both[column] for both in one] for name, one in found.items()}
            print_spreads(f"first painted window, {title}: seconds", rows)
    application = make_application([])
    launchers = {"a spare worker is ready": Launcher, "without a spare worker": Cold}
    steps: dict[str, list[float]] = {name: [] for name in launchers}
    for _ in range(options.repeats):
        for name, launcher in launchers.items():
            steps[name].append(first_step(launcher()))
    print_spreads("from Run to the first step: seconds", steps)
    application.processEvents()


if __name__ == "__main__":
    main()
