"""The window below its top bar: a side column, and the page in sight."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QSplitter, QStackedWidget, QWidget

from gui.runs.panel import RunsPanel
from gui.widgets.boxes import in_column, wide
from gui.widgets.notice import Notice
from gui.window.top_bar import SIDE_WIDTH

OPEN_HEIGHT = 208
LOW_HEIGHT = 148
"""In a low window, where the plots above need the room."""
CLOSED_HEIGHT = 40
_LOW_WINDOW = 800


class Dock(QFrame):
    """Holds the runs; `opened` carries whether it was unfolded."""

    opened = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "dock")
        self.runs = RunsPanel(self)
        self.runs.open_changed.connect(self._fold)
        in_column(self.runs, parent=self)
        self._fold(True)

    def usual_height(self, window_height: int) -> int:
        """The default height, folded or open, in a window of this height."""
        if not self.runs.is_open():
            return CLOSED_HEIGHT
        return OPEN_HEIGHT if window_height >= _LOW_WINDOW else LOW_HEIGHT

    def settle(self) -> None:
        """Takes the height limits of its state, folded or open."""
        self._fold(self.runs.is_open())

    def _fold(self, is_open: bool) -> None:
        if is_open:
            self.setMinimumHeight(LOW_HEIGHT)
            self.setMaximumHeight(16_777_215)
        else:
            self.setFixedHeight(CLOSED_HEIGHT)
        self.opened.emit(is_open)


_LEAST_ABOVE = 200


class DockRoom(QSplitter):
    """The dock below a widget that gets the rest of the height; the user can drag the border."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Vertical, parent)
        # the order of Tab is that in which they are made
        self.above = QWidget(self)
        self.above.setMinimumHeight(_LEAST_ABOVE)
        self.dock = Dock(self)
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
        if self._chosen is not None and self.dock.runs.is_open():
            dock = min(self._chosen, max(LOW_HEIGHT, height - _LEAST_ABOVE))
        self.setSizes([max(1, height - dock), dock])

    def window_resized(self, old_height: int, new_height: int) -> None:
        """Adapts the dock's height to a window that became low or high."""
        usual = self.dock.usual_height
        if usual(old_height) != usual(new_height):
            self.settle(new_height)

    def _choose(self, height: int) -> None:
        if self.dock.runs.is_open():
            self._chosen = height

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # the chosen height holds as far as there is room, which is known only here
        if self._chosen is not None:
            self.settle(self.window().height())


_LEAST_SIDE, _WIDEST_SIDE = 316, 440
_CONTROLS = 64
"""Height of the controls at the lower edge of a page without a side column."""


class Body(QSplitter):
    """Shows one page at a time, by its key, with its side column if it has one.

    Panels are made as children of `pages` and `side`: a change of parent would style them again.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._pages: dict[str, tuple[QWidget, QWidget | None]] = {}
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
        """Adds a page, made in `pages` and `side`."""
        self._pages[key] = (page, side)
        self.pages.addWidget(page)
        if side is not None and self.side.indexOf(side) < 0:
            self.side.addWidget(side)

    @property
    def page(self) -> str:
        """The key of the page in sight."""
        return tuple(self._pages)[self.pages.currentIndex()]

    @property
    def place(self) -> str:
        """The place in which it is: "experiment", "results" or "show"."""
        return self.page if self.page in ("results", "show") else "experiment"

    def show_page(self, key: str) -> None:
        """Shows a page. Raises ValueError for an unknown key."""
        if key not in self._pages:
            raise ValueError(f"There is no page '{key}'.")
        page, side = self._pages[key]
        self.pages.setCurrentWidget(page)
        if side is not None:
            self.side.setCurrentWidget(side)
        self.side.setVisible(side is not None)
        self.notice.keep_free(_CONTROLS if side is None else 0)
        self.dock.setVisible(key == "results")


def stack(holder: QWidget, above: QWidget, below: QWidget) -> None:
    """Lays out `holder` with `below` in all the room that `above` leaves."""
    in_column(above, wide(below), parent=holder, spacing=0)
