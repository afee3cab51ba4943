"""The window below its top bar: the form at the left where a page has it, and the page in sight."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QStackedWidget, QWidget

from gui.widgets.boxes import in_column, wide
from gui.widgets.notice import Notice
from gui.window.top_bar import SIDE_WIDTH

_LEAST_SIDE, _WIDEST_SIDE = 304, 440
_CONTROLS = 64
"""Height of the controls at the lower edge of Show."""


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
        self.pages = QStackedWidget(self)
        self.setChildrenCollapsible(False)
        self.addWidget(self.side)
        self.addWidget(self.pages)
        self.setStretchFactor(1, 1)
        self.setSizes([SIDE_WIDTH, 1120])
        self.notice = Notice(self.pages)

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
        self.notice.keep_free(_CONTROLS if key == "show" else 0)


def stack(holder: QWidget, above: QWidget, below: QWidget) -> None:
    """Lays out `holder` with `below` in all the room that `above` leaves."""
    in_column(above, wide(below), parent=holder, spacing=0)
