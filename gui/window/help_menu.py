"""The menu Help. What an entry opens is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QWidget

from gui.widgets.shortcuts import keys_of

if TYPE_CHECKING:
    from gui.window.main_window import MainWindow

_ENTRIES = (
    ("guide", f"Guide\t{keys_of('help')}"),
    ("log", f"Log\t{keys_of('log')}"),
    ("engine", "Engine…"),
    ("doctor", "Doctor"),
    ("about", "About Ammeter"),
)


class HelpMenu(QMenu):
    """`chosen` carries the key of an entry, for `open_help`."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Help")
        for key, text in _ENTRIES:
            self.addAction(text).triggered.connect(partial(self._choose, key))

    def _choose(self, key: str, _checked: bool = False) -> None:
        self.chosen.emit(key)


def open_help(window: MainWindow, key: str = "guide") -> None:
    """Opens an entry of the menu over the window, or brings it to the front. Raises KeyError."""
    _OPENERS[key](window)


def _open_guide(window: MainWindow) -> None:
    from gui.help.dialog import show_help

    show_help(window)


def _open_doctor(window: MainWindow) -> None:
    from gui.installation.doctor_page import show_doctor

    show_doctor(window, lambda: not window.experiments.is_idle)


def _open_about(window: MainWindow) -> None:
    from gui.help.about import show_about

    show_about(window)


def _open_log(window: MainWindow) -> None:
    window.backstage.show_page("log")


def _open_engine(window: MainWindow) -> None:
    window.engine.show_dialog(window)


_OPENERS: Mapping[str, Callable[[MainWindow], None]] = {
    "guide": _open_guide,
    "log": _open_log,
    "engine": _open_engine,
    "doctor": _open_doctor,
    "about": _open_about,
}
