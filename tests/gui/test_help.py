"""The help dialog: every key, and every place on this machine."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QDialogButtonBox, QLabel
from pytestqt.qtbot import QtBot

from gui.help import make_help
from gui.shortcuts import SHORTCUTS


def test_the_help_tells_every_key_and_every_place(qtbot: QtBot, home: Path) -> None:
    dialog = make_help()
    qtbot.addWidget(dialog)
    said = {label.text() for label in dialog.findChildren(QLabel)}
    assert {shortcut.about for shortcut in SHORTCUTS} <= said
    assert {"F2", "Space", "Return", "Delete"} <= said
    assert {str(home / "ammeter.sqlite"), str(home / "checkpoints")} <= said


def test_its_button_bears_no_icon_of_the_style(qtbot: QtBot) -> None:
    dialog = make_help()
    qtbot.addWidget(dialog)
    (box,) = dialog.findChildren(QDialogButtonBox)
    assert box.button(QDialogButtonBox.StandardButton.Close).icon().isNull()
