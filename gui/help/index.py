"""The list of the guide's pages, in sections, with a search field."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QListWidget, QListWidgetItem, QWidget

from gui.help.pages import GuidePage, best_of, matching
from gui.theme.fonts import font
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.labels import label

_NAME = Qt.ItemDataRole.UserRole
_ROW, _HEAD = 26, 31


class GuideList(QWidget):
    """`chosen` carries a page's name, `searched` the typed words."""

    chosen = Signal(str)
    searched = Signal(str)

    def __init__(self, pages: Sequence[GuidePage], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pages = tuple(pages)
        self.field = QLineEdit()
        self.field.setProperty("small", "true")
        self.field.setPlaceholderText("Find in the guide")
        self.field.setAccessibleName("Find in the guide")
        self.field.setClearButtonEnabled(False)
        self.field.installEventFilter(self)
        self.list = QListWidget()
        self.list.setProperty("kind", "guide")
        self.list.setAccessibleName("Pages of the guide")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._nothing = label("No page contains these words.", "empty", wraps=True)
        self._nothing.hide()
        self._lay_out()
        self.field.textChanged.connect(self._search)
        self.list.currentItemChanged.connect(self._choose)
        self._fill(self._pages)

    def _lay_out(self) -> None:
        row = in_row(self.field, margins=(0, 0, 8, 0))
        in_column(row, self._nothing, wide(self.list), parent=self, margins=(12, 16, 4, 4), spacing=8)

    def names(self) -> tuple[str, ...]:
        """The names of the listed pages, from the top."""
        items = (self.list.item(row) for row in range(self.list.count()))
        return tuple(item.data(_NAME) for item in items if item.data(_NAME))

    def set_current(self, name: str) -> None:
        """Marks the open page in the list, if the search has not left it out."""
        item = self._item(name)
        self.list.blockSignals(True)
        if item is None:
            self.list.setCurrentRow(-1)
        else:
            self.list.setCurrentItem(item)
        self.list.blockSignals(False)

    def _item(self, name: str) -> QListWidgetItem | None:
        items = (self.list.item(row) for row in range(self.list.count()))
        return next((item for item in items if item.data(_NAME) == name), None)

    def _search(self, words: str) -> None:
        current = self.list.currentItem()
        open_page = current.data(_NAME) if current is not None else None
        matches = matching(self._pages, words)
        self._fill(matches)
        self._nothing.setVisible(not matches)
        self.searched.emit(words)
        best = best_of(matches, words, open_page)
        self.set_current(best or "")
        if best is not None and best != open_page:
            self.chosen.emit(best)

    def _fill(self, pages: Sequence[GuidePage]) -> None:
        self.list.blockSignals(True)
        self.list.clear()
        section = ""
        for page in pages:
            if page.section != section:
                section = page.section
                self._add_head(section)
            item = QListWidgetItem(page.title)
            item.setData(_NAME, page.name)
            item.setSizeHint(QSize(0, _ROW))
            self.list.addItem(item)
        self.list.blockSignals(False)

    def _add_head(self, section: str) -> None:
        head = QListWidgetItem(section)
        head.setFlags(Qt.ItemFlag.NoItemFlags)
        head.setFont(font(11, 500))
        head.setTextAlignment(Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeft)
        head.setSizeHint(QSize(0, _HEAD))
        self.list.addItem(head)

    def _choose(self, item: QListWidgetItem | None) -> None:
        if item is not None and item.data(_NAME):
            self.chosen.emit(item.data(_NAME))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Moves from the field to the list on Down and Return."""
        keys = (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if watched is self.field and isinstance(event, QKeyEvent) and event.key() in keys:
            if event.type() == QEvent.Type.KeyPress:
                self.list.setFocus(Qt.FocusReason.TabFocusReason)
            return True
        return False
