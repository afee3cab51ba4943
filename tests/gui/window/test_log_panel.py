"""The log panel: what was said stays readable while more is said."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot

from gui.window.queue_popover import MOST_LINES, LogPanel

# the offscreen platform says so whenever a window or a popup is shown
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.fixture
def panel(qtbot: QtBot) -> LogPanel:
    panel = LogPanel()
    qtbot.addWidget(panel)
    panel.resize(600, 160)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def test_a_line_has_time_level_run_and_message(panel: LogPanel) -> None:
    panel.append("warning", "Speed is null.", "Run 14")
    time, level, rest = panel.text().split("  ", 2)
    assert len(time) == 8
    assert level == "warning"
    assert rest == "Run 14: Speed is null."


def test_further_lines_are_indented_under_the_first(panel: LogPanel) -> None:
    panel.append("info", "first\nsecond")
    first, second = panel.text().splitlines()
    assert second.index("second") == first.index("first")


def test_it_keeps_the_newest_lines(panel: LogPanel) -> None:
    for number in range(MOST_LINES + 10):
        panel.append("info", f"line {number}")
    lines = panel.text().splitlines()
    assert len(lines) == MOST_LINES
    assert lines[-1].endswith(f"line {MOST_LINES + 9}")


def test_it_follows_the_end_only_while_the_end_is_in_sight(panel: LogPanel) -> None:
    for number in range(100):
        panel.append("info", f"line {number}")
    bar = panel.view.verticalScrollBar()
    assert bar.value() == bar.maximum()
    bar.setValue(3)
    panel.append("info", "one more")
    assert bar.value() == 3


def test_copy_takes_the_selection_or_everything(panel: LogPanel) -> None:
    panel.append("info", "first")
    panel.append("info", "second")
    panel.copy()
    assert QGuiApplication.clipboard().text() == panel.text()
    cursor = panel.view.textCursor()
    cursor.movePosition(QTextCursor.MoveOperation.Start)
    cursor.movePosition(QTextCursor.MoveOperation.EndOfLine, QTextCursor.MoveMode.KeepAnchor)
    panel.view.setTextCursor(cursor)
    panel.copy()
    assert QGuiApplication.clipboard().text() == panel.text().splitlines()[0]


def test_an_empty_log_says_what_comes_and_offers_nothing_to_copy(panel: LogPanel) -> None:
    copy, clear = (one for one in panel.findChildren(QPushButton) if one.text() in ("Copy", "Clear"))
    assert "appear here" in panel.view.placeholderText()
    assert not copy.isEnabled() and not clear.isEnabled()
    panel.append("info", "something")
    assert copy.isEnabled() and clear.isEnabled()
    clear.click()
    assert not copy.isEnabled() and not clear.isEnabled()


def test_wrap_and_clear_are_buttons(panel: LogPanel) -> None:
    buttons = {button.text(): button for button in panel.findChildren(QPushButton)}
    buttons["Wrap"].click()
    assert panel.view.lineWrapMode() is QPlainTextEdit.LineWrapMode.WidgetWidth
    panel.append("info", "something")
    buttons["Clear"].click()
    assert panel.text() == ""
    for button in buttons.values():
        assert button.toolTip()
        assert button.accessibleName()
