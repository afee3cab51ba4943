"""Starts the window: application, theme, store, and what happens when the store cannot be opened."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from PySide6.QtCore import Qt
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication, QMessageBox

from engine import __version__
from engine.launcher import Launcher
from engine.problem import ProblemError
from engine.records.store import Store
from gui.icons import pixmap
from gui.main_window import MainWindow
from gui.settings import Key, Settings
from gui.theme import theme


def run(arguments: Sequence[str] | None = None) -> int:
    """Opens the window and returns its exit status when it is closed."""
    application = make_application(arguments)
    settings = Settings.load()
    settings.restore(Key.THEME, theme().set_mode)
    with ExitStack() as stack:
        try:
            store = stack.enter_context(Store())
            # a store of which only the beginning is sound is found to be damaged when the window reads it
            window = MainWindow(store, Launcher(), settings)
        except ProblemError as error:
            text = f"{error.problem.message}\n\n{error.problem.remedy}"
            box = QMessageBox(QMessageBox.Icon.Critical, "Ammeter", text)
            # a folder may be named <b>
            box.setTextFormat(Qt.TextFormat.PlainText)
            box.exec()
            return 1
        window.show()
        gc.freeze()
        gc.enable()
        # Python's own handler would only print a traceback from whatever slot runs next
        signal.signal(signal.SIGINT, lambda *_: window.close_without_asking())
        return application.exec()


def make_application(arguments: Sequence[str] | None = None) -> QApplication:
    """The application with its name, icon and theme; the one that is there, where there is one."""
    there = QApplication.instance()
    given = list(arguments if arguments is not None else sys.argv[:1])
    application = there if isinstance(there, QApplication) else QApplication(given)
    application.setApplicationName("Ammeter")
    application.setApplicationDisplayName("Ammeter")
    application.setApplicationVersion(__version__)
    application.setDesktopFileName("ammeter")
    application.setWindowIcon(QIcon(pixmap("logo", theme().palette.text, 64, 1.0)))
    return application
