"""The dock: runs or log, open or folded to its header."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from gui.theme.theme import theme
from gui.window.body import CLOSED_HEIGHT, OPEN_HEIGHT, Dock


@pytest.fixture
def dock(qtbot: QtBot) -> Dock:
    theme()
    dock = Dock()
    qtbot.addWidget(dock)
    dock.resize(900, OPEN_HEIGHT)
    with qtbot.waitExposed(dock):
        dock.show()
    return dock


def button(dock: Dock, name: str) -> QAbstractButton:
    return next(one for one in dock.findChildren(QAbstractButton) if one.accessibleName() == name)


def click(qtbot: QtBot, dock: Dock, name: str) -> None:
    qtbot.mouseClick(button(dock, name), Qt.MouseButton.LeftButton)


def test_it_opens_with_the_runs(dock: Dock) -> None:
    assert dock.page == "runs"
    assert dock.runs.pages.isVisible()
    assert not dock.log.view.isVisible()


def test_the_chevron_folds_it_to_its_header_and_unfolds_it_again(qtbot: QtBot, dock: Dock) -> None:
    with qtbot.waitSignal(dock.opened) as told:
        click(qtbot, dock, "Close the runs")
    assert told.args == [False]
    assert dock.height() == CLOSED_HEIGHT
    assert not dock.runs.pages.isVisible()
    with qtbot.waitSignal(dock.opened) as told:
        click(qtbot, dock, "Open the runs")
    assert told.args == [True]
    assert dock.maximumHeight() > 1_000
    assert dock.runs.pages.isVisible()


def test_the_log_and_the_runs_take_turns(qtbot: QtBot, dock: Dock) -> None:
    click(qtbot, dock, "Show the log")
    assert dock.page == "log"
    assert dock.log.view.isVisible()
    click(qtbot, dock, "Show the runs")
    assert dock.page == "runs"
    dock.toggle("log")
    assert dock.page == "log"
    dock.toggle("log")
    assert dock.page == "runs"


def test_what_is_said_behind_the_runs_is_in_the_log(qtbot: QtBot, dock: Dock) -> None:
    dock.log.append("warning", "The scale fell below 1.", "Run 3")
    click(qtbot, dock, "Show the log")
    assert "Run 3: The scale fell below 1." in dock.log.text()


def test_showing_the_log_unfolds_the_dock(dock: Dock) -> None:
    dock.runs.set_open(False)
    dock.show_page("log")
    assert dock.log.view.isVisible()
    assert dock.maximumHeight() > 1_000


def test_showing_the_runs_leaves_a_folded_dock_folded(dock: Dock) -> None:
    dock.runs.set_open(False)
    dock.show_page("runs")
    assert dock.height() == CLOSED_HEIGHT


def test_folded_over_the_log_its_header_is_whole(qtbot: QtBot, dock: Dock) -> None:
    dock.show_page("log")
    dock.runs.set_open(False)
    qtbot.waitUntil(lambda: dock.height() == CLOSED_HEIGHT)
    assert not dock.log.view.isVisible()
    for name in ("Wrap the log", "Show the runs"):
        shown = button(dock, name)
        assert shown.visibleRegion().boundingRect().size() == shown.size()
        assert shown.height() >= 22
    dock.runs.set_open(True)
    assert dock.log.view.isVisible()


def test_settling_takes_back_the_height_that_fits(dock: Dock) -> None:
    dock.runs.set_open(False)
    dock.setMinimumHeight(0)
    dock.setMaximumHeight(500)
    dock.settle()
    assert dock.height() == CLOSED_HEIGHT


def test_every_control_says_what_it_is(dock: Dock) -> None:
    controls = [one for one in dock.findChildren(QAbstractButton) if one.isVisibleTo(dock)]
    dock.show_page("log")
    controls += [one for one in dock.findChildren(QAbstractButton) if one.isVisibleTo(dock)]
    assert len(controls) > 6
    for control in controls:
        assert control.accessibleName(), control
        assert control.toolTip(), control.accessibleName()
