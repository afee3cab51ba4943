"""The activity chip: what runs, how far it is, and the queue and log behind it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from gui.runs.queue_table import schedule
from gui.session.items import QueueItem
from gui.window.chips import ActivityChip, describe_activity, start_text
from gui.window.main_window import MainWindow
from gui.window.queue_popover import MOST_LINES, LogPanel

NOW = datetime(2026, 11, 23, 12)
RUN = QueueItem(
    *("a", "run", "BF16 AMP, resnet50, 2 of 2", ""),
    is_running=True,
    progress=0.62,
    seconds_left=40,
    brief="BF16 AMP, 2 of 2",
    precision=Precision.BF16,
)
LIMIT = QueueItem("b", "limit", "resnet50", "", seconds_left=200)
UNKNOWN = QueueItem("c", "sweep", "A sweep", "")


@pytest.mark.parametrize(
    ("items", "is_paused", "words"),
    [
        ((), False, "Nothing running"),
        ((RUN, LIMIT), False, "BF16 AMP, resnet50, 2 of 2, 62%, 40 s left, 1 waiting"),
        ((RUN,), False, "BF16 AMP, resnet50, 2 of 2, 62%, 40 s left"),
        ((RUN, UNKNOWN), False, "BF16 AMP, resnet50, 2 of 2, 62%, 40 s left, 1 waiting"),
        ((LIMIT,), True, "The queue is paused, 1 waiting"),
    ],
)
def test_it_says_what_runs_how_far_that_is_and_what_waits(
    items: tuple[QueueItem, ...], is_paused: bool, words: str
) -> None:
    assert describe_activity(schedule(items, NOW, is_paused=is_paused)).words == words


def test_the_form_says_when_what_is_added_would_begin() -> None:
    times = [start_text(schedule(items, NOW, is_paused=False)) for items in ((), (RUN,), (RUN, LIMIT))]
    assert times == ["", "starts in about 1 min", "starts in about 4 min"]
    assert start_text(schedule((RUN, UNKNOWN), NOW, is_paused=False)) == "starts after the jobs in the queue"


def test_brief_it_leaves_out_the_model_and_what_waits(qtbot: QtBot) -> None:
    chip = ActivityChip()
    qtbot.addWidget(chip)
    chip.show_activity(describe_activity(schedule((RUN, LIMIT), NOW, is_paused=False)))
    whole = chip.sizeHint().width()
    chip.set_brief(True)
    assert chip.minimumSizeHint().width() == chip.sizeHint().width() < whole, "the time left always has room"
    assert chip.activity().brief == "BF16 AMP, 2 of 2" and "resnet50, 2 of 2" in chip.accessibleName()


def button(window: MainWindow, name: str) -> QAbstractButton:
    return next(one for one in window.findChildren(QAbstractButton) if one.accessibleName() == name)


def test_a_click_opens_the_queue_from_there_the_log_and_escape_or_a_click_elsewhere_closes(
    start: Callable[[], MainWindow], qtbot: QtBot
) -> None:
    window = start()
    chip, opened = window.top_bar.activity, window.backstage
    qtbot.mouseClick(chip, Qt.MouseButton.LeftButton)
    assert opened.page == "queue" and window.rect().contains(opened.geometry())
    qtbot.mouseClick(button(window, "Show the log"), Qt.MouseButton.LeftButton)
    assert opened.page == "log"
    qtbot.mouseClick(button(window, "Show the queue"), Qt.MouseButton.LeftButton)
    assert opened.page == "queue"
    qtbot.mouseClick(chip, Qt.MouseButton.LeftButton)
    assert opened.page == ""
    opened.toggle_page("log")
    assert opened.page == "log"
    qtbot.mouseClick(window.setup.form, Qt.MouseButton.LeftButton)
    assert opened.page == ""
    opened.toggle_page("log")
    QTest.keyClick(opened, Qt.Key.Key_Escape)
    assert opened.page == ""


@pytest.fixture
def panel(qtbot: QtBot) -> LogPanel:
    panel = LogPanel()
    qtbot.addWidget(panel)
    panel.resize(600, 160)
    with qtbot.waitExposed(panel):
        panel.show()
    return panel


def test_a_line_has_time_level_run_and_message_and_further_lines_are_indented(panel: LogPanel) -> None:
    panel.append("warning", "Speed is null.", "Run 14")
    time, level, rest = panel.text().split("  ", 2)
    assert len(time) == 8
    assert level == "warning"
    assert rest == "Run 14: Speed is null."
    panel.clear()
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


def test_an_empty_log_says_what_comes_and_its_buttons_follow_what_it_has(panel: LogPanel) -> None:
    copy, clear = (one for one in panel.findChildren(QPushButton) if one.text() in ("Copy", "Clear"))
    assert not copy.isEnabled() and not clear.isEnabled()
    panel.append("info", "something")
    assert copy.isEnabled() and clear.isEnabled()
    clear.click()
    assert not copy.isEnabled() and not clear.isEnabled()
    buttons = {button.text(): button for button in panel.findChildren(QPushButton)}
    buttons["Wrap"].click()
    assert panel.view.lineWrapMode() is QPlainTextEdit.LineWrapMode.WidgetWidth
    panel.append("info", "something")
    buttons["Clear"].click()
    assert panel.text() == ""
