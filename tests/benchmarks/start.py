"""How long `ammeter` takes to its first painted window, beside an empty Qt window, alternating.

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

WATCH = """
import os, sys, time
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QMainWindow, QWidget
class Watcher(QObject):
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint and isinstance(watched, QWidget):
            if isinstance(watched.window(), QMainWindow):
                took = time.monotonic() - float(os.environ["BEGAN"])
                print(took, "torch" in sys.modules, len(sys.modules), flush=True)
                os._exit(0)
        return False
"""

# The watcher is put on at the window's show event: a filter over all events before would slow the start down.
AMMETER = (
    WATCH
    + """
import gc
import gui.window.display
check = gui.window.display.display_problem
def checked():
    problem = check()
    gc.disable()  # as the program does right after
    from PySide6.QtWidgets import QApplication
    from gui.window.main_window import MainWindow
    show = MainWindow.showEvent
    def watched(window, event):
        show(window, event)
        window.watcher = Watcher()
        QApplication.instance().installEventFilter(window.watcher)
    MainWindow.showEvent = watched
    return problem
gui.window.display.display_problem = checked
sys.argv = ["ammeter"]
from gui.__main__ import main
main()
"""
)

EMPTY = (
    WATCH
    + """
from PySide6.QtWidgets import QApplication
application = QApplication([])
watcher = Watcher()
application.installEventFilter(watcher)
window = QMainWindow()
window.resize(1440, 900)
window.show()
application.exec()
"""
)


def start(code: str, home: str) -> tuple[float, str]:
    environment = {**os.environ, "AMMETER_HOME": home, "BEGAN": str(time.monotonic())}
    environment.setdefault("QT_QPA_PLATFORM", "offscreen")
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    seconds, torch, _modules = done.stdout.split()
    return float(seconds), torch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    ours, empty, torch = [], [], set()
    with tempfile.TemporaryDirectory() as home:
        start(AMMETER, home), start(EMPTY, home)
        for _ in range(options.repeats):
            seconds, loaded = start(AMMETER, home)
            ours.append(seconds)
            torch.add(loaded)
            empty.append(start(EMPTY, home)[0])
    print(f"{'first painted window':<24}{'median s':>10}{'min s':>8}{'max s':>8}")
    for name, times in (("ammeter", ours), ("an empty Qt window", empty)):
        print(f"{name:<24}{statistics.median(times):>10.2f}{min(times):>8.2f}{max(times):>8.2f}")
    print(f"{'ratio':<24}{statistics.median(ours) / statistics.median(empty):>10.2f}")
    print(f"torch in the window's process: {' '.join(sorted(torch))}")


if __name__ == "__main__":
    main()
