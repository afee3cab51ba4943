"""The words of the window itself: its bar and menus, its pages before there is anything, and its dialogs."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QAbstractButton, QLineEdit, QMenu, QWidget
from pytestqt.qtbot import QtBot

from gui.help.dialog import make_help
from gui.window.main_window import MainWindow
from tests.golden import Golden, menu_words, words_of

PAGES = ("compare", "limit", "numerics", "profile", "sweep", "tune", "results", "show")


def test_the_words_of_a_window_before_there_is_anything(
    start: Callable[[], MainWindow], golden: Golden
) -> None:
    window = start()
    for page in PAGES:
        window.show_page(page)
        golden(words_of(window.body), f"page-{page}")
    menus = [line for menu in window.top_bar.findChildren(QMenu) for line in menu_words(menu)]
    golden("\n".join([words_of(window.top_bar), "--- menus ---", *dict.fromkeys(menus)]), "bar")
    silent = [
        (control, control.accessibleName())
        for control in window.findChildren(QWidget)
        if isinstance(control, QAbstractButton | QLineEdit)
        and control.objectName() != "qt_spinbox_lineedit"
        and not (control.accessibleName() and (control.toolTip() or isinstance(control.parent(), QLineEdit)))
    ]
    assert not silent


def test_the_words_of_the_shortcuts(qtbot: QtBot, golden: Golden) -> None:
    dialog = make_help()
    qtbot.addWidget(dialog)
    dialog.show_page("shortcuts")
    golden(dialog.page.toPlainText(), "shortcuts")
