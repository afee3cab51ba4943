"""Exports of a search: as a file in any format, or its trials on the clipboard."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from engine.export.formats import LIMIT
from gui.limit.trials import TrialRow
from gui.widgets.saved_menu import ExportMenu
from gui.widgets.table import ResultTable
from gui.widgets.table.result_table import copy_lines


class LimitExport(ExportMenu):
    """`asked` carries the path of a file to write, in the format of its ending; `copied` a sentence."""

    copied = Signal(str)

    def __init__(self, table: ResultTable[TrialRow], parent: QWidget) -> None:
        super().__init__(parent, "search", LIMIT.formats)
        self._table = table
        self.addSeparator()
        self.addAction("Copy table").triggered.connect(lambda: self.copy())

    def copy(self) -> None:
        """Puts the table on the clipboard, for a spreadsheet."""
        copy_lines(self._table.lines())
        self.copied.emit("The table is on the clipboard.")
