"""The help dialog: shortcuts, where data lives, and the version."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QVBoxLayout, QWidget

from engine import __version__
from engine.paths import config_folder, datasets_folder, store_path
from gui.widgets import divider, label

SHORTCUTS = (
    ("Ctrl+Enter", "Train what the form says"),
    ("Ctrl+Shift+Enter", "Add it to the queue"),
    ("Ctrl+.", "Stop the run"),
    ("Ctrl+1, Ctrl+2", "Train, Compare"),
    ("Ctrl+S", "Save the form as a preset of your own"),
    ("Ctrl+Backspace", "Reset the form to the chosen preset"),
    ("Ctrl+F", "Filter the runs"),
    ("Ctrl+J, Ctrl+L", "Fold the runs table; show the log"),
    ("Ctrl+T", "Dark or light"),
    ("Ctrl+Q", "Quit"),
)


def show_help(parent: QWidget) -> None:
    """Opens the dialog and waits until it is closed."""
    make_help(parent).exec()


def make_help(parent: QWidget | None = None) -> QDialog:
    """The dialog, not yet shown."""
    dialog = QDialog(parent)
    dialog.setWindowTitle("Ammeter: help")
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    column = QVBoxLayout(dialog)
    column.setContentsMargins(24, 20, 24, 20)
    column.setSpacing(12)
    column.addWidget(label("Shortcuts", "title"))
    column.addLayout(_table(SHORTCUTS))
    column.addWidget(divider())
    column.addWidget(label("Where your data lives", "title"))
    places = (
        ("Runs", str(store_path())),
        ("Settings, own presets", str(config_folder())),
        ("Downloaded datasets", str(datasets_folder())),
    )
    column.addLayout(_table(places))
    column.addWidget(divider())
    column.addWidget(label(f"Ammeter {__version__}", "unit"))
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    buttons.rejected.connect(dialog.reject)
    column.addWidget(buttons)
    return dialog


def _table(rows: tuple[tuple[str, str], ...]) -> QGridLayout:
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
