"""Exports of a diagnosis as a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from engine.experiment.problem import ProblemError
from engine.export.files import place
from engine.protocol.numerics.diagnosis import Diagnosis
from gui.session.diagnoses import DiagnosisView


class DiagnosisExport(QObject):
    """`written` carries a file's path, `failed` why it could not be written."""

    written = Signal(object)
    failed = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._view: DiagnosisView | None = None
        self.menu = QMenu(parent)
        self.menu.setAccessibleName("Export the diagnosis")
        self.menu.addAction("Save as JSON…").triggered.connect(
            lambda: self._ask("diagnosis.json", "JSON (*.json)", self.save_json)
        )

    def set_view(self, view: DiagnosisView | None) -> None:
        """Sets the diagnosis to export."""
        self._view = view

    @property
    def is_possible(self) -> bool:
        """Whether a part is known."""
        return self._view is not None and self._view.diagnosis != Diagnosis()

    def save_json(self, path: Path) -> None:
        """Writes what `ammeter diagnose --json` prints."""
        assert self._view is not None  # the button is disabled without
        self._write(path, json.dumps(self._view.diagnosis.as_json(), indent=1).encode())

    def _write(self, path: Path, content: bytes) -> None:
        try:
            # the dialog has asked whether to replace a file of that name
            with place(path, force=True) as file:
                file.write_bytes(content)
        except ProblemError as error:
            self.failed.emit(f"{error.problem.message} {error.problem.remedy}")
        else:
            self.written.emit(path)

    def _ask(self, name: str, kind: str, save: Callable[[Path], None]) -> None:
        dialog = QFileDialog(self._window, "Save the diagnosis", "", kind)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(Path(name).suffix)
        dialog.selectFile(name)
        if dialog.exec():
            save(Path(dialog.selectedFiles()[0]))
        dialog.deleteLater()
