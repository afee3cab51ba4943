"""Runs the program, reports when its window is first painted, and closes the window as a user would.

The package's interpreter runs this file, with the time before its start (time.monotonic) in AMMETER_BEGAN. It
prints a line of JSON, and ends with the program's own exit status.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import engine.doctor.display
from gui.__main__ import main


def watch_window() -> None:
    """Report the window's first paint, without importing the window earlier than the program does."""
    check = engine.doctor.display.display_problem

    def checked() -> object:
        problem = check()
        # what the program does itself right after this
        import builtins

        import PySide6.QtCore  # noqa: F401

        builtins.__import__ = getattr(builtins, "__orig_import__", builtins.__import__)
        from gui.window.main_window import MainWindow

        show = MainWindow.show

        def watched(window: MainWindow) -> None:
            window.painted.connect(lambda: _tell(window))
            show(window)

        MainWindow.show = watched  # type: ignore[assignment,method-assign]
        return problem

    engine.doctor.display.display_problem = checked  # type: ignore[assignment]


def _tell(window: object) -> None:
    seconds = time.monotonic() - float(os.environ["AMMETER_BEGAN"])
    processor_seconds = time.process_time()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    libraries = {line.split()[-1] for line in maps if ".so" in line}
    modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    print(
        json.dumps(
            {
                "seconds": seconds,
                "processor_seconds": processor_seconds,
                "torch": "torch" in sys.modules,
                "libraries": sorted(libraries),
                # those that Qt has built in tell no path from the root on
                "modules": sorted(path for path in modules if path and Path(path).is_absolute()),
            }
        ),
        flush=True,
    )
    from PySide6.QtCore import QTimer

    QTimer.singleShot(0, window.close)  # type: ignore[attr-defined]


if __name__ == "__main__":
    watch_window()
    sys.argv = ["ammeter"]
    sys.exit(main())
