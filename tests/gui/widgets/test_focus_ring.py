"""The ring around what the keyboard has brought into focus, and around nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QFrame,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QTableView,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from gui.theme.theme import theme
from gui.widgets import FocusRing
from gui.window.main_window import MainWindow

Open = Callable[[], MainWindow]


class Room:
    """A window with four buttons below one another, and its ring."""

    def __init__(self, qtbot: QtBot) -> None:
        theme()
        self.qtbot, self.window = qtbot, QWidget()
        qtbot.addWidget(self.window)
        self.column = QVBoxLayout(self.window)
        self.column.setContentsMargins(20, 20, 20, 20)
        self.buttons = [QPushButton(name) for name in ("first", "second", "third", "fourth")]
        for button in self.buttons:
            self.column.addWidget(button)
        self.ring = FocusRing(self.window)
        self.window.show()
        self.window.activateWindow()
        qtbot.waitUntil(self.window.isActiveWindow)

    def add(self, widget: QWidget) -> None:
        """Puts it below all that is there."""
        self.column.addWidget(widget)
        widget.show()

    def press_tab(self) -> QWidget:
        """Where Tab leads from where the focus is."""
        self.qtbot.keyClick(QApplication.focusWidget() or self.window, Qt.Key.Key_Tab)
        focused = QApplication.focusWidget()
        assert focused is not None
        return focused


@pytest.fixture
def room(qtbot: QtBot) -> Room:
    return Room(qtbot)


def test_tab_backtab_and_a_shortcut_bring_a_ring_but_no_click_and_no_choice_of_the_programs(
    qtbot: QtBot, room: Room
) -> None:
    first, second, third, fourth = room.buttons
    first.setFocus()
    assert room.press_tab() is second and room.ring.target() is second
    assert room.ring.geometry() == second.geometry().adjusted(-4, -4, 4, 4)
    qtbot.keyClick(second, Qt.Key.Key_Backtab)
    assert room.ring.target() is first
    third.setFocus(Qt.FocusReason.ShortcutFocusReason)
    assert room.ring.target() is third
    qtbot.mouseClick(fourth, Qt.MouseButton.LeftButton)
    assert fourth.hasFocus() and room.ring.target() is None
    first.setFocus()
    assert first.hasFocus() and room.ring.target() is None
    # what Qt turns to when a control is hidden has none
    assert room.press_tab() is second
    second.hide()
    assert third.hasFocus() and room.ring.target() is None


def test_what_its_panel_has_no_room_for_has_none(room: Room) -> None:
    folded = QFrame()
    folded.setFixedHeight(8)
    inside = QLineEdit(folded)
    inside.move(0, 40)
    room.add(folded)
    room.buttons[-1].setFocus()
    assert room.press_tab() is inside and room.ring.target() is None


def test_qt_draws_no_box_of_its_own_inside(room: Room) -> None:
    box = QCheckBox("Tick me")
    room.add(box)
    room.buttons[-1].setFocus()
    before = box.grab().toImage()
    assert room.press_tab() is box and room.ring.target() is box
    assert box.grab().toImage() == before


def test_a_whole_workspace_that_scrolls_has_none_but_a_table_has(room: Room) -> None:
    page, inner, table = QScrollArea(), QFrame(), QTableView()
    inner.setProperty("surface", "page")
    page.setWidget(inner)
    room.add(page)
    room.add(table)
    room.buttons[-1].setFocus()
    assert room.press_tab() is page and room.ring.target() is None
    assert room.press_tab() is table and room.ring.target() is table
    assert room.ring.geometry() == table.geometry()


def test_the_ring_is_there_again_when_the_window_comes_back_to_the_front(qtbot: QtBot, room: Room) -> None:
    first, second, *_ = room.buttons
    first.setFocus()
    assert room.press_tab() is second
    other = QWidget()
    qtbot.addWidget(other)
    other.show()
    other.activateWindow()
    qtbot.waitUntil(other.isActiveWindow)
    assert room.ring.target() is None
    room.window.activateWindow()
    qtbot.waitUntil(room.window.isActiveWindow)
    assert second.hasFocus() and room.ring.target() is second


def test_wherever_tab_leads_in_the_window_a_ring_shows_it(qtbot: QtBot, start: Open) -> None:
    window = start()
    window.resize(1_440, 900)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    ring = window.findChild(FocusRing)
    for page in ("compare", "limit", "results"):
        window.show_page(page)
        visited: list[QWidget] = []
        while True:
            qtbot.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
            focused = QApplication.focusWidget()
            if focused is None or focused in visited:
                break
            visited.append(focused)
            is_page = isinstance(focused, QScrollArea)
            assert ring.target() is (None if is_page else focused), focused.accessibleName()
            assert is_page or ring.parentWidget().rect().contains(ring.geometry()), focused
        assert len(visited) > 8
