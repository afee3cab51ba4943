"""A search box: a click anywhere in it opens the full list, and typing filters it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QColor, QFocusEvent, QFontMetrics, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import (
    QComboBox,
    QCompleter,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
)

from gui.setup.controls import FLUSH, GAP, ChoiceBox
from gui.setup.facts import Choices
from gui.setup.model.choices import ChoiceGroup, Row, narrowed
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets.labels import describe

_VALUE, _ROW, _HEADING, _TAKEN = (Qt.ItemDataRole.UserRole + place for place in range(4))
_AROUND_ROW, _WIDEST_LIST = 64, 480
_Index = QModelIndex | QPersistentModelIndex
_INVALID = QModelIndex()


class _Rows(QAbstractListModel):
    """Headings, which cannot be selected, and rows. During typing, Enter selects row `taken`."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._entries: list[Row | str] = []
        self.places: dict[str, int] = {}
        self.typed = ""
        self.taken: int | None = None

    def put(self, groups: Iterable[ChoiceGroup], typed: str = "", *, takes_first: bool = False) -> None:
        """Replace all rows with the matches of the typed text."""
        self.beginResetModel()
        self._entries.clear()
        for group in groups:
            if group.heading:
                self._entries.append(group.heading)
            self._entries += group.rows
        places = enumerate(self._entries)
        self.places = {entry.value: place for place, entry in places if isinstance(entry, Row)}
        # before the reset ends: the completer then looks for the taken row, and keeps what it found
        self.typed, self.taken = typed, min(self.places.values(), default=None) if takes_first else None
        self.endResetModel()

    def row(self, place: int) -> Row | None:
        """Return the row at a place. None for a heading."""
        entry = self._entries[place]
        return entry if isinstance(entry, Row) else None

    def rowCount(self, parent: _Index = _INVALID) -> int:
        return 0 if parent.isValid() else len(self._entries)

    def flags(self, index: _Index) -> Qt.ItemFlag:
        if index.isValid() and self.row(index.row()) is None:
            return Qt.ItemFlag.NoItemFlags
        return super().flags(index)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        entry = self._entries[index.row()]
        if role == _TAKEN:
            return self.typed if index.row() == self.taken else None
        if isinstance(entry, str):
            return entry if role in (_HEADING, Qt.ItemDataRole.AccessibleTextRole) else None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return entry.shown
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{entry.shown}, {entry.fact}" if entry.fact else entry.shown
        return {_VALUE: entry.value, _ROW: entry}.get(role)


class SearchBox(ChoiceBox):
    """A combo box whose list is searched while the user types. The typed text is the value.

    The field keeps the keyboard focus while the list is open. Enter selects the best match, or the text as
    typed if `takes_any`. Escape restores the previous value. `typed` carries the text during typing, `edited`
    any other new value, and `picked` the value of a selected row that is an action.
    """

    typed = Signal(str)
    picked = Signal(str)

    def __init__(self, name: str, tip: str, *, takes_any: bool = False) -> None:
        super().__init__(name, tip)
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self._takes_any = takes_any
        self._groups: Sequence[ChoiceGroup] = ()
        self.before = ""
        """The value when the field was entered or last selected, which Escape restores."""
        self._all, self._matches = _Rows(self), _Rows(self)
        self.setModel(self._all)
        field = self.field = _SearchField()
        self.setLineEdit(field)
        describe(field, name, tip)
        field.textEdited.connect(self._narrow)
        field.clicked.connect(self.showPopup)
        field.entered.connect(self._remember)
        completer = self._completer = _Completer(self._matches, self)
        completer.setMaxVisibleItems(self.maxVisibleItems())
        completer.activated[QModelIndex].connect(self._choose_row)  # type: ignore[index]
        completer.escaped.connect(self._bring_back)
        popup = self.list = QListView()
        popup.setProperty("kind", "popup")
        describe(popup, f"{name}: matches", tip)
        for view in (popup, self.view()):
            assert isinstance(view, QListView)
            # else each row of thousands is measured whenever the style is applied
            view.setUniformItemSizes(True)
        completer.setPopup(popup)
        popup.setItemDelegate(_RowDelegate(popup))
        self.setCompleter(completer)

    def set_groups(self, groups: Sequence[ChoiceGroup]) -> None:
        """Offer these values under their headings."""
        if groups is self._groups or groups == self._groups:
            return
        self._groups = groups
        kept = self.value()
        self.blockSignals(True)
        # offers are in the list alone: the arrow keys must not step on them in the closed box
        self._all.put(group._replace(rows=[row for row in group.rows if not row.text]) for group in groups)
        self._show_value(kept)
        self.blockSignals(False)
        longest = max((row.shown + row.fact for group in groups for row in group.rows), key=len, default="")
        room = QFontMetrics(self.font()).horizontalAdvance(longest) + _AROUND_ROW
        self.list.setMinimumWidth(min(room, _WIDEST_LIST))

    def choices(self) -> Choices:
        rows = (row.value for group in self._groups for row in group.rows if not row.text)
        return [(value, value) for value in dict.fromkeys(rows)]

    def value(self) -> str:
        return self.currentText().strip() if self.isEditable() else ""

    def set_value(self, value: str) -> None:
        if value != self.value():
            self._show_value(value)
            self._remember()

    def showPopup(self) -> None:
        """Open the full list at the current value."""
        self._remember()
        self._show("")
        self._completer.setCompletionPrefix("")
        self._completer.complete()
        place = self._matches.places.get(self.before)
        if place is not None:
            index = self.list.model().index(place, 0)
            # current and not selected, or the completer would write it into the field
            self.list.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)
            self.list.scrollTo(index, QListView.ScrollHint.PositionAtCenter)
            if place < self.maxVisibleItems() // 2:
                # centred, it would leave the first heading out of view
                self.list.scrollToTop()
        self.field.selectAll()

    def hidePopup(self) -> None:
        self.list.hide()
        super().hidePopup()

    def _show_value(self, value: str) -> None:
        # the arrow keys continue from the current row
        self.setCurrentIndex(self._all.places.get(value, -1))
        self.setEditText(value)
        self.field.setCursorPosition(0)

    def _remember(self) -> None:
        self.before = self.value()

    def _narrow(self, typed: str) -> None:
        self._show(typed)
        # the completer scrolls to the row that Enter takes, and its heading would be out of view
        QTimer.singleShot(0, self, self.list.scrollToTop)
        self.typed.emit(typed.strip())

    def _show(self, typed: str) -> None:
        takes_first = bool(typed.strip()) and not self._takes_any
        # all at once only where it opens at the chosen row, and not at each key
        mode = QListView.LayoutMode
        self.list.setLayoutMode(mode.Batched if typed else mode.SinglePass)
        self._matches.put(narrowed(self._groups, typed), typed, takes_first=takes_first)

    def _choose_row(self, index: QModelIndex) -> None:
        row = index.data(_ROW)
        if not isinstance(row, Row):
            return
        if row.text:
            self._bring_back()
            # once the list has closed
            QTimer.singleShot(0, self, lambda: self.picked.emit(row.value))
        else:
            self.setEditText(row.value)
            self._remember()
            self.edited.emit(row.value)

    def _bring_back(self) -> None:
        if self.before != self.value():
            self._show_value(self.before)
            self.edited.emit(self.before)

    def _fit_info(self) -> None:
        super()._fit_info()
        room = self._info.sizeHint().width() + GAP if self._info.text() else 0
        self.field.setTextMargins(FLUSH + self._indent, 0, room, 0)


class _SearchField(QLineEdit):
    """The text field. `clicked` after a click that does not select text, `entered` on focus."""

    clicked = Signal()
    entered = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._is_pressed = False
        # a file that is dropped on it is for the window, and no text
        self.setAcceptDrops(False)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        # the list gives the focus back when it closes
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.entered.emit()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        self._is_pressed = event.button() == Qt.MouseButton.LeftButton

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if self._is_pressed and not self.hasSelectedText():
            self.clicked.emit()
        self._is_pressed = False


class _Completer(QCompleter):
    """The list of the matches, which are filtered already. `escaped` when Escape closes it."""

    escaped = Signal()

    def __init__(self, rows: _Rows, box: SearchBox) -> None:
        super().__init__(rows, box)
        self._box = box
        self.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        self.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        # the only row that the typed text finds is the one that Enter takes
        self.setCompletionRole(_TAKEN)

    def pathFromIndex(self, index: _Index) -> str:
        row = index.data(_ROW)
        return row.value if isinstance(row, Row) and not row.text else self._box.before

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        is_escape = isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
        is_pressed = is_escape and event.type() == QEvent.Type.KeyPress
        done = super().eventFilter(watched, event)
        if is_pressed and watched is self.popup():
            self.escaped.emit()
        return done


class _RowDelegate(QStyledItemDelegate):
    """The painter of a row with its fact at the right, or of a heading."""

    def __init__(self, view: QListView) -> None:
        super().__init__(view)
        self._view = view

    def initStyleOption(self, option: QStyleOptionViewItem, index: _Index) -> None:
        super().initStyleOption(option, index)
        if index == self._view.currentIndex():
            option.state |= QStyle.StateFlag.State_Selected
        row = index.data(_ROW)
        if isinstance(row, Row):
            option.text = _fitting(option, row)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        super().paint(painter, option, index)
        heading, row = index.data(_HEADING), index.data(_ROW)
        rect: QRect = option.rect
        painter.save()
        painter.setPen(QColor(theme().palette.text3))
        inner = rect.adjusted(_INSET, 0, -_INSET, 0)
        if heading:
            painter.setFont(font(11, 500))
            place = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom
            painter.drawText(inner.adjusted(0, 0, 0, -4), place, heading)
        elif isinstance(row, Row) and row.fact:
            painter.setFont(font(12))
            painter.drawText(inner, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, row.fact)
        painter.restore()


_INSET = 10


def _fitting(option: QStyleOptionViewItem, row: Row) -> str:
    """Return the row's text, elided in the middle if it would overlap the fact."""
    metrics: QFontMetrics = option.fontMetrics
    rect: QRect = option.rect
    fact = metrics.horizontalAdvance(row.fact) + _INSET if row.fact else 0
    return metrics.elidedText(row.shown, Qt.TextElideMode.ElideMiddle, rect.width() - 2 * _INSET - fact)
