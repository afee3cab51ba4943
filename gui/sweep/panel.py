"""The workspace Sweep: a grid's results as pictures and a table, and the search for the fastest settings."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QWidget

from gui.widgets import EmptyState, label
from gui.widgets.boxes import in_column, wide

_NOTHING_YET = (
    "Which settings are the best for this model on this machine?",
    "Several values in any field of the form, such as batch sizes 32, 64, 128, make a grid: a sweep trains "
    "every combination, shortest answers first. Or let Ammeter search for the fastest settings by itself.",
    "Fill in an example",
    "Puts three batch sizes around the form's, and both precisions, into the form",
)


class SweepPanel(QFrame):
    """Shows a sweep or a tuning. `example_wanted` asks to put a small grid into the form."""

    example_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "page")
        self.empty = EmptyState(*_NOTHING_YET)
        self.empty.pressed.connect(self.example_wanted)
        panel = QFrame()
        panel.setProperty("surface", "panel")
        in_column(wide(self.empty), parent=panel, margins=(12, 10, 12, 8), spacing=8)
        in_column(label("Sweep", "title"), wide(panel), parent=self, margins=16, spacing=8)
