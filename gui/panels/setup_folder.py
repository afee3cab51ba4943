"""The field of a folder: typed, or chosen in the system's own dialog."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QFileDialog

from gui.panels.setup_controls import NumberEdit
from gui.widgets import IconButton


class FolderEdit(NumberEdit):
    """A path as text, with a button inside that opens the chooser."""

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(name, tip, hint="choose a folder")
        self.button = IconButton("folder", "Choose a folder", "Choose the folder of your pictures")
        self.button.clicked.connect(self._choose)
        self.put_right(self.button)

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), 32)

    def _choose(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "The folder of your pictures", self.text())
        if chosen:
            self.set_value(chosen)
            self.edited.emit(chosen)
