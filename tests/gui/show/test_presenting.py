"""Presenting: the full screen, what is hidden for it, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QLabel, QMainWindow, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from gui.show.controller import FullScreen


class Stage:
    """A window with a bar, a notice that is hidden, and the panel that is presented."""

    def __init__(self, qtbot: QtBot) -> None:
        self.window = QMainWindow()
        qtbot.addWidget(self.window)
        self.bar, self.notice, self.panel = QLabel("bar"), QLabel("notice"), QLabel("panel")
        middle = QWidget()
        column = QVBoxLayout(middle)
        for one in (self.bar, self.notice, self.panel):
            column.addWidget(one)
        self.notice.hide()
        self.window.setCentralWidget(middle)
        self.window.resize(640, 400)
        with qtbot.waitExposed(self.window):
            self.window.show()
        self.presenting = FullScreen(self.window, (self.bar, self.notice))


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    stage = Stage(qtbot)
    yield stage
    stage.presenting.leave()


def test_it_takes_the_full_screen_and_hides_the_rest_of_the_window(stage: Stage, qtbot: QtBot) -> None:
    with qtbot.waitSignal(stage.presenting.changed) as told:
        stage.presenting.enter()
    assert told.args == [True] and stage.presenting.is_on
    assert stage.window.isFullScreen()
    assert stage.bar.isHidden() and stage.panel.isVisible()


def test_escape_brings_the_window_back_as_it_was(stage: Stage, qtbot: QtBot) -> None:
    size = stage.window.size()
    stage.presenting.enter()
    with qtbot.waitSignal(stage.presenting.changed) as told:
        qtbot.keyClick(stage.window, Qt.Key.Key_Escape)
    assert told.args == [False] and not stage.presenting.is_on
    assert not stage.window.isFullScreen()
    assert stage.bar.isVisible() and stage.notice.isHidden()
    qtbot.waitUntil(lambda: stage.window.size() == size)


def test_a_maximized_window_is_maximized_again(stage: Stage) -> None:
    stage.window.showMaximized()
    stage.presenting.enter()
    stage.presenting.leave()
    assert stage.window.isMaximized() and not stage.window.isFullScreen()


def test_escape_does_nothing_outside_of_it(stage: Stage, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(stage.presenting.changed):
        qtbot.keyClick(stage.window, Qt.Key.Key_Escape)


def test_toggling_twice_ends_where_it_began(stage: Stage) -> None:
    stage.presenting.toggle()
    assert stage.presenting.is_on
    stage.presenting.toggle()
    assert not stage.presenting.is_on and stage.bar.isVisible()


def test_what_the_window_tells_meanwhile_is_told_afterwards(stage: Stage) -> None:
    stage.presenting.enter()
    stage.notice.show()
    assert stage.notice.isHidden()
    stage.presenting.leave()
    assert stage.notice.isVisible()


def test_the_pointer_is_hidden_while_it_lies_still_and_shown_once_it_moves(
    stage: Stage, qtbot: QtBot
) -> None:
    stage.presenting.enter()
    pointer = stage.presenting.pointer
    assert QGuiApplication.overrideCursor() is None
    pointer.still.setInterval(1)
    QTest.mouseMove(stage.panel, QPoint(5, 5))
    qtbot.waitUntil(lambda: QGuiApplication.overrideCursor() is not None)
    assert QGuiApplication.overrideCursor().shape() is Qt.CursorShape.BlankCursor
    pointer.still.setInterval(60_000)
    QTest.mouseMove(stage.panel, QPoint(9, 9))
    qtbot.waitUntil(lambda: QGuiApplication.overrideCursor() is None)


def test_the_pointer_is_back_after_presenting(stage: Stage, qtbot: QtBot) -> None:
    stage.presenting.enter()
    stage.presenting.pointer.still.setInterval(1)
    QTest.mouseMove(stage.panel, QPoint(5, 5))
    qtbot.waitUntil(lambda: QGuiApplication.overrideCursor() is not None)
    stage.presenting.leave()
    assert QGuiApplication.overrideCursor() is None


def test_the_pointer_stays_while_another_window_is_in_front(stage: Stage, qtbot: QtBot) -> None:
    stage.presenting.enter()
    stage.presenting.pointer.still.setInterval(60_000)
    dialog = QDialog(stage.window)
    qtbot.addWidget(dialog)
    dialog.open()
    qtbot.waitUntil(dialog.isActiveWindow)
    stage.presenting.pointer.still.timeout.emit()
    assert QGuiApplication.overrideCursor() is None
    dialog.close()
    stage.window.activateWindow()
    qtbot.waitUntil(stage.window.isActiveWindow)
    stage.presenting.pointer.still.timeout.emit()
    assert QGuiApplication.overrideCursor() is not None
    dialog.open()
    qtbot.waitUntil(lambda: QGuiApplication.overrideCursor() is None)


def test_the_desktops_own_way_out_of_the_full_screen_ends_it(stage: Stage, qtbot: QtBot) -> None:
    stage.presenting.enter()
    with qtbot.waitSignal(stage.presenting.changed) as told:
        stage.window.showNormal()
    assert told.args == [False] and stage.bar.isVisible()


def test_a_screen_smaller_than_the_window_may_be_is_filled_and_not_overrun(stage: Stage) -> None:
    stage.window.setMinimumSize(600, 380)
    stage.presenting.enter()
    assert stage.window.minimumSize().isEmpty()
    stage.presenting.leave()
    assert stage.window.minimumSize() == QSize(600, 380)
