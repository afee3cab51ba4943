"""The queue: what is in progress, what waits, when it will be over, and what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QPoint, Qt, Signal
from PySide6.QtGui import QDropEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QStackedWidget, QTableView, QWidget

from engine.store.queue.waiting import WaitingItem
from gui.runs.bar import FOOT_HEIGHT as HEIGHT
from gui.runs.queue.delegate import (
    ACTIONS_WIDTH,
    HOLD,
    NEXT,
    RELEASE,
    REMOVE,
    REPEAT,
    QueueDelegate,
    actions_of,
)
from gui.runs.queue.model import Column, QueueModel
from gui.runs.queue.schedule import Schedule
from gui.runs.queue.words import EMPTY, empty_words, summary_text
from gui.session.queue.items import QueueItem
from gui.widgets import Button, ElidedLabel, EmptyState, label
from gui.widgets.boxes import in_column, in_row, wide
from gui.widgets.tables import set_up

_ROW_HEIGHT = 28
_WIDTHS = {
    Column.HANDLE: 32,
    Column.KIND: 26,
    Column.STATE: 124,
    Column.TAKES: 92,
    Column.BEGINS: 88,
    Column.ENDS: 88,
    Column.ACTIONS: ACTIONS_WIDTH,
}
_NAME_SHARE, _LEAST_NAME = 0.42, 150
_TIP = (
    "What is in progress, and what waits. Drag a row to move it, or press Alt+Up or Alt+Down; Enter runs it "
    "next, Space holds or releases it, Ctrl+R repeats it, Delete removes it"
)
_STOP_TIP = "What is in progress goes on to its end; then nothing begins until you press Go on"


class _Table(QTableView):
    """Rows that are moved by drag and by keys. `action_pressed` carries an action's name, `moved` 1 or -1."""

    action_pressed = Signal(str)
    moved = Signal(int)

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

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()

    def fit(self) -> None:
        """Shares the room that the fixed columns leave between name and description."""
        header = self.horizontalHeader()
        room = self.viewport().width() - sum(_WIDTHS.values())
        is_narrow = room < 2 * _LEAST_NAME
        # the name's tooltip has it too
        self.setColumnHidden(Column.WHAT, is_narrow)
        name = max(_LEAST_NAME, room if is_narrow else round(room * _NAME_SHARE))
        header.resizeSection(Column.NAME, name)
        header.resizeSection(Column.WHAT, room - name)


class QueuePanel(QWidget):
    """Shows a schedule.

    `chosen` carries the keys of items and an action's name, `move_asked` keys and the key before which they
    go (None: the end), `rest_asked` whether to stop after what is in progress. `left_wanted` asks to go on
    with what an earlier window left.
    """

    chosen = Signal(object, str)
    move_asked = Signal(object, object)
    rest_asked = Signal(bool)
    left_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = QueueModel(self)
        self.table = _Table()
        self.summary = ElidedLabel("", "unit")
        self.rest = Button("Stop after this one", "strip", _STOP_TIP, "stop")
        self.go_on = Button("Go on", "strip", "Begin what waits, one after another", "play")
        self.empty = EmptyState(*EMPTY)
        self.empty.pressed.connect(self.left_wanted)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.table)
        self._pages.addWidget(self.empty)
        header = QWidget()
        header.setFixedHeight(HEIGHT)
        self._header = in_row(
            label("Queue", "panelTitle"),
            wide(self.summary),
            self.rest,
            self.go_on,
            parent=header,
            margins=(16, 0, 16, 0),
            spacing=8,
        )
        in_column(header, wide(self._pages), parent=self, spacing=0)
        self._set_up_table()
        self.rest.clicked.connect(lambda: self.rest_asked.emit(True))
        self.go_on.clicked.connect(lambda: self.rest_asked.emit(False))
        self.show_schedule(self.model.schedule)

    def add_header_widget(self, widget: QWidget) -> None:
        """Puts a control of the window at the right of the header."""
        self._header.addWidget(widget)

    def show_schedule(self, schedule: Schedule, left: Sequence[WaitingItem] = ()) -> None:
        """Shows what is in the queue, or else tells what an earlier window `left`; what is highlighted stays
        so."""
        kept = self.highlighted()
        current = self.table.currentIndex().column()
        self.model.take(schedule)
        self._highlight([item.key for item in kept], max(current, 0))
        self.summary.set_whole_text(summary_text(schedule))
        self.rest.setVisible(not schedule.rests and bool(schedule.slots))
        self.go_on.setVisible(schedule.rests)
        self._pages.setCurrentWidget(self.table if schedule.slots else self.empty)
        self.empty.tell(*empty_words(left))

    def highlighted(self) -> tuple[QueueItem, ...]:
        """The items of the highlighted rows, top to bottom."""
        rows = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        return tuple(self.model.rows()[row].item for row in rows)

    def menu_for(self, item: QueueItem) -> QMenu:
        """The context menu of an item, or of the highlighted ones where it is among them."""
        menu = QMenu(self)
        menu.setAccessibleName(f"What to do with {item.title}")
        marked = self.highlighted()
        keys = [one.key for one in marked] if item.key in {one.key for one in marked} else [item.key]
        for action in actions_of(item):
            entry = menu.addAction(f"{action.words}\t{action.keys}")
            entry.triggered.connect(lambda _=False, name=action.name: self.chosen.emit(keys, name))
        return menu

    def _set_up_table(self) -> None:
        table, model = self.table, self.model
        table.setModel(model)
        set_up(table, "Queue", "Highlight all", _ROW_HEIGHT)
        table.setToolTip(_TIP)
        delegate = QueueDelegate(table, model)
        table.setItemDelegate(delegate)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        table.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        table.setDragDropOverwriteMode(False)
        table.setDropIndicatorShown(True)
        header = table.horizontalHeader()
        header.setMinimumSectionSize(min(_WIDTHS.values()))
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        for column, width in _WIDTHS.items():
            header.resizeSection(column, width)
        delegate.chosen.connect(lambda key, name: self.chosen.emit([key], name))
        model.move_asked.connect(self.move_asked)
        table.action_pressed.connect(self._choose)
        table.moved.connect(self._move)
        table.customContextMenuRequested.connect(self._show_menu)

    def _choose(self, name: str) -> None:
        marked = self.highlighted()
        if name == HOLD.name and marked and all(item.is_held for item in marked):
            name = RELEASE.name
        if marked:
            self.chosen.emit([item.key for item in marked], name)

    def _move(self, by: int) -> None:
        marked, items = self.highlighted(), self.model.schedule.items
        if not marked:
            return
        keys = [item.key for item in marked]
        first, last = items.index(marked[0]), items.index(marked[-1])
        place = first - 1 if by < 0 else last + 2
        before = items[place].key if 0 <= place < len(items) else None
        if place >= 0 and (by < 0 or last + 1 < len(items)):
            self.move_asked.emit(keys, before)

    def _highlight(self, keys: list[str], column: int) -> None:
        selection = QItemSelection()
        rows = [row for key in keys if (row := self.model.row_of(key)) is not None]
        for row in rows:
            selection.select(self.model.index(row, 0), self.model.index(row, len(Column) - 1))
        if rows and not self.table.selectionModel().selectedRows():
            flags = QItemSelectionModel.SelectionFlag
            chosen = self.table.selectionModel()
            chosen.setCurrentIndex(self.model.index(rows[0], column), flags.NoUpdate)
            chosen.select(selection, flags.ClearAndSelect)

    def _show_menu(self, place: QPoint) -> None:
        index = self.table.indexAt(place)
        if index.isValid():
            menu = self.menu_for(self.model.rows()[index.row()].item)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(self.table.viewport().mapToGlobal(place))
