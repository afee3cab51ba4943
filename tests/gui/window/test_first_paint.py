"""What the window's start does without, and makes later in the same place."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from gui.window.main_window import MainWindow
from gui.window.remembered import Key

ROOT = Path(__file__).parents[3]
LOADED = """
import sys
import gui.window.app
late = {"torch", "matplotlib", "pyqtgraph", "jinja2", "numpy", "psutil", "PIL", "gui.help.dialog"}
late |= {f"gui.{workspace}.panel" for workspace in ("limit", "compare", "show")}
print(sorted(late & set(sys.modules)))
"""


def stops(window: QWidget) -> list[QWidget]:
    """Whom Tab goes to, in order."""
    found, stop = [], window.nextInFocusChain()
    while stop is not None and stop is not window:
        if stop.focusPolicy() != Qt.FocusPolicy.NoFocus:
            found.append(stop)
        stop = stop.nextInFocusChain()
    return found


@pytest.mark.slow
def test_the_window_loads_only_what_its_first_view_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_what_is_made_later_takes_its_place_in_the_order_of_tab(start: Callable[[], MainWindow]) -> None:
    window = start()
    before = stops(window)
    page, curves = window.live.page, window.others.compare.curves
    after = stops(window)
    assert [stop for stop in after if not (page.isAncestorOf(stop) or curves.isAncestorOf(stop))] == before
    assert any(page.strip.isAncestorOf(stop) for stop in after)
    in_table = [place for place, stop in enumerate(after) if window.others.compare.table.isAncestorOf(stop)]
    in_curves = [place for place, stop in enumerate(after) if curves.isAncestorOf(stop)]
    assert in_curves[0] > in_table[-1]


def test_the_other_workspaces_are_made_once_the_window_was_painted(
    qtbot: QtBot, start: Callable[..., MainWindow]
) -> None:
    window = start(has_pages=False)
    assert "others" not in vars(window)
    before = stops(window)
    with qtbot.waitSignal(window.painted):
        window.show()
    assert "others" in vars(window)
    assert [stop for stop in stops(window) if stop in before] == before


def test_a_workspace_that_is_asked_for_before_the_first_paint_is_made_then(
    start: Callable[..., MainWindow],
) -> None:
    window = start(has_pages=False)
    window.show_page("results")
    assert window.page == "results"
    assert window.others.head.isVisibleTo(window) and not window.setup.isVisibleTo(window)


@pytest.mark.slow
def test_a_window_that_was_never_painted_forgets_nothing_and_the_next_one_has_it(
    start: Callable[..., MainWindow], home: Path
) -> None:
    state = {"granularity": 24, "margin": 0.1, "forecast": False, "cpu_limit_gib": None}
    window = start(has_pages=False, **{Key.LIMIT: state})
    window.close_without_asking()
    (saved,) = (json.loads(path.read_text()) for path in home.rglob("window.json"))
    assert saved[Key.LIMIT] == state
    assert start().others.limit_panel.state() == state
