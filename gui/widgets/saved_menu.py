"""The menus of a saved study: what can be done with it, and its exports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFileDialog, QMenu, QToolButton, QWidget

from gui.widgets.buttons import IconButton


class StudyMenu(QMenu):
    """Further actions on the study that is shown; `delete_asked` carries its key."""

    delete_asked = Signal(str)

    def __init__(self, noun: str, contents: str) -> None:
        """`noun` names the study, as "limit"; "trials" are its `contents`."""
        super().__init__()
        self.whole = f"this {noun} with its {contents}"
        self._shown: str | None = None
        self.button = IconButton("more", f"More about this {noun}", f"Delete this {noun}, and more")
        self.button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.button.setMenu(self)
        self.setParent(self.button, self.windowFlags())
        self.setAccessibleName(f"More about this {noun}")
        self._delete = self.addAction(f"Delete this {noun}…")
        self._delete.triggered.connect(lambda: self.delete_asked.emit(self._shown or ""))
        self.set_shown(None)

    def offer(self, text: str, do: Callable[[], object]) -> None:
        """Adds an action on the study that is shown."""
        action = QAction(text, self)
        action.triggered.connect(lambda: do())
        self.insertAction(self._delete, action)

    def set_shown(self, key: str | None) -> None:
        """Sets the study that is shown; None for none that is over."""
        self._shown = key
        self.button.setVisible(key is not None)


class Format(Protocol):
    """A format of exports: the ending of its files, and its name."""

    @property
    def suffix(self) -> str: ...
    @property
    def title(self) -> str: ...


class ExportMenu(QMenu):
    """Asks where to export what is shown; `asked` carries the path, in the format of its ending."""

    asked = Signal(object)  # Path

    def __init__(self, parent: QWidget, noun: str, formats: Sequence[Format]) -> None:
        super().__init__(parent)
        self._noun = noun
        self.setAccessibleName(f"Export the {noun}")
        for form in formats:
            self.addAction(f"{form.title}…").triggered.connect(partial(self._ask, form))

    def _ask(self, form: Format, _checked: bool = False) -> None:
        title, name = f"Export the {self._noun}", f"{self._noun.replace(' ', '-')}{form.suffix}"
        path = ask_where(self.parentWidget(), title, name, form.title)
        if path is not None:
            self.asked.emit(path)


def ask_where(parent: QWidget | None, title: str, name: str, kind: str) -> Path | None:
    """Asks for the path of a file to write, `name` by default; None if the user changed their mind."""
    # "trace.json.gz" ends in both
    suffix = "".join(Path(name).suffixes)
    dialog = QFileDialog(parent, title, "", f"{kind} (*{suffix})")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(suffix.removeprefix("."))
    dialog.selectFile(name)
    path = Path(dialog.selectedFiles()[0]) if dialog.exec() else None
    dialog.deleteLater()
    return path
