"""The queue: what is in progress, what waits, when it will be over, and what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QMenu, QStackedWidget, QWidget

from engine.store.queue import WaitingItem
from gui.runs.bar import FOOT_HEIGHT as HEIGHT
from gui.runs.queue.schedule import Schedule
from gui.runs.queue.table import HOLD, RELEASE, QueueTable, actions_of
from gui.runs.queue.words import EMPTY, empty_words, summary_text
from gui.session.items import QueueItem
from gui.widgets import Button, ElidedLabel, EmptyState, label
from gui.widgets.boxes import in_column, in_row, wide

_STOP_TIP = "What is in progress goes on to its end; then nothing begins until you press Go on"


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
        self.table = QueueTable()
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
        self.table.button_pressed.connect(lambda key, name: self.chosen.emit([key], name))
        self.table.move_asked.connect(self.move_asked)
        self.table.action_pressed.connect(self._choose)
        self.table.moved.connect(self._move)
        self.table.customContextMenuRequested.connect(self._show_menu)
        self.rest.clicked.connect(lambda: self.rest_asked.emit(True))
        self.go_on.clicked.connect(lambda: self.rest_asked.emit(False))
        self.show_schedule(self.table.schedule)

    def add_header_widget(self, widget: QWidget) -> None:
        """Puts a control of the window at the right of the header."""
        self._header.addWidget(widget)

    def show_schedule(self, schedule: Schedule, left: Sequence[WaitingItem] = ()) -> None:
        """Shows what is in the queue, or else tells what an earlier window `left`; what is highlighted stays
        so."""
        self.table.show_schedule(schedule)
        self.summary.set_whole_text(summary_text(schedule))
        self.rest.setVisible(not schedule.rests and bool(schedule.slots))
        self.go_on.setVisible(schedule.rests)
        self._pages.setCurrentWidget(self.table if schedule.slots else self.empty)
        self.empty.tell(*empty_words(left))

    def highlighted(self) -> tuple[QueueItem, ...]:
        """The items of the highlighted rows, top to bottom."""
        return tuple(slot.item for slot in self.table.selected_rows())

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

    def _choose(self, name: str) -> None:
        marked = self.highlighted()
        if name == HOLD.name and marked and all(item.is_held for item in marked):
            name = RELEASE.name
        if marked:
            self.chosen.emit([item.key for item in marked], name)

    def _move(self, by: int) -> None:
        marked, items = self.highlighted(), self.table.schedule.items
        if not marked:
            return
        keys = [item.key for item in marked]
        first, last = items.index(marked[0]), items.index(marked[-1])
        place = first - 1 if by < 0 else last + 2
        before = items[place].key if 0 <= place < len(items) else None
        if place >= 0 and (by < 0 or last + 1 < len(items)):
            self.move_asked.emit(keys, before)

    def _show_menu(self, place: QPoint) -> None:
        index = self.table.indexAt(place)
        if index.isValid():
            menu = self.menu_for(self.table.rows()[index.row()].item)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(self.table.viewport().mapToGlobal(place))
