"""What the window's start does without, and makes later in the same place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from gui.window.main_window import MainWindow

ROOT = Path(__file__).parents[3]
LOADED = """
import sys
import gui.window.app
print(sorted({"torch", "matplotlib", "pyqtgraph", "jinja2"} & set(sys.modules)))
"""


def stops(window: QWidget) -> list[QWidget]:
    """Whom Tab goes to, in order."""
    found, stop = [], window.nextInFocusChain()
    while stop is not None and stop is not window:
        if stop.focusPolicy() != Qt.FocusPolicy.NoFocus:
            found.append(stop)
        stop = stop.nextInFocusChain()
    return found


def test_the_window_loads_no_plots_reports_or_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_what_is_made_later_takes_its_place_in_the_order_of_tab(start: Callable[[], MainWindow]) -> None:
    window = start()
    before = stops(window)
    page, curves = window.live.page, window.compare.curves
    after = stops(window)
    assert [stop for stop in after if not (page.isAncestorOf(stop) or curves.isAncestorOf(stop))] == before
    assert page.strip.isAncestorOf(after[after.index(window.live.empty.button) + 1])
    assert curves.isAncestorOf(after[after.index(window.compare.table.target.edit) + 1])
