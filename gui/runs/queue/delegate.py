"""Paints the rows of the queue: the handle, the kind, words and times, and the buttons of a row."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QAbstractItemModel, QEvent, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QHelpEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QToolTip,
)

from engine.words.numbers import NONE
from gui.runs.queue.model import Column, QueueModel
from gui.runs.queue.words import KIND_ICONS
from gui.session.queue.items import QueueItem
from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets import draw_bar
from gui.widgets.tables import RIGHT, Index, cell_font, cell_text

_PAD, _ICON, _BUTTON, _BAR_WIDTH, _BAR_HEIGHT = 8, 14, 26, 56, 4


class Action(NamedTuple):
    """What can be done with an item: its key, icon, words, and the keys that do it in the table."""

    name: str
    icon: str
    words: str
    keys: str


NEXT = Action("next", "first", "Run next", "Enter")
HOLD = Action("hold", "pause", "Hold", "Space")
RELEASE = Action("release", "play", "Release", "Space")
REPEAT = Action("repeat", "copy", "Repeat", "Ctrl+R")
REMOVE = Action("remove", "cross", "Remove", "Delete")


def actions_of(item: QueueItem) -> tuple[Action, ...]:
    """What can be done with an item; what is in progress can only be repeated."""
    if item.is_running:
        return (REPEAT,)
    return (NEXT, RELEASE if item.is_held else HOLD, REPEAT, REMOVE)


ACTIONS_WIDTH = 4 * _BUTTON + _PAD


class QueueDelegate(QStyledItemDelegate):
    """`chosen` carries the key of the item whose button was pressed, and the action's name."""

    chosen = Signal(str, str)

    def __init__(self, table: QTableView, model: QueueModel) -> None:
        super().__init__(table)
        self._model = model

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        palette, column, rect = theme().palette, Column(index.column()), QRect(option.rect)
        item = self._model.rows()[index.row()].item
        is_selected = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        if is_selected:
            painter.fillRect(rect, QColor(palette.bg2))
        match column:
            case Column.HANDLE:
                if is_selected:
                    painter.fillRect(rect.left(), rect.top(), 2, rect.height(), QColor(palette.pri))
                draw_icon(painter, _icon_at(rect, rect.left() + 12), "handle", palette.text3)
            case Column.KIND:
                ink = palette.text3 if item.is_held else palette.text2
                draw_icon(painter, _icon_at(rect, rect.left() + 6), KIND_ICONS[item.kind], ink)
            case Column.ACTIONS:
                for action, place in _buttons(item, rect):
                    draw_icon(painter, place.toRectF().adjusted(6, 6, -6, -6), action.icon, palette.text2)
            case Column.STATE if item.is_running and item.progress is not None:
                track = QRectF(rect.left() + _PAD, rect.center().y() - 1, _BAR_WIDTH, _BAR_HEIGHT)
                draw_bar(painter, track, item.progress, palette.pri, palette.bg3)
                self._words(painter, rect.adjusted(_BAR_WIDTH + _PAD, 0, 0, 0), index, item)
            case _:
                self._words(painter, rect, index, item)
        painter.restore()

    def editorEvent(
        self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        if not isinstance(event, QMouseEvent) or event.type() is not QEvent.Type.MouseButtonRelease:
            return False
        item = self._model.rows()[index.row()].item
        action = self._action_at(index, item, QRect(option.rect), event)
        if event.button() is not Qt.MouseButton.LeftButton or action is None:
            return False
        self.chosen.emit(item.key, action.name)
        return True

    def helpEvent(
        self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        if index.isValid():
            item = self._model.rows()[index.row()].item
            action = next(
                (
                    action
                    for action, place in _buttons(item, QRect(option.rect))
                    if Column(index.column()) is Column.ACTIONS and place.contains(event.pos())
                ),
                None,
            )
            if action is not None:
                QToolTip.showText(event.globalPos(), f"{action.words} ({action.keys})", view)
                return True
        return super().helpEvent(event, view, option, index)

    def _action_at(self, index: Index, item: QueueItem, rect: QRect, event: QMouseEvent) -> Action | None:
        if Column(index.column()) is not Column.ACTIONS:
            return None
        point = event.position().toPoint()
        return next((action for action, place in _buttons(item, rect) if place.contains(point)), None)

    def _words(self, painter: QPainter, rect: QRect, index: Index, item: QueueItem) -> None:
        palette, column = theme().palette, Column(index.column())
        text = self._model.text(index.row(), column)
        weight = 600 if column is Column.NAME else 400
        is_faint = item.is_held or text == NONE
        ink = palette.text3 if is_faint else palette.text if column is Column.NAME else palette.text2
        words = cell_text(text, weight, max(rect.width() - 2 * _PAD, 0))
        left = rect.left() + _PAD
        if self._model.alignment(column) == RIGHT:
            left = round(rect.right() - _PAD - words.size().width())
        painter.setFont(cell_font(weight))
        painter.setPen(QColor(ink))
        painter.drawStaticText(left, round(rect.center().y() - words.size().height() / 2), words)


def _icon_at(rect: QRect, left: int) -> QRectF:
    return QRectF(left, rect.center().y() - _ICON / 2 + 1, _ICON, _ICON)


def _buttons(item: QueueItem, rect: QRect) -> list[tuple[Action, QRect]]:
    """The buttons of a row; Repeat and Remove have the same place in every row."""
    shown = actions_of(item)
    places = range(2, 3) if item.is_running else range(len(shown))
    top = rect.center().y() - _BUTTON // 2 + 1
    return [
        (action, QRect(rect.left() + place * _BUTTON, top, _BUTTON, _BUTTON))
        for action, place in zip(shown, places, strict=True)
    ]
