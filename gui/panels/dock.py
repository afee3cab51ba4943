"""The dock below the workspaces: the runs table or the log, open or folded to its header."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from gui.panels.log import LogPanel
from gui.panels.runs import RunsPanel
from gui.widgets import IconButton, label

OPEN_HEIGHT = 208
LOW_HEIGHT = 148
"""In a low window, where the plots above need the room more."""
CLOSED_HEIGHT = 40
_LOW_WINDOW = 800


class Dock(QFrame):
    """Holds the runs table and the log, one at a time; `opened` says whether it was unfolded or folded."""

    opened = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("surface", "dock")
        self.runs = RunsPanel()
        self.log = LogPanel()
        to_log = IconButton("log", "Show the log", "Show the log of this session (Ctrl+L)")
        to_log.clicked.connect(lambda: self.show_page("log"))
        self.runs.add_header_widget(to_log)
        self.runs.open_changed.connect(self._fold)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.runs)
        self._pages.addWidget(self._log_page())
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self._pages)
        self._fold(True)

    @property
    def page(self) -> str:
        return "log" if self._pages.currentIndex() else "runs"

    def show_page(self, page: str) -> None:
        """Shows "runs" or "log"; the dock is unfolded for the log."""
        self._pages.setCurrentIndex(1 if page == "log" else 0)
        if page == "log":
            self.runs.set_open(True)

    def toggle_log(self) -> None:
        self.show_page("runs" if self.page == "log" else "log")

    def _log_page(self) -> QWidget:
        page = QWidget()
        header = QHBoxLayout()
        header.setContentsMargins(16, 0, 16, 0)
        header.addWidget(label("Log", "panelTitle"))
        header.addStretch(1)
        header.addWidget(self.log.action_row)
        back = IconButton("table", "Show the runs", "Back to the runs (Ctrl+L)")
        back.clicked.connect(lambda: self.show_page("runs"))
        header.addWidget(back)
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(header)
        column.addWidget(self.log, 1)
        return page

    def usual_height(self, window_height: int) -> int:
        """The height it takes by itself, folded or open, in a window of this height."""
        if not self.runs.is_open():
            return CLOSED_HEIGHT
        return OPEN_HEIGHT if window_height >= _LOW_WINDOW else LOW_HEIGHT

    def settle(self) -> None:
        """Takes the height that fits its state, whatever a splitter gave it."""
        self._fold(self.runs.is_open())

    def _fold(self, is_open: bool) -> None:
        self.log.setVisible(is_open)
        if is_open:
            self.setMinimumHeight(LOW_HEIGHT)
            self.setMaximumHeight(16_777_215)
        else:
            self.setFixedHeight(CLOSED_HEIGHT)
        self.opened.emit(is_open)
