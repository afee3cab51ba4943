"""The menu of a diagnosis's exports: it asks where to, and the controller has the file written."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from engine.export.diagnosis.formats import DIAGNOSIS_FORMATS
from engine.export.sections.formats import SavedFormat
from engine.store.diagnoses import DiagnosisRecord


class ExportMenu(QMenu):
    """`asked` carries the path of the file to write."""

    asked = Signal(object)  # Path

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Export the diagnosis")
        for form in DIAGNOSIS_FORMATS.formats:
            self.addAction(f"{form.title}…").triggered.connect(partial(self._ask, form))

    def _ask(self, form: SavedFormat[DiagnosisRecord], _checked: bool = False) -> None:
        dialog = QFileDialog(
            self.parentWidget(), "Export the diagnosis", "", f"{form.title} (*{form.suffix})"
        )
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(form.suffix.removeprefix("."))
        dialog.selectFile(f"diagnosis{form.suffix}")
        if dialog.exec():
            self.asked.emit(Path(dialog.selectedFiles()[0]))
        dialog.deleteLater()
