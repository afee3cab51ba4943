"""How long `ammeter` takes to its first painted window, beside an empty Qt window, alternating.

The very first start opens the welcome, in Show; later ones open Train. Processor time is that of the process
up to the paint, all its threads: other programs disturb it less.

    QT_QPA_PLATFORM=offscreen uv run python tests/benchmarks/start.py [--repeats 5]

Each start is a process of its own. It also says whether torch came into the window's process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WATCH = """
import os, sys, time
def watcher():
    from PySide6.QtCore import QEvent, QObject
    from PySide6.QtWidgets import QMainWindow, QWidget
    class Watcher(QObject):
        def eventFilter(self, watched, event):
            if event.type() == QEvent.Type.Paint and isinstance(watched, QWidget):
                if isinstance(watched.window(), QMainWindow):
                    took = time.monotonic() - float(os.environ["BEGAN"])
                    print(took, time.process_time(), "torch" in sys.modules, len(sys.modules), flush=True)
                    os._exit(0)
            return False
    return Watcher()
"""

# The watcher is put on at the window's show event: a filter over all events before would slow the start down.
AMMETER = (
    WATCH
    + """
import builtins, gc
gc.disable()  # as the program does first
import engine.doctor.display
check = engine.doctor.display.display_problem
def checked():
    problem = check()
    import PySide6.QtCore
    builtins.__import__ = builtins.__orig_import__  # as the program does right after
    from PySide6.QtWidgets import QApplication
    from gui.window.main_window import MainWindow
    show = MainWindow.showEvent
    def watched(window, event):
        show(window, event)
        window.watcher = watcher()
        QApplication.instance().installEventFilter(window.watcher)
    MainWindow.showEvent = watched
    return problem
engine.doctor.display.display_problem = checked
sys.argv = ["ammeter"]
from gui.__main__ import main
main()
"""
)

EMPTY = (
    WATCH
    + """
from PySide6.QtWidgets import QApplication, QMainWindow
application = QApplication([])
watching = watcher()
application.installEventFilter(watching)
window = QMainWindow()
window.resize(1440, 900)
window.show()
application.exec()
"""
)


FIRST, LATER, EMPTY_WINDOW = "the very first start", "any later start", "an empty Qt window"


def start(code: str, home: str) -> tuple[float, float, str]:
    """Seconds by the clock, seconds of processor time, and whether torch was loaded."""
    environment = {**os.environ, "AMMETER_HOME": home, "BEGAN": str(time.monotonic())}
    environment.setdefault("QT_QPA_PLATFORM", "offscreen")
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    seconds, processor_seconds, torch, _modules = done.stdout.split()
    return float(seconds), float(processor_seconds), torch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    starts: dict[str, list[tuple[float, float, str]]] = {name: [] for name in (FIRST, LATER, EMPTY_WINDOW)}
    with tempfile.TemporaryDirectory() as new, tempfile.TemporaryDirectory() as known:
        (Path(known) / "window.json").write_text('{"theme": "system"}', encoding="utf-8")
        kinds = ((FIRST, AMMETER, new), (LATER, AMMETER, known), (EMPTY_WINDOW, EMPTY, new))
        for _name, code, home in kinds:
            start(code, home)
        for _ in range(options.repeats):
            for name, code, home in kinds:
                starts[name].append(start(code, home))
    for column, title in enumerate(("by the clock", "processor time")):
        print(f"{'first painted window, ' + title:<40}{'median s':>10}{'min s':>8}{'max s':>8}")
        medians = {}
        for name, measured in starts.items():
            times = [(seconds, processor)[column] for seconds, processor, _torch in measured]
            medians[name] = statistics.median(times)
            print(f"{name:<40}{medians[name]:>10.2f}{min(times):>8.2f}{max(times):>8.2f}")
        for name in (FIRST, LATER):
            print(f"{'ratio, ' + name:<40}{medians[name] / medians[EMPTY_WINDOW]:>10.2f}")
    loaded = {torch for _seconds, _processor_seconds, torch in starts[LATER]}
    print(f"torch in the window's process: {' '.join(sorted(loaded))}")


if __name__ == "__main__":
    main()
