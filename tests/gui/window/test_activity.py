"""The activity chip: what runs, how far it is, and the queue and log behind it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from gui.runs.queue_table import schedule
from gui.session.items import QueueItem
from gui.window.chips import ActivityChip, activity_of, begins_text
from gui.window.main_window import MainWindow

NOW = datetime(2026, 11, 23, 12)
RUN = QueueItem("a", "run", "BF16 AMP", "", is_running=True, progress=0.62, seconds_left=40)
LIMIT = QueueItem("b", "limit", "resnet50", "", seconds_left=200)


@pytest.mark.parametrize(
    ("items", "rests", "words"),
    [
        ((), False, "Nothing running"),
        ((RUN, LIMIT), False, "BF16 AMP, 62\N{NO-BREAK SPACE}%, 4 min for all, 1 waiting"),
        ((RUN,), False, "BF16 AMP, 62\N{NO-BREAK SPACE}%, 40 s for all"),
        ((LIMIT,), True, "The queue rests, 1 waiting"),
    ],
)
def test_it_says_what_runs_how_far_that_is_and_what_waits(
    items: tuple[QueueItem, ...], rests: bool, words: str
) -> None:
    assert activity_of(schedule(items, NOW, rests=rests)).words == words


def test_an_unknown_time_makes_it_the_least(qtbot: QtBot) -> None:
    unknown = QueueItem("c", "sweep", "A sweep", "")
    assert "at least 40 s for all" in activity_of(schedule((RUN, unknown), NOW, rests=False)).words


def test_the_form_says_when_what_is_added_would_begin() -> None:
    unknown = QueueItem("c", "sweep", "A sweep", "")
    times = [begins_text(schedule(items, NOW, rests=False)) for items in ((), (RUN,), (RUN, LIMIT))]
    assert times == ["", "begins in about 1 min", "begins in about 4 min"]
    assert begins_text(schedule((RUN, unknown), NOW, rests=False)) == "begins after what is in the queue"


def test_brief_it_leaves_out_the_name(qtbot: QtBot) -> None:
    chip = ActivityChip()
    qtbot.addWidget(chip)
    chip.show_activity(activity_of(schedule((RUN, LIMIT), NOW, rests=False), Precision.BF16))
    whole = chip.sizeHint().width()
    chip.set_brief(True)
    assert chip.sizeHint().width() < whole and "BF16 AMP" in chip.accessibleName()


def button(window: MainWindow, name: str) -> QAbstractButton:
    return next(one for one in window.findChildren(QAbstractButton) if one.accessibleName() == name)


def test_a_click_opens_the_queue_and_from_there_the_log(
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


def test_a_click_elsewhere_and_escape_close_it(start: Callable[[], MainWindow], qtbot: QtBot) -> None:
    window = start()
    opened = window.backstage
    opened.toggle_page("log")
    assert opened.page == "log"
    qtbot.mouseClick(window.setup.form, Qt.MouseButton.LeftButton)
    assert opened.page == ""
    opened.toggle_page("log")
    QTest.keyClick(opened, Qt.Key.Key_Escape)
    assert opened.page == ""
