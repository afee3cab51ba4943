"""More choices: where packages come from, and what is set up as well."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QCheckBox, QFileDialog, QLineEdit, QWidget

from engine.installation.wanted import Source
from gui.installation.words import EXTRAS
from gui.setup.controls import NumberEdit
from gui.widgets import Field, IconButton, Segmented, label
from gui.widgets.boxes import in_column, in_row, wide

_OFFICIAL, _MIRROR, _FOLDER = "official", "mirror", "folder"
_SOURCES = ((_OFFICIAL, "Official"), (_MIRROR, "A mirror"), (_FOLDER, "A folder"))
_HINTS = {
    _OFFICIAL: "From PyTorch's own index and from PyPI.",
    _MIRROR: "The address of a package index that has PyTorch as well as what it needs.",
    _FOLDER: "A folder of wheels (.whl), for a machine without network.",
}
_SETTLES_MS = 600


class Options(QWidget):
    """`changed` when the choice has changed, and typing has paused."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._typing = QTimer(self, singleShot=True, interval=_SETTLES_MS)
        self._typing.timeout.connect(self.changed)
        self.kind = Segmented(_SOURCES, "Source", "Where PyTorch and what it needs come from")
        self.kind.changed.connect(self._change_kind)
        self.mirror = QLineEdit()
        self.mirror.setAccessibleName("Address of the mirror")
        self.mirror.setPlaceholderText("https://pypi.example.org/simple")
        self.mirror.textEdited.connect(lambda _text: self._typing.start())
        self.folder = _FolderEdit()
        self.folder.edited.connect(lambda _text: self._typing.start())
        self._place = QWidget()
        in_column(self.mirror, self.folder, parent=self._place)
        self._field = Field("Source", self.kind, below=self._place)
        self.extras = {name: self._extra(name) for name in EXTRAS}
        rows = [
            in_row(box, wide(label(EXTRAS[name], "hint")), spacing=8) for name, box in self.extras.items()
        ]
        in_column(self._field, label("Also set up", "label"), *rows, parent=self, spacing=8)
        self._show_kind()

    def source(self) -> Source | None:
        """The source; None while its address or folder is missing or wrong."""
        kind = self.kind.value()
        if kind == _MIRROR:
            address = self.mirror.text().strip()
            return Source(mirror=address) if address.startswith(("https://", "http://")) else None
        if kind == _FOLDER:
            folder = Path(self.folder.text().strip()).expanduser()
            return Source(folder=folder) if self.folder.text().strip() and folder.is_dir() else None
        return Source()

    def chosen_extras(self) -> tuple[str, ...]:
        return tuple(name for name, box in self.extras.items() if box.isChecked())

    def set_choice(self, source: Source, extras: tuple[str, ...]) -> None:
        """Shows a choice, without emitting `changed`."""
        self.kind.set_value(_MIRROR if source.mirror else _FOLDER if source.folder else _OFFICIAL)
        self.mirror.setText(source.mirror or "")
        self.folder.set_value(str(source.folder or ""))
        for name, box in self.extras.items():
            box.setChecked(name in extras)
        self._show_kind()

    def show_problem(self) -> None:
        """Says what is wrong with an address or folder that was given."""
        sentence = None
        if self.source() is None:
            if self.kind.value() == _MIRROR and self.mirror.text().strip():
                sentence = "An address begins with https:// or http://."
            elif self.kind.value() == _FOLDER and self.folder.text().strip():
                sentence = "There is no such folder."
        self._field.set_problem(sentence)

    def problem(self) -> str | None:
        return self._field.problem()

    def _extra(self, name: str) -> QCheckBox:
        box = QCheckBox(name)
        box.setAccessibleName(f"Also set up {name}: {EXTRAS[name]}")
        box.setToolTip(f"{name}: {EXTRAS[name]}. It can be added later.")
        box.clicked.connect(self.changed)
        return box

    def _change_kind(self) -> None:
        self._show_kind()
        edit = {_MIRROR: self.mirror, _FOLDER: self.folder}.get(self.kind.value())
        if edit is not None:
            edit.setFocus()
        self.changed.emit()

    def _show_kind(self) -> None:
        kind = self.kind.value()
        self.mirror.setVisible(kind == _MIRROR)
        self.folder.setVisible(kind == _FOLDER)
        self._place.setVisible(kind != _OFFICIAL)
        self._field.set_hint(_HINTS[kind])
        self.show_problem()


class _FolderEdit(NumberEdit):
    """The path of a folder of wheels, with a button inside that opens the chooser."""

    def __init__(self) -> None:
        super().__init__("Folder of wheels", "The folder with the downloaded wheels", hint="choose a folder")
        button = IconButton("folder", "Choose the folder", "Choose the folder of wheels")
        button.clicked.connect(self._choose)
        self.put_right(button)

    def _choose(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Choose the folder of wheels", self.text())
        if chosen:
            self.set_value(chosen)
            self.edited.emit(chosen)
