"""About: the version, the licence, and the versions of what the program runs with."""

from __future__ import annotations

import platform

from PySide6.QtCore import qVersion
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from engine import __version__
from engine.installation.installed import torch_version
from gui.help.about import AboutDialog


def test_it_tells_and_copies_the_versions(qtbot: QtBot) -> None:
    dialog = AboutDialog()
    qtbot.addWidget(dialog)
    texts = [text.text() for text in dialog.findChildren(QLabel)]
    assert {f"Ammeter {__version__}", platform.python_version(), qVersion(), torch_version()} <= set(texts)
    assert any("MIT" in text for text in texts)
    dialog.copy()
    assert QGuiApplication.clipboard().text().splitlines()[0] == f"Ammeter {__version__}"
