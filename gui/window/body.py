"""The window below its top bar: a side column, the workspaces, and the dock with runs and log."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QSplitter, QStackedWidget, QWidget

from gui.runs.queue.panel import QueuePanel
from gui.widgets import Button, IconButton, label
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.notice import Notice
from gui.widgets.shortcuts import keys_of
from gui.window.log import LogPanel
from gui.window.top_bar import SIDE_WIDTH

OPEN_HEIGHT = 208
LOW_HEIGHT = 148
"""In a low window, where the plots above need the room."""
CLOSED_HEIGHT = 40
_LOW_WINDOW = 800


_PAGES = ("queue", "log")


class Dock(QFrame):
    """Holds queue and log, one at a time, when it is opened; `opened` carries whether it is."""

    opened = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "dock")
        self._is_open = False
        # made in its place: whatever changes its parent is styled anew with all that is in it
        self._pages = QStackedWidget(self)
        self.queue = QueuePanel(self._pages)
        self._to_queue = Button("", "strip", "", "queue")
        self._to_queue.clicked.connect(lambda: self.show_page("queue"))
        self.set_waiting(0)
        self._fold_button = IconButton("chevron-down", "Close", "Close queue and log")
        self._fold_button.clicked.connect(lambda: self.set_open(not self._is_open))
        to_log = IconButton("log", "Show the log", "Show the log of this session (Ctrl+L)")
        to_log.clicked.connect(lambda: self.show_page("log"))
        self._pages.addWidget(self.queue)
        self._pages.addWidget(self._log_page())
        strip = QWidget()
        strip.setFixedHeight(CLOSED_HEIGHT)
        in_row(self._to_queue, to_log, Stretch(1), self._fold_button, parent=strip, margins=(16, 0, 16, 0))
        in_column(strip, wide(self._pages), parent=self, spacing=0)
        self.set_open(False)

    @property
    def page(self) -> str:
        return _PAGES[self._pages.currentIndex()]

    def is_open(self) -> bool:
        return self._is_open

    def set_open(self, is_open: bool) -> None:
        """Shows the page, or only the line with its buttons."""
        self._is_open = is_open
        self._pages.setVisible(is_open)
        self.log.setVisible(is_open)
        self.queue.set_open(is_open)
        self._fold_button.set_icon("chevron-down" if is_open else "chevron-up")
        if is_open:
            self.setMinimumHeight(LOW_HEIGHT)
            self.setMaximumHeight(16_777_215)
        else:
            self.setFixedHeight(CLOSED_HEIGHT)
        self.opened.emit(is_open)

    def show_page(self, page: str) -> None:
        """Opens "queue" or "log"."""
        self._pages.setCurrentIndex(_PAGES.index(page) if page in _PAGES else 0)
        self.set_open(True)

    def toggle(self, page: str) -> None:
        """Shows a page, or closes it."""
        if self._is_open and self.page == page:
            self.set_open(False)
        else:
            self.show_page(page)

    def set_waiting(self, count: int) -> None:
        """Shows how many wait in the queue."""
        self._to_queue.setText(f"{count:,}" if count else "")
        self._to_queue.setAccessibleName(f"Show the queue, {count:,} waiting" if count else "Show the queue")
        waits = f"{count:,} waiting. " if count else ""
        self._to_queue.setToolTip(f"{waits}Show the queue ({keys_of('waiting')})")

    def _log_page(self) -> QWidget:
        page = QWidget(self._pages)
        self.log = LogPanel()
        header = in_row(label("Log", "panelTitle"), Stretch(1), self.log.action_row, margins=(16, 0, 16, 0))
        in_column(header, wide(self.log), parent=page, spacing=0)
        return page

    def usual_height(self, window_height: int) -> int:
        """The default height, folded or open, in a window of this height."""
        if not self._is_open:
            return CLOSED_HEIGHT
        return OPEN_HEIGHT if window_height >= _LOW_WINDOW else LOW_HEIGHT

    def settle(self) -> None:
        """Takes the height limits of its state, folded or open."""
        self.set_open(self._is_open)


_LEAST_ABOVE = 200


class DockRoom(QSplitter):
    """The dock below a widget that gets the rest of the height; the user can drag the border."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Vertical, parent)
        # the order of Tab is that in which they are made
        self.above = QWidget(self)
        self.above.setMinimumHeight(_LEAST_ABOVE)
        self.dock = Dock(self)
        self._was_open = False
        self._chosen: int | None = None
        self.setChildrenCollapsible(False)
        self.splitterMoved.connect(lambda: self._choose(self.dock.height()))
        self.addWidget(self.above)
        self.addWidget(self.dock)
        self.setStretchFactor(0, 1)

    @property
    def chosen_height(self) -> int | None:
        """The height that the user gave to the open dock; None for the default."""
        return self._chosen

    def restore_height(self, chosen: int | None) -> None:
        """Restores a `chosen_height`. Raises ValueError for an invalid one."""
        if chosen is not None and (type(chosen) is not int or chosen < LOW_HEIGHT):
            raise ValueError(chosen)
        self._chosen = chosen

    def settle(self, window_height: int) -> None:
        """Gives the dock the chosen height, or the default in a window of this height."""
        height, dock = self.height(), self.dock.usual_height(window_height)
        if self._chosen is not None and self.dock.is_open():
            dock = min(self._chosen, max(LOW_HEIGHT, height - _LEAST_ABOVE))
        self.setSizes([max(1, height - dock), dock])

    def window_resized(self, old_height: int, new_height: int) -> None:
        """Adapts the dock's height to a window that became low or high."""
        usual = self.dock.usual_height
        if usual(old_height) != usual(new_height):
            self.settle(new_height)

    def make_room(self, is_training: bool, is_crowded: bool) -> None:
        """Folds the dock if it `is_crowded` above, else brings back the user's choice.

        That is made in Train, and saved when leaving it (`is_training`).
        """
        if is_training:
            self._was_open = self.dock.is_open()
        self.dock.set_open(self._was_open and not is_crowded)

    def is_open(self, is_training: bool) -> bool:
        """Whether the dock is open in Train, the current workspace or not."""
        return self.dock.is_open() if is_training else self._was_open

    def _choose(self, height: int) -> None:
        if self.dock.is_open():
            self._chosen = height

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # the chosen height holds as far as there is room, which is known only here
        if self._chosen is not None:
            self.settle(self.window().height())


_LEAST_SIDE, _WIDEST_SIDE = 316, 440
_CONTROLS = 64
"""Height of the controls at the lower edge of a workspace without a side column."""


class Body(QSplitter):
    """Shows one workspace at a time, by its key, with its side column if it has one.

    Panels are made as children of `pages` and `side`: a change of parent would style them again.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._workspaces: dict[str, tuple[QWidget, QWidget | None]] = {}
        self.side = QStackedWidget(self)
        self.side.setMinimumWidth(_LEAST_SIDE)
        self.side.setMaximumWidth(_WIDEST_SIDE)
        self.middle = DockRoom(self)
        self.dock = self.middle.dock
        self.pages = QStackedWidget(self.middle.above)
        self.setChildrenCollapsible(False)
        self.addWidget(self.side)
        self.addWidget(self.middle)
        self.setStretchFactor(1, 1)
        self.setSizes([SIDE_WIDTH, 1120])

        in_column(self.pages, parent=self.middle.above)
        self.notice = Notice(self.middle.above)

    def add(self, key: str, page: QWidget, side: QWidget | None) -> None:
        """Adds a workspace, made in `pages` and `side`."""
        self._workspaces[key] = (page, side)
        self.pages.addWidget(page)
        if side is not None and self.side.indexOf(side) < 0:
            self.side.addWidget(side)

    @property
    def workspace(self) -> str:
        return tuple(self._workspaces)[self.pages.currentIndex()]

    def show_workspace(self, key: str) -> None:
        """Shows a workspace.

        Raises ValueError for an unknown key.
        """
        if key not in self._workspaces:
            raise ValueError(f"There is no workspace '{key}'.")
        page, side = self._workspaces[key]
        if key != self.workspace:
            self._make_room(key)
        self.pages.setCurrentWidget(page)
        if side is not None:
            self.side.setCurrentWidget(side)
        self.side.setVisible(side is not None)
        self.notice.keep_free(_CONTROLS if key == "show" else 0)
        self.dock.setVisible(side is not None)

    def _make_room(self, key: str) -> None:
        is_low = self.dock.usual_height(self.window().height()) < OPEN_HEIGHT
        is_crowded = {
            "memory": is_low,
            "numerics": is_low,
            "timing": is_low,
            "sweep": is_low,
        }
        self.middle.make_room(self.workspace == "train", is_crowded.get(key, False))


def stack(holder: QWidget, above: QWidget, below: QWidget) -> None:
    """Lays out `holder` with `below` in all the room that `above` leaves."""
    in_column(above, wide(below), parent=holder, spacing=0)
