"""The menus of what is saved: one opens an entry, or deletes the one that is shown; the other exports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from engine.words.numbers import date_text
from gui.widgets.labels import plain_tip


class SavedEntry(NamedTuple):
    """Something saved: its key, what it is, when it was made, and more about it."""

    key: str
    text: str
    created: datetime
    tip: str


class SavedMenu(QMenu):
    """`opened` and `delete_asked` carry a key. It is filled whenever it opens."""

    opened = Signal(str)
    delete_asked = Signal(str)

    def __init__(self, parent: QWidget, noun: str, plural: str, contents: str) -> None:
        """`noun` and `plural` are what the entries are called: "search", "searches"; "trials" are in them."""
        super().__init__(parent)
        self.setAccessibleName(f"Saved {plural}")
        self.setToolTipsVisible(True)
        self._noun = noun
        self.whole = f"this {noun} with its {contents}"
        self._source: Callable[[], Sequence[SavedEntry]] = tuple
        self._shown: str | None = None
        self._offers: list[tuple[str, Callable[[], object]]] = []
        self.aboutToShow.connect(self._fill)

    def set_source(self, source: Callable[[], Sequence[SavedEntry]]) -> None:
        """Sets the function that gives the entries."""
        self._source = source

    def offer(self, text: str, do: Callable[[], object]) -> None:
        """Adds something to do with the entry that is shown."""
        self._offers.append((text, do))

    def set_shown(self, key: str | None) -> None:
        """Sets which entry is shown, and can be deleted."""
        self._shown = key

    def _fill(self) -> None:
        self.clear()
        entries = self._source()
        for entry in entries:
            self._add(entry)
        if not entries:
            none = f"No {self._noun} has been saved yet. Each one is kept here when it ends."
            self.addAction(none).setEnabled(False)
            return
        self.addSeparator()
        delete = (f"Delete this {self._noun}…", lambda: self.delete_asked.emit(self._shown or ""))
        for text, do in (*self._offers, delete):
            action = self.addAction(text)
            action.setEnabled(self._shown in [entry.key for entry in entries])
            action.triggered.connect(lambda _checked=False, do=do: do())

    def _add(self, entry: SavedEntry) -> None:
        action = self.addAction(f"{entry.text}\t{date_text(entry.created)}")
        action.setCheckable(True)
        action.setChecked(entry.key == self._shown)
        action.setToolTip(plain_tip(entry.tip))
        action.triggered.connect(lambda: self.opened.emit(entry.key))


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
        title, name = f"Export the {self._noun}", f"{self._noun}{form.suffix}"
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
