"""Messages: where they lie, how long they stay, and what a person can do about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QAbstractButton, QLabel, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from gui.theme.theme import theme
from gui.widgets.labels import plain_tip
from gui.widgets.notice import Notice
from gui.window.main_window import MainWindow

Open = Callable[[], MainWindow]


class Room:
    """A page with a button in its middle, and the messages over it."""

    def __init__(self, qtbot: QtBot) -> None:
        theme()
        self.qtbot, self.window, self.button = qtbot, QWidget(), QPushButton("in the middle")
        qtbot.addWidget(self.window)
        QVBoxLayout(self.window).addWidget(self.button)
        self.window.resize(900, 500)
        self.notice = Notice(self.window)
        self.window.show()
        self.window.activateWindow()
        qtbot.waitUntil(self.window.isActiveWindow)
        # an earlier test may have left the pointer where a message appears
        qtbot.mouseMove(self.window, QPoint(1, 1))

    def texts(self) -> list[str]:
        return [message.text for message in self.notice.messages()]

    def press(self, name: str) -> None:
        buttons = self.notice.findChildren(QAbstractButton)
        next(one for one in reversed(buttons) if one.accessibleName() == name).click()

    def let_pass(self) -> None:
        """The newest message's time is up."""
        self.notice.messages()[-1].timer.timeout.emit()


@pytest.fixture
def room(qtbot: QtBot) -> Room:
    return Room(qtbot)


def test_nothing_on_the_page_moves_for_a_message_and_all_of_a_long_one_is_seen(room: Room) -> None:
    before = room.button.geometry()
    room.notice.notify("It failed.", "Try it again.")
    assert room.notice.isVisible() and room.button.geometry() == before
    corner = room.notice.geometry().bottomRight()
    assert (room.window.width() - corner.x(), room.window.height() - corner.y()) == (17, 17)
    room.window.resize(700, 400)
    assert room.window.rect().contains(room.notice.geometry())
    room.notice.notify("A long message. " * 20, "What to do about it. " * 20, "Do it", lambda: None)
    for words in room.notice.findChildren(QLabel):
        assert words.height() >= words.heightForWidth(words.width())
    assert room.window.rect().contains(room.notice.geometry())


def test_a_message_goes_when_its_time_is_up_but_one_that_asks_stays(room: Room) -> None:
    statement = room.notice.notify("It is done.")
    assert statement.timer.isActive()
    longer = room.notice.notify("It is done, and there is more to read about it than there was.")
    assert longer.timer.interval() > statement.timer.interval()
    room.let_pass()
    assert room.texts() == [] and not room.notice.isVisible()
    question = room.notice.notify("One run waits.", action="Run now", do=lambda: None)
    assert not question.timer.isActive()


def test_nothing_goes_from_under_the_hand_that_would_press_it(room: Room) -> None:
    message = room.notice.notify_written("Wrote it.", Path("report.html"))
    open_it = next(one for one in message.findChildren(QAbstractButton) if one.text() == "Open")
    open_it.setFocus(Qt.FocusReason.TabFocusReason)
    room.let_pass()
    assert room.texts() == ["Wrote it."]
    room.button.setFocus()
    room.let_pass()
    assert room.texts() == []


def test_escape_and_the_cross_close_the_newest_and_say_so(qtbot: QtBot, room: Room) -> None:
    room.notice.notify("First?", action="Yes", do=lambda: None)
    room.notice.notify("Second?", action="Yes", do=lambda: None)
    room.button.setFocus()
    with qtbot.waitSignal(room.notice.dismissed):
        qtbot.keyClick(room.button, Qt.Key.Key_Escape)
    assert room.texts() == ["First?"]
    with qtbot.waitSignal(room.notice.dismissed):
        room.press("Close this message")
    assert room.texts() == []


def test_a_statement_gives_way_to_the_next_and_a_question_stays_above_it(room: Room) -> None:
    room.notice.notify("Writing report.html…")
    room.notice.notify("Replace it?", action="Replace", do=lambda: None)
    room.notice.notify("Importing…")
    room.notice.notify("Imported 2 runs.")
    assert room.texts() == ["Replace it?", "Imported 2 runs."]
    first, second = room.notice.messages()
    assert first.geometry().bottom() < second.geometry().top()
    room.notice.drop()
    assert room.texts() == ["Replace it?"]


def test_more_questions_than_there_is_room_for_leave_the_newest(room: Room) -> None:
    for number in range(6):
        room.notice.notify(f"Question {number}?", "Well? " * 30, "Yes", lambda: None)
    room.window.resize(500, 200)
    shown = [message for message in room.notice.messages() if message.isVisible()]
    assert room.texts()[-1] == "Question 5?" and len(room.texts()) <= 3
    assert shown == [room.notice.messages()[-1]]


def test_what_goes_on_holding_stands_above_until_it_is_taken_back(qtbot: QtBot, room: Room) -> None:
    standing = room.notice.stand("Nothing can be saved here.")
    room.notice.notify("Deleted “Run 1”.")
    assert room.texts() == ["Nothing can be saved here.", "Deleted “Run 1”."]
    room.button.setFocus()
    for _ in range(2):
        qtbot.keyClick(room.button, Qt.Key.Key_Escape)
    assert room.texts() == ["Nothing can be saved here."] and room.notice.text() == ""
    room.notice.drop()
    assert standing in room.notice.messages() and not standing.timer.isActive()
    room.notice.withdraw(standing)
    room.notice.withdraw(standing)
    assert room.texts() == []


def test_a_button_does_what_it_says_after_its_message_is_gone(room: Room) -> None:
    seen: list[list[str]] = []
    room.notice.notify("One run waits.", action="Run now", do=lambda: seen.append(room.texts()))
    assert room.notice.offers() == ("Run now",)
    room.press("Run now")
    assert seen == [[]]


def test_a_written_file_is_told_with_its_path(room: Room, tmp_path: Path) -> None:
    path = tmp_path / ("a folder of a very long name " * 4) / "report.html"
    message = room.notice.notify_written("Wrote 2 runs to report.html.", path)
    assert room.notice.offers() == ("Open", "Show in folder")
    line = next(one for one in message.findChildren(QLabel) if one.accessibleName() == str(path))
    assert (
        line.toolTip() == plain_tip(str(path)) and line.text().endswith("report.html") and "…" in line.text()
    )


@pytest.mark.parametrize("size", [(1_440, 900), (1_100, 700)])
def test_no_message_covers_what_a_person_presses_first(start: Open, size: tuple[int, int]) -> None:
    window = start()
    window.resize(*size)
    window.show()
    for page in ("compare", "limit", "results", "show"):
        window.show_page(page)
        window.notice.notify("It failed. " * 10, "Try it again. " * 10, "Try again", lambda: None)
        at = QRect(window.notice.mapTo(window, QPoint()), window.notice.size())
        for button in window.findChildren(QPushButton):
            if button.isVisible() and button.property("kind") in ("primary", "showPrimary"):
                assert not at.intersects(QRect(button.mapTo(window, QPoint()), button.size())), page
