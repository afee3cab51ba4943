"""The queue as a table of jobs with their times. Drag and keys move them; each row has buttons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from PySide6.QtCore import QEvent, QMimeData, QModelIndex, QPoint, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QDropEvent, QHelpEvent, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import QAbstractItemView, QMenu, QToolTip

from engine.words.numbers import NONE, clock_text, duration, share_text
from gui.session.items import QueueItem, time_left
from gui.theme.icons import draw_icon
from gui.theme.theme import theme
from gui.widgets import draw_bar, draw_marker
from gui.widgets.table import Column, Look, ResultTable
from gui.widgets.table.columns import GROWS
from gui.widgets.table.model import Index, RowModel
from gui.widgets.table.painting import paint_words, text_width

KIND_ICONS: Mapping[str, str] = {
    "run": "play",
    "limit": "limit",
    "numerics": "pulse",
    "profile": "profile",
    "sweep": "sweep",
    "tune": "tune",
}
_MIME = "application/x-ammeter-queue"
_INVALID = QModelIndex()
_ICON, _GAP, _BUTTON, _BAR_WIDTH, _BAR_HEIGHT, _LEAST_JOB = 14, 8, 26, 56, 4, 240
_TIP = (
    "The running and the waiting jobs. Drag a row to move it, or press Alt+Up or Alt+Down. Enter runs a job "
    "next, or shows the running one. Space pauses or resumes it, Ctrl+R repeats it, Delete removes it."
)


@dataclass(frozen=True)
class ScheduledItem:
    """A queued job with its expected start and end, None if unknown."""

    item: QueueItem
    begins: datetime | None
    ends: datetime | None


@dataclass(frozen=True)
class QueueSchedule:
    """All queued jobs in order with their expected times, and the remaining `seconds` of those not paused.

    If a duration is unknown, `at_least` is True and `seconds` is a lower bound. While the queue `is_paused`,
    or PyTorch is not installed, waiting jobs have no times.
    """

    slots: tuple[ScheduledItem, ...]
    seconds: float
    at_least: bool
    is_paused: bool
    now: datetime
    has_engine: bool = True

    @property
    def items(self) -> tuple[QueueItem, ...]:
        return tuple(slot.item for slot in self.slots)

    @property
    def waiting(self) -> int:
        """The number of waiting jobs, including paused ones."""
        return sum(not item.is_running for item in self.items)

    @property
    def paused(self) -> int:
        return sum(item.is_paused for item in self.items)

    @property
    def ends(self) -> datetime:
        """The expected finish time of all jobs; a lower bound if `at_least`."""
        return self.now + timedelta(seconds=self.seconds)


def schedule(
    items: Sequence[QueueItem], now: datetime, *, is_paused: bool, has_engine: bool = True
) -> QueueSchedule:
    """Return the expected times of all items, the running one first. Paused items have none."""
    slots: dict[str, ScheduledItem] = {}
    clock: datetime | None = now
    for item in sorted(items, key=lambda item: not item.is_running):
        if item.is_paused or (not item.is_running and (is_paused or not has_engine)):
            slots[item.key] = ScheduledItem(item, None, None)
            continue
        begins, seconds = clock, item.seconds_left
        clock = None if clock is None or seconds is None else clock + timedelta(seconds=seconds)
        slots[item.key] = ScheduledItem(item, begins, clock)
    return QueueSchedule(
        tuple(slots[item.key] for item in items), *time_left(items), is_paused, now, has_engine
    )


def summary_text(schedule: QueueSchedule) -> str:
    """Return the summary above the table: counts and remaining time. Empty for an empty queue."""
    if not schedule.slots:
        return ""
    parts = [f"{schedule.waiting:,} waiting"] if schedule.waiting else []
    if schedule.paused:
        parts.append(f"{schedule.paused:,} paused")
    counted = [item for item in schedule.items if not item.is_paused]
    if any(item.seconds_left is not None for item in counted):
        parts.append(f"{'at least ' if schedule.at_least else ''}{duration(schedule.seconds)}")
    if not schedule.has_engine:
        parts.append("starts once PyTorch is installed")
    elif schedule.is_paused:
        is_busy = any(item.is_running for item in counted)
        parts.append("pauses after this job" if is_busy else "paused")
    elif counted and not schedule.at_least:
        parts.append(f"everything done at {clock_text(schedule.ends, schedule.now)}")
    return " · ".join(parts)


class QueueAction(NamedTuple):
    """An action on a queued job: its icon, its text, and the keys that trigger it in the table."""

    icon: str
    words: str
    keys: str


SHOW = QueueAction("pulse", "Show", "Enter")
NEXT = QueueAction("first", "Run next", "Enter")
PAUSE = QueueAction("pause", "Pause", "Space")
RESUME = QueueAction("play", "Resume", "Space")
REPEAT = QueueAction("copy", "Repeat", "Ctrl+R")
REMOVE = QueueAction("cross", "Remove", "Delete")
_KEYS = {
    Qt.Key.Key_Return: NEXT,
    Qt.Key.Key_Enter: NEXT,
    Qt.Key.Key_Space: PAUSE,
    Qt.Key.Key_Delete: REMOVE,
    Qt.Key.Key_Backspace: REMOVE,
}


def actions_of(item: QueueItem) -> tuple[QueueAction, ...]:
    """Return the actions on an item. A running one can only be shown and repeated."""
    return (SHOW, REPEAT) if item.is_running else (NEXT, RESUME if item.is_paused else PAUSE, REPEAT, REMOVE)


class _QueueModel(RowModel[ScheduledItem]):
    move: Callable[[Sequence[str], str | None], object]

    def flags(self, index: Index) -> Qt.ItemFlag:
        # an invalid index is between the rows
        is_row = index.isValid()
        return (
            super().flags(index) | Qt.ItemFlag.ItemIsDragEnabled if is_row else Qt.ItemFlag.ItemIsDropEnabled
        )

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        return [_MIME]

    def mimeData(self, indexes: Iterable[QModelIndex]) -> QMimeData:
        rows = sorted({index.row() for index in indexes})
        data = QMimeData()
        data.setData(_MIME, "\n".join(self.rows[row].item.key for row in rows).encode())
        return data

    def dropMimeData(
        self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: Index = _INVALID
    ) -> bool:
        if data.hasFormat(_MIME):
            place = row if row >= 0 else parent.row() if parent.isValid() else len(self.rows)
            keys = bytes(data.data(_MIME).data()).decode().split("\n")
            later = (slot.item.key for slot in self.rows[place:])
            self.move(keys, next((key for key in later if key not in keys), None))
        # the rows are not the view's to remove
        return False


class QueueTable(ResultTable[ScheduledItem]):
    """The table of queued jobs.

    `acted` carries the keys of jobs and the QueueAction on them, `moved` the keys of jobs and the one before
    which they are put, None for the end.
    """

    acted = Signal(object, object)
    moved = Signal(object, object)
    model_class = _QueueModel

    def __init__(self) -> None:
        self.schedule = schedule((), datetime.now(), is_paused=False)
        super().__init__("Queue", self._columns_now(), key=lambda slot: slot.item.key, sorts=False)
        self.setToolTip(_TIP)
        self.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.setDragDropOverwriteMode(False)
        self.setDropIndicatorShown(True)
        assert isinstance(self.row_model, _QueueModel)
        self.row_model.move = self.moved.emit

    def show_schedule(self, schedule: QueueSchedule) -> None:
        """Show a schedule. Highlighted items stay so."""
        self.schedule = schedule
        self.show_rows(schedule.slots)

    def highlighted(self) -> list[QueueItem]:
        """Return the items of the highlighted rows, top to bottom."""
        return [slot.item for slot in self.selected_rows()]

    def menu_at(self, index: Index) -> QMenu:
        """Return the context menu of an item, or of all highlighted items if it is one of them."""
        item, marked = self.rows()[index.row()].item, self.highlighted()
        menu = QMenu(self)
        menu.setAccessibleName(f"Actions for {item.title}")
        keys = [chosen.key for chosen in (marked if item in marked else [item])]
        for action in actions_of(item):
            entry = menu.addAction(f"{action.words}\t{action.keys}")
            entry.triggered.connect(lambda _=False, action=action: self.acted.emit(keys, action))
        return menu

    def press(self, action: QueueAction) -> None:
        """Apply an action to the highlighted items. If all are paused, *Pause* resumes them."""
        marked = self.highlighted()
        if action is NEXT and all(item.is_running for item in marked):
            action = SHOW
        if action is PAUSE and all(item.is_paused for item in marked):
            action = RESUME
        if marked:
            self.acted.emit([item.key for item in marked], action)

    def _shift(self, by: int) -> None:
        """Move the highlighted items up (-1) or down (1)."""
        marked, items = self.highlighted(), self.schedule.items
        if not marked:
            return
        first, last = items.index(marked[0]), items.index(marked[-1])
        place = first - 1 if by < 0 else last + 2
        if place >= 0 and (by < 0 or last + 1 < len(items)):
            before = items[place].key if place < len(items) else None
            self.moved.emit([item.key for item in marked], before)

    def button_place(self, row: int, action: QueueAction) -> QRect:
        """Return where a row has the button of an action, or an empty rectangle without one."""
        room = self.cell_room(row, len(self.columns()) - 1)
        return dict(_buttons(self.rows()[row].item, room)).get(action, QRect())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, modifiers = Qt.Key(event.key()), event.modifiers()
        if modifiers & Qt.KeyboardModifier.AltModifier and key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self._shift(-1 if key == Qt.Key.Key_Up else 1)
        elif (action := _KEYS.get(key)) is not None:
            self.press(action)
        elif key == Qt.Key.Key_R and modifiers & Qt.KeyboardModifier.ControlModifier:
            self.press(REPEAT)
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
            self.acted.emit([pressed[0].key], pressed[1])

    def viewportEvent(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and (pointed := self._button_at(event.pos())) is not None:
            QToolTip.showText(event.globalPos(), f"{pointed[1].words} ({pointed[1].keys})", self)
            return True
        return super().viewportEvent(event)

    def _button_at(self, point: QPoint) -> tuple[QueueItem, QueueAction] | None:
        index = self.indexAt(point)
        if not index.isValid() or index.column() != len(self.columns()) - 1:
            return None
        item = self.rows()[index.row()].item
        buttons = _buttons(item, self.cell_room(index.row(), index.column()))
        return next(((item, action) for action, place in buttons if place.contains(point)), None)

    def _columns_now(self) -> tuple[Column[ScheduledItem], ...]:
        def moment(when: datetime | None) -> str:
            return NONE if when is None else clock_text(when, self.schedule.now)

        def takes(slot: ScheduledItem) -> str:
            return NONE if slot.item.seconds_left is None else duration(slot.item.seconds_left)

        def time(title: str, text: Callable[[ScheduledItem], str], tip: str) -> Column[ScheduledItem]:
            def look(slot: ScheduledItem) -> Look:
                return _look(slot, "text3" if text(slot) == NONE else "text2")

            return Column(title, text, tip=tip, width=80, is_number=True, look=look)

        return (
            Column("Job", _job, paint=_paint_job, width=_LEAST_JOB, widest=GROWS, gap=12, about=_about),
            Column("State", lambda slot: _state(slot.item), paint=_paint_state, width=124),
            time("Takes", takes, "Estimated from earlier runs with the same settings on this device"),
            time(
                "Starts",
                lambda slot: "now" if slot.item.is_running else moment(slot.begins),
                "Expected start, if the jobs before it take as long as estimated",
            ),
            time(
                "Done at",
                lambda slot: moment(slot.ends),
                "Expected end, if all jobs take as long as estimated",
            ),
            Column("", lambda slot: "", paint=_paint_buttons, width=4 * _BUTTON + 16),
        )


def _parts(item: QueueItem) -> tuple[str, str]:
    """Return a job's kind, such as "BF16 AMP, 2 of 2" or "Profile", and its subject."""
    return (item.brief, item.detail) if item.brief else (item.detail, item.title)


def _job(slot: ScheduledItem) -> str:
    return ", ".join(filter(None, _parts(slot.item)))


def _about(slot: ScheduledItem) -> str:
    return _job(slot) + (f"\non {slot.item.machine}" if slot.item.machine else "")


def _state(item: QueueItem) -> str:
    if item.is_running:
        return "Running" if item.progress is None else share_text(item.progress)
    if item.is_paused:
        return "Paused"
    return f"Waiting for {item.machine}" if item.machine else "Waiting"


def _look(slot: ScheduledItem, ink: str = "text2", weight: int = 400) -> Look:
    return Look(weight, "text3" if slot.item.is_paused else ink)


def _paint_job(painter: QPainter, room: QRectF, slot: ScheduledItem) -> None:
    mark = QRectF(room.left(), round(room.center().y() - _ICON / 2), _ICON, _ICON)
    if (precision := slot.item.precision) is not None:
        draw_marker(painter, mark.center(), precision, fill="full" if slot.item.is_running else "hollow")
    else:
        draw_icon(painter, mark, KIND_ICONS[slot.item.kind], getattr(theme().palette, _look(slot).ink))
    name, about = _parts(slot.item)
    inner = room.adjusted(_ICON + _GAP, 0, 0, 0)
    paint_words(painter, inner, name, _look(slot, "text", 600))
    inner.adjust(min(text_width(name, 600), inner.width()) + _GAP, 0, 0, 0)
    if about and inner.width() > _ICON:
        paint_words(painter, inner, about, Look(ink="text3"))


def _paint_state(painter: QPainter, room: QRectF, slot: ScheduledItem) -> None:
    palette, item = theme().palette, slot.item
    if item.is_running and item.progress is not None:
        track = QRectF(room.left(), room.center().y() - 1, _BAR_WIDTH, _BAR_HEIGHT)
        draw_bar(painter, track, item.progress, palette.pri, palette.bg3)
        room = room.adjusted(_BAR_WIDTH + 8, 0, 0, 0)
    paint_words(painter, room, _state(item), _look(slot))


def _paint_buttons(painter: QPainter, room: QRectF, slot: ScheduledItem) -> None:
    for action, place in _buttons(slot.item, room):
        draw_icon(painter, QRectF(place).adjusted(6, 6, -6, -6), action.icon, theme().palette.text2)


def _buttons(item: QueueItem, room: QRectF) -> list[tuple[QueueAction, QRect]]:
    # from the right; Repeat and Remove have the same place in every row
    left, top = round(room.right()) - 4 * _BUTTON - 8, round(room.center().y()) - _BUTTON // 2
    return [
        (action, QRect(left + place * _BUTTON, top, _BUTTON, _BUTTON))
        for place, action in enumerate(actions_of(item), 1 if item.is_running else 0)
    ]
