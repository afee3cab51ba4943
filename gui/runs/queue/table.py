"""The table of the queue: the items with their times, moved by drag and by keys, with buttons in each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from PySide6.QtCore import QEvent, QMimeData, QModelIndex, QPoint, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QDropEvent, QHelpEvent, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import QAbstractItemView, QToolTip

from engine.words.numbers import NONE
from gui.runs.queue.schedule import Schedule, Slot, schedule
from gui.runs.queue.words import KIND_ICONS, begins_text, duration_text, state_text, time_text
from gui.session.items import QueueItem
from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets import draw_bar
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS
from gui.widgets.table.model import Index, RowModel
from gui.widgets.table.painting import paint_words

MIME = "application/x-ammeter-queue"
_INVALID = QModelIndex()
_ICON, _BUTTON, _BAR_WIDTH, _BAR_HEIGHT = 14, 26, 56, 4
_LEAST_NAME = 150
_TIP = (
    "What is in progress, and what waits. Drag a row to move it, or press Alt+Up or Alt+Down; Enter runs it "
    "next, Space holds or releases it, Ctrl+R repeats it, Delete removes it"
)


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


class QueueModel(RowModel[Slot]):
    """Rows that are moved by drag. `move_asked` carries the keys that were dragged, and the key before which
    they were dropped, None for the end."""

    move_asked = Signal(object, object)

    def flags(self, index: Index) -> Qt.ItemFlag:
        if not index.isValid():
            # between the rows
            return Qt.ItemFlag.ItemIsDropEnabled
        return super().flags(index) | Qt.ItemFlag.ItemIsDragEnabled

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        return [MIME]

    def mimeData(self, indexes: Iterable[QModelIndex]) -> QMimeData:
        rows = sorted({index.row() for index in indexes})
        data = QMimeData()
        data.setData(MIME, "\n".join(self.rows[row].item.key for row in rows).encode())
        return data

    def dropMimeData(
        self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index = _INVALID
    ) -> bool:
        if not data.hasFormat(MIME):
            return False
        place = row if row >= 0 else parent.row() if parent.isValid() else len(self.rows)
        keys = bytes(data.data(MIME).data()).decode().split("\n")
        later = (slot.item.key for slot in self.rows[place:])
        self.move_asked.emit(keys, next((key for key in later if key not in keys), None))
        # the rows are not the view's to remove
        return False


class QueueTable(ResultTable[Slot]):
    """`action_pressed` carries an action's name, `button_pressed` an item's key too, `moved` 1 or -1."""

    action_pressed = Signal(str)
    button_pressed = Signal(str, str)
    moved = Signal(int)
    move_asked = Signal(object, object)
    model_class = QueueModel

    def __init__(self) -> None:
        self.schedule = schedule((), datetime.now(), rests=False)
        super().__init__("Queue", self._columns_now(), key=lambda slot: slot.item.key, sorts=False)
        self.setToolTip(_TIP)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.setDragDropOverwriteMode(False)
        self.setDropIndicatorShown(True)
        assert isinstance(self.row_model, QueueModel)
        self.row_model.move_asked.connect(self.move_asked)

    def show_schedule(self, schedule: Schedule) -> None:
        """Shows these items; what is highlighted stays so."""
        self.schedule = schedule
        self.show_rows(schedule.slots)

    def button_place(self, row: int, action: Action) -> QRect:
        """Where the button of an action is in a row; empty without it."""
        room = self.cell_room(row, len(self.columns()) - 1)
        return dict(_buttons(self.rows()[row].item, room)).get(action, QRect())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, modifiers = event.key(), event.modifiers()
        if modifiers & Qt.KeyboardModifier.AltModifier and key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self.moved.emit(-1 if key == Qt.Key.Key_Up else 1)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.action_pressed.emit(NEXT.name)
        elif key == Qt.Key.Key_Space:
            self.action_pressed.emit(HOLD.name)
        elif key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.action_pressed.emit(REMOVE.name)
        elif key == Qt.Key.Key_R and modifiers & Qt.KeyboardModifier.ControlModifier:
            self.action_pressed.emit(REPEAT.name)
        else:
            super().keyPressEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        super().dropEvent(event)
        # the queue moves the rows itself
        event.setDropAction(Qt.DropAction.IgnoreAction)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed = self._button_at(event.position().toPoint())
        super().mouseReleaseEvent(event)
        if pressed is not None and event.button() is Qt.MouseButton.LeftButton:
            self.button_pressed.emit(pressed[0].key, pressed[1].name)

    def viewportEvent(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and (pointed := self._button_at(event.pos())) is not None:
            QToolTip.showText(event.globalPos(), f"{pointed[1].words} ({pointed[1].keys})", self)
            return True
        return super().viewportEvent(event)

    def _button_at(self, point: QPoint) -> tuple[QueueItem, Action] | None:
        index = self.indexAt(point)
        if not index.isValid() or index.column() != len(self.columns()) - 1:
            return None
        item = self.rows()[index.row()].item
        buttons = _buttons(item, self.cell_room(index.row(), index.column()))
        return next(((item, action) for action, place in buttons if place.contains(point)), None)

    def _columns_now(self) -> tuple[Column[Slot], ...]:
        return (
            Column("", lambda slot: "", paint=_paint_handle, width=28),
            Column("", lambda slot: slot.item.kind, paint=_paint_kind, width=26),
            Column(
                "Name",
                lambda slot: slot.item.title,
                width=_LEAST_NAME,
                widest=GROWS,
                look=lambda slot: _look(slot, "text", 600),
                about=_about,
            ),
            Column(
                "What it is",
                lambda slot: slot.item.detail,
                width=_LEAST_NAME,
                widest=GROWS,
                is_dispensable=True,
                look=_look,
                about=_about,
            ),
            Column("State", lambda slot: state_text(slot.item), paint=_paint_state, width=124),
            self._time(
                "Takes",
                lambda slot: duration_text(slot.item),
                "How long it still takes, by earlier runs with the same settings on this device",
            ),
            self._time(
                "Begins",
                lambda slot: begins_text(slot, self.schedule.now),
                "When it will begin, if what is before it takes as long as expected",
            ),
            self._time(
                "Done at",
                lambda slot: time_text(slot.ends, self.schedule.now),
                "When it will be over, if all takes as long as expected",
            ),
            Column("", lambda slot: "", paint=_paint_buttons, width=4 * _BUTTON + 16),
        )

    @staticmethod
    def _time(title: str, text: Callable[[Slot], str], tip: str) -> Column[Slot]:
        def look(slot: Slot) -> Look:
            return _look(slot, "text3" if text(slot) == NONE else "text2")

        return Column(title, text, tip=tip, width=88, is_number=True, look=look)


def _look(slot: Slot, ink: str = "text2", weight: int = 400) -> Look:
    return Look(weight, "text3" if slot.item.is_held else ink)


def _about(slot: Slot) -> str:
    return f"{slot.item.title}\n{slot.item.detail}"


def _paint_handle(painter: QPainter, room: QRectF, slot: Slot) -> None:
    draw_icon(painter, _icon_at(room, room.left() + 6), "handle", theme().palette.text3)


def _paint_kind(painter: QPainter, room: QRectF, slot: Slot) -> None:
    palette = theme().palette
    ink = palette.text3 if slot.item.is_held else palette.text2
    draw_icon(painter, _icon_at(room, room.left()), KIND_ICONS[slot.item.kind], ink)


def _paint_state(painter: QPainter, room: QRectF, slot: Slot) -> None:
    palette, item = theme().palette, slot.item
    if item.is_running and item.progress is not None:
        track = QRectF(room.left(), room.center().y() - 1, _BAR_WIDTH, _BAR_HEIGHT)
        draw_bar(painter, track, item.progress, palette.pri, palette.bg3)
        room = room.adjusted(_BAR_WIDTH + 8, 0, 0, 0)
    paint_words(painter, room, state_text(item), _look(slot))


def _paint_buttons(painter: QPainter, room: QRectF, slot: Slot) -> None:
    for action, place in _buttons(slot.item, room):
        rect = QRectF(place).adjusted(6, 6, -6, -6)
        draw_icon(painter, rect, action.icon, theme().palette.text2)


def _icon_at(room: QRectF, left: float) -> QRectF:
    return QRectF(left, round(room.center().y() - _ICON / 2), _ICON, _ICON)


def _buttons(item: QueueItem, room: QRectF) -> list[tuple[Action, QRect]]:
    """The buttons of a row, from the right; Repeat and Remove have the same place in every row."""
    shown = actions_of(item)
    places = range(2, 3) if item.is_running else range(len(shown))
    left, top = round(room.right()) - 4 * _BUTTON - 8, round(room.center().y()) - _BUTTON // 2
    return [
        (action, QRect(left + place * _BUTTON, top, _BUTTON, _BUTTON))
        for action, place in zip(shown, places, strict=True)
    ]
