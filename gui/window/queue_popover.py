"""The queue and the log, in a panel that opens below the activity chip."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QStackedWidget, QWidget

from gui.runs.queue.panel import QueuePanel
from gui.widgets import IconButton, label
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.popover import Popover
from gui.widgets.shortcuts import keys_of
from gui.window.log import LogPanel

_SIZE = QSize(760, 400)
_EDGE = 1


class QueuePopover(Popover):
    """Shows the queue or the log, one at a time."""

    def __init__(self, anchor: QWidget) -> None:
        super().__init__(anchor, is_right=True)
        self.setAccessibleName("Queue and log")
        self._pages = QStackedWidget(self)
        self.queue, self.log = QueuePanel(self._pages), LogPanel()
        self.queue.add_header_widget(
            self._button("log", "Show the log", f"Messages of this session ({keys_of('log')})", "log")
        )
        self._pages.addWidget(self.queue)
        self._pages.addWidget(self._log_page())
        in_column(self._pages, parent=self, margins=_EDGE)

    @property
    def page(self) -> str:
        """What it shows, "queue" or "log"; empty while it is closed."""
        return self._shown if self.is_open else ""

    @property
    def _shown(self) -> str:
        return "queue" if self._pages.currentWidget() is self.queue else "log"

    def show_page(self, page: str) -> None:
        """Opens with the "queue" or the "log"."""
        self._pages.setCurrentIndex(0 if page == "queue" else 1)
        self.setFocusProxy(self.queue.table if page == "queue" else self.log.view)
        if self.is_open:
            self.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self.open()

    def toggle_page(self, page: str) -> None:
        """Opens with a page, or closes where that is shown."""
        if self.page == page:
            self.dismiss()
        else:
            self.show_page(page)

    def sizeHint(self) -> QSize:
        return QSize(min(_SIZE.width(), self.window().width() - 16), _SIZE.height())

    def _button(self, icon: str, name: str, tooltip: str, page: str) -> IconButton:
        button = IconButton(icon, name, tooltip)
        button.clicked.connect(lambda: self.show_page(page))
        return button

    def _log_page(self) -> QWidget:
        page = QWidget(self._pages)
        header = in_row(label("Log", "panelTitle"), Stretch(1), self.log.action_row, margins=(16, 0, 16, 0))
        header.addWidget(
            self._button("queue", "Show the queue", f"Back to the queue ({keys_of('waiting')})", "queue")
        )
        in_column(header, wide(self.log), parent=page, spacing=0)
        return page
