"""The words of the window itself: its bar and menus, its pages before there is anything, and its dialogs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from gui.help.dialog import make_help
from gui.window.main_window import MainWindow
from tests.golden import Golden, menu_words, words_of

PAGES = ("compare", "limit", "numerics", "profile", "sweep", "tune", "results", "show")


@pytest.mark.parametrize("page", PAGES)
def test_the_words_of_a_page_before_there_is_anything(
    start: Callable[[], MainWindow], golden: Golden, page: str
) -> None:
    window = start()
    window.show_page(page)
    golden(words_of(window.body), f"page-{page}")


def test_the_words_of_the_bar_and_its_menus(start: Callable[[], MainWindow], golden: Golden) -> None:
    window = start()
    menus = [line for menu in window.top_bar.findChildren(QMenu) for line in menu_words(menu)]
    golden("\n".join([words_of(window.top_bar), "--- menus ---", *dict.fromkeys(menus)]), "bar")


def test_the_words_of_the_shortcuts(qtbot: QtBot, golden: Golden) -> None:
    dialog = make_help()
    qtbot.addWidget(dialog)
    dialog.show_page("shortcuts")
    golden(dialog.page.toPlainText(), "shortcuts")
