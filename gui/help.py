"""The help dialog: shortcuts, where data lives, and the version."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QVBoxLayout, QWidget

from engine import __version__
from engine.paths import checkpoints_folder, config_folder, datasets_folder, store_path
from gui.shortcuts import SHORTCUTS, keys_of
from gui.widgets import divider, label

_IN_THE_TABLE = (
    ("F2", "Rename the highlighted run"),
    ("Space", "Tick the highlighted runs"),
    ("Return", "Show the curves of the highlighted run"),
    ("Delete", "Delete the highlighted runs"),
)


def show_help(parent: QWidget) -> None:
    """Opens the dialog and waits until it is closed."""
    make_help(parent).exec()


def make_help(parent: QWidget | None = None) -> QDialog:
    """The dialog, not yet shown."""
    dialog = QDialog(parent)
    # the program's name is added to it by Qt
    dialog.setWindowTitle("Help")
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    column = QVBoxLayout(dialog)
    column.setContentsMargins(24, 20, 24, 20)
    column.setSpacing(12)
    column.addWidget(label("Shortcuts", "title"))
    everywhere = [(keys_of(shortcut.name), shortcut.about) for shortcut in SHORTCUTS]
    column.addLayout(_table([*everywhere, *_IN_THE_TABLE]))
    column.addWidget(divider())
    column.addWidget(label("Where your data lives", "title"))
    places = (
        ("Runs", str(store_path())),
        ("Settings, own presets", str(config_folder())),
        ("Checkpoints", str(checkpoints_folder(store_path()))),
        ("Downloaded datasets", str(datasets_folder())),
    )
    column.addLayout(_table(places))
    column.addWidget(divider())
    column.addWidget(label(f"Ammeter {__version__}", "unit"))
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    # the style's own cross is black, and so is the button
    buttons.button(QDialogButtonBox.StandardButton.Close).setIcon(QIcon())
    buttons.rejected.connect(dialog.reject)
    column.addWidget(buttons)
    return dialog


def _table(rows: Sequence[tuple[str, str]]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(24)
    grid.setVerticalSpacing(6)
    grid.setColumnStretch(1, 1)
    for number, (name, text) in enumerate(rows):
        grid.addWidget(label(name, "strong"), number, 0)
        what = label(text, "body")
        what.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        grid.addWidget(what, number, 1)
    return grid
