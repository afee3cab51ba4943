"""A search box: a click anywhere in it opens the whole list, and typing narrows it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QStandardItemModel
from PySide6.QtWidgets import (
    QComboBox,
    QCompleter,
    QLineEdit,
    QListView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
)

from gui.setup.controls import FLUSH, GAP, ChoiceBox
from gui.theme.fonts import font
from gui.theme.theme import theme

Groups = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Headings, each with its rows: the value, and a fact about it, shown at the right."""

_VALUE, _HEADING, _FACT = (Qt.ItemDataRole.UserRole + place for place in range(3))
_INSET = 10


class SearchBox(ChoiceBox):
    """A choice that a part of its name finds. The typed text is the value.

    The list leaves the keyboard to the field, so that typing can continue while it is open.
    """

    def __init__(self, name: str, tip: str) -> None:
        super().__init__(name, tip)
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self._groups: Groups = ()
        field = self.field = _SearchField()
        self.setLineEdit(field)
        field.setAccessibleName(name)
        field.setToolTip(tip)
        field.textEdited.connect(self.edited)
        field.clicked.connect(self.showPopup)
        completer = self._completer = QCompleter(self.model(), self)
        # a heading has no value, so no typed text finds it
        completer.setCompletionRole(_VALUE)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setMaxVisibleItems(self.maxVisibleItems())
        popup = self.list = QListView()
        popup.setProperty("kind", "popup")
        popup.setAccessibleName(f"{name}: matches")
        popup.setToolTip(tip)
        completer.setPopup(popup)
        popup.setItemDelegate(_Row(popup))
        self.setCompleter(completer)
        completer.activated.connect(lambda *_: self.edited.emit(self.value()))

    def set_groups(self, groups: Groups) -> None:
        """Offers these values under their headings; a heading may be empty."""
        if groups == self._groups:
            return
        self._groups = groups
        kept = self.value()
        self.blockSignals(True)
        self.clear()
        for heading, rows in groups:
            if heading:
                self._add_heading(heading)
            for value, fact in rows:
                self.addItem(value, value)
                self.setItemData(self.count() - 1, fact, _FACT)
        self.blockSignals(False)
        self.set_value(kept)

    def value(self) -> str:
        return self.currentText().strip() if self.isEditable() else ""

    def set_value(self, value: str) -> None:
        if value != self.value():
            # the arrow keys continue from the current row
            self.setCurrentIndex(self.findData(value))
            self.setEditText(value)
            self.field.setCursorPosition(0)

    def showPopup(self) -> None:
        """Opens the whole list at the chosen value."""
        value = self.value()
        self._completer.setCompletionPrefix("")
        self._completer.complete()
        rows = self.list.model()
        matches = rows.match(rows.index(0, 0), _VALUE, value, 1, Qt.MatchFlag.MatchFixedString)
        if value and matches:
            self.list.setCurrentIndex(matches[0])
            self.list.scrollTo(matches[0], QListView.ScrollHint.PositionAtCenter)
            if matches[0].row() < self.maxVisibleItems() // 2:
                # centred, it would leave the first heading out of view
                self.list.scrollToTop()
        self.field.selectAll()

    def hidePopup(self) -> None:
        self.list.hide()
        super().hidePopup()

    def _add_heading(self, heading: str) -> None:
        # in a role of its own: as a row's text it could be typed and taken for a value
        self.addItem("")
        row = self.count() - 1
        self.setItemData(row, heading, _HEADING)
        self.setItemData(row, heading, Qt.ItemDataRole.AccessibleTextRole)
        model = self.model()
        assert isinstance(model, QStandardItemModel)  # a combo box makes one
        model.item(row).setFlags(Qt.ItemFlag.NoItemFlags)

    def _fit_info(self) -> None:
        super()._fit_info()
        room = self._info.sizeHint().width() + GAP if self._info.text() else 0
        self.field.setTextMargins(FLUSH, 0, room, 0)


class _SearchField(QLineEdit):
    """`clicked` when the mouse was pressed and released without selecting text."""

    clicked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._is_pressed = False

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        self._is_pressed = event.button() == Qt.MouseButton.LeftButton

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if self._is_pressed and not self.hasSelectedText():
            self.clicked.emit()
        self._is_pressed = False


class _Row(QStyledItemDelegate):
    """A row of the list, with its fact at the right; a heading is small."""

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().paint(painter, option, index)
        heading, fact = index.data(_HEADING), index.data(_FACT)
        rect: QRect = option.rect
        painter.save()
        painter.setPen(QColor(theme().palette.text3))
        inner = rect.adjusted(_INSET, 0, -_INSET, 0)
        if heading:
            painter.setFont(font(11, 500))
            place = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom
            painter.drawText(inner.adjusted(0, 0, 0, -4), place, heading)
        elif fact:
            painter.setFont(font(12))
            painter.drawText(inner, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, fact)
        painter.restore()
