"""The list of folders above the table: click one to filter by it, drop runs on it to move them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent, QKeyEvent
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QMenu

from engine.experiment.problem import ProblemError, request_error
from engine.store.edits import cleaned_folder
from engine.words.numbers import counted
from gui.runs.table.line import dropped_runs, has_runs
from gui.runs.views import ask_for_name
from gui.setup.saving import TitleDialog
from gui.theme.icons import icon
from gui.theme.theme import theme
from gui.widgets.labels import plain_tip

if TYPE_CHECKING:
    from gui.runs.panel import RunsPanel

_ROW, _MOST_ROWS = 26, 8
_NAME = Qt.ItemDataRole.UserRole
_TERM = re.compile(r'(?:^|\s)folder:(?:"[^"]*"?|\S*)', re.IGNORECASE)


def in_folder(text: str, folder: str) -> str:
    """Return the filter `text` with `folder` as its only folder; an empty name removes the folder."""
    rest = _TERM.sub("", text).strip()
    return f'{rest} folder:"{folder}"'.strip() if folder else rest


class FolderList(QListWidget):
    """The list of folders, hidden at first. Folders created here stay when their last run has left."""

    def __init__(self, panel: RunsPanel) -> None:
        super().__init__(panel)
        self._panel = panel
        self._counts: dict[str, int] = {}
        self._made: set[str] = set()
        self._named = ""
        self.setProperty("kind", "guide")
        self.setAccessibleName("Folders of the runs")
        self.setToolTip("Click a folder to see its runs. Drop runs on it. F2 renames it, Delete deletes it.")
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAcceptDrops(True)
        self.itemClicked.connect(self._choose)
        self.itemActivated.connect(self._choose)
        self.customContextMenuRequested.connect(self._show_menu)
        theme().changed.connect(self._fill)
        self.hide()

    def names(self) -> tuple[str, ...]:
        """Return all folders, including empty ones."""
        return tuple(sorted({*self._counts, *self._made}, key=str.casefold))

    def made(self) -> tuple[str, ...]:
        """Return the folders that were created here, to be remembered."""
        return tuple(sorted(self._made))

    def set_made(self, names: Iterable[str]) -> None:
        """Restore the folders that were created here."""
        self._made = set(names)
        self._fill()

    def show_counts(self, counts: Mapping[str, int]) -> None:
        """Show the folders that contain runs, with their counts, and those that were created here."""
        if counts != self._counts:
            self._counts = dict(counts)
            self._fill()

    def mark(self, text: str) -> None:
        """Highlight the folder that the filter names, if any."""
        found = _TERM.search(text)
        self._named = found[0].partition(":")[2].strip('"').casefold() if found else ""
        self._highlight()

    def ask_for_new(self, then: Callable[[str], object] = lambda _name: None) -> TitleDialog:
        """Open a dialog that asks for the name of a new folder, and pass that to `then`."""

        def make(name: str) -> None:
            name = self._free(name)
            self._made.add(name)
            self._fill()
            then(name)

        about = "Drop runs on the folder to move them. A run is in one folder at most."
        return ask_for_name(self, "New folder", about, make, lambda _name: "Create")

    def ask_to_rename(self, folder: str) -> TitleDialog:
        """Open a dialog that asks for another name for a folder."""

        def rename(name: str) -> None:
            name = self._free(name, folder)
            if folder in self._made:
                self._made = {*self._made - {folder}, name}
                self._fill()
            self._panel.rename_folder(folder, name)

        about = "Its runs stay in the folder."
        return ask_for_name(self, "Rename the folder", about, rename, lambda _name: "Rename", folder)

    def delete(self, folder: str) -> None:
        """Delete a folder; its runs stay, in no folder."""
        self._made.discard(folder)
        self._fill()
        self._panel.delete_folder(folder)

    def _free(self, name: str, own: str = "") -> str:
        try:
            kept = cleaned_folder(name)
        except ProblemError as error:
            raise ProblemError(error.problem.model_copy(update={"key": "title"})) from None
        taken = {known.casefold() for known in self.names() if known != own}
        if not kept or kept.casefold() in taken:
            message = f"A folder “{kept}” already exists." if kept else "A folder needs a name."
            raise request_error(message, "Choose another name.", key="title", value=name)
        return kept

    def keyPressEvent(self, event: QKeyEvent) -> None:
        folder = self._folder(self.currentItem())
        if folder and event.key() == Qt.Key.Key_F2:
            self.ask_to_rename(folder)
        elif folder and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.delete(folder)
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        self.dragMoveEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        item = self.itemAt(event.position().toPoint())
        if item is not None and has_runs(event.mimeData()):
            event.acceptProposedAction()
            self._panel.move_runs(dropped_runs(event.mimeData()), self._folder(item))
        self._highlight()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        super().dragLeaveEvent(event)
        self._highlight()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        item = self.itemAt(event.position().toPoint())
        if item is None or not has_runs(event.mimeData()):
            # entering must be accepted, or no move would follow
            event.setAccepted(isinstance(event, QDragEnterEvent) and has_runs(event.mimeData()))
            return
        self.setCurrentItem(item)
        event.acceptProposedAction()

    @staticmethod
    def _folder(item: QListWidgetItem | None) -> str:
        return str(item.data(_NAME)) if item is not None else ""

    def _choose(self, item: QListWidgetItem) -> None:
        search = self._panel.filter
        search.setText(in_folder(search.text(), self._folder(item)))

    def _show_menu(self, place: QPoint) -> None:
        folder, menu = self._folder(self.itemAt(place)), QMenu(self)
        menu.setAccessibleName("Folders of the runs")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("New folder…").triggered.connect(lambda _=False: self.ask_for_new())
        if folder:
            menu.addAction("Rename…").triggered.connect(lambda _=False: self.ask_to_rename(folder))
            menu.addAction("Delete, keep its runs").triggered.connect(lambda _=False: self.delete(folder))
        menu.popup(self.viewport().mapToGlobal(place))

    def _highlight(self) -> None:
        names = [self._folder(self.item(row)).casefold() for row in range(self.count())]
        self.setCurrentRow(names.index(self._named) if self._named in names else -1)

    def _fill(self) -> None:
        self.clear()
        ink = theme().palette.text2
        for name in ("", *self.names()):
            count = self._counts.get(name, 0)
            item = QListWidgetItem(f"{name} ({count:,})" if name else "All runs")
            item.setData(_NAME, name)
            item.setToolTip(plain_tip(f"{name}: {counted(count, 'run')}" if name else "All runs"))
            item.setSizeHint(QSize(0, _ROW))
            item.setIcon(icon("folder" if name else "table", ink, 14))
            self.addItem(item)
        self.setFixedHeight(_ROW * min(self.count(), _MOST_ROWS) + 4)
        self._highlight()
