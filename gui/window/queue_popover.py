"""The queue and the log, in a panel that opens below the activity chip."""

from __future__ import annotations

from datetime import datetime

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QFont, QGuiApplication, QSyntaxHighlighter, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QStackedWidget, QWidget

from gui.runs.queue_panel import QueuePanel
from gui.theme.fonts import font
from gui.theme.theme import theme
from gui.widgets import IconButton, label
from gui.widgets.actions import with_keys
from gui.widgets.boxes import Stretch, in_column, in_row, wide
from gui.widgets.labels import describe
from gui.widgets.messages import Popover
from gui.widgets.table.result_table import ROW_HEIGHT

_SIZE = QSize(960, 400)
_EDGE, _AROUND_ROWS = 1, 120


class QueuePopover(Popover):
    """The popover below the top bar that shows the queue or the log."""

    def __init__(self, anchor: QWidget) -> None:
        super().__init__(anchor, is_right=True)
        self.setAccessibleName("Queue and log")
        self._pages = QStackedWidget(self)
        self.queue, self.log = QueuePanel(self._pages), LogPanel()
        self.queue.add_header_widget(
            self._button("log", "Show the log", with_keys("Messages of this session", "log"), "log")
        )
        self._pages.addWidget(self.queue)
        self._pages.addWidget(self._log_page())
        in_column(self._pages, parent=self, margins=_EDGE)

    @property
    def page(self) -> str:
        """Return the page in front, "queue" or "log". Empty while the popover is closed."""
        return self._shown if self.is_open else ""

    @property
    def _shown(self) -> str:
        return "queue" if self._pages.currentWidget() is self.queue else "log"

    def show_page(self, page: str) -> None:
        """Open with the "queue" or the "log"."""
        self._pages.setCurrentIndex(0 if page == "queue" else 1)
        self.setFocusProxy(self.queue.table if page == "queue" else self.log.view)
        if self.is_open:
            self.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self.open()

    def toggle_page(self, page: str) -> None:
        """Open with a page, or close if that page is shown."""
        if self.page == page:
            self.dismiss()
        else:
            self.show_page(page)

    def sizeHint(self) -> QSize:
        rows = len(self.queue.table.rows()) if self._shown == "queue" else 0
        # a short queue needs no more room than its rows
        height = min(_SIZE.height(), _AROUND_ROWS + rows * ROW_HEIGHT) if rows else _SIZE.height()
        return QSize(min(_SIZE.width(), self.window().width() - 16), height)

    def _button(self, icon: str, name: str, tooltip: str, page: str) -> IconButton:
        return IconButton(icon, name, tooltip, do=lambda: self.show_page(page))

    def _log_page(self) -> QWidget:
        page = QWidget(self._pages)
        header = in_row(label("Log", "panelTitle"), Stretch(1), self.log.action_row, margins=(16, 0, 16, 0))
        header.addWidget(
            self._button("queue", "Show the queue", with_keys("Back to the queue", "waiting"), "queue")
        )
        in_column(header, wide(self.log), parent=page, spacing=0)
        return page


MOST_LINES = 5_000
_TIME_WIDTH = len("14:02:31")
_LEVEL_WIDTH = len("warning")


class LogPanel(QWidget):
    """The log of this session: lines of time, level, run and message. `action_row` holds its buttons.

    It scrolls to new lines only while its end is in view, so that earlier lines can be read undisturbed.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.view = QPlainTextEdit()
        self.text, self.clear = self.view.toPlainText, self.view.clear
        self.view.setReadOnly(True)
        self.view.setProperty("role", "code")
        self.view.setFont(font(12, mono=True))
        self.view.setMaximumBlockCount(MOST_LINES)
        self.view.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.view.setPlaceholderText("No messages yet. Warnings and messages of the runs appear here.")
        describe(self.view, "Log", "Messages of the runs and the program, newest at the bottom")
        self.view.document().setDocumentMargin(12)
        self._ink = _Ink(self)
        theme().changed.connect(self._ink.refresh)
        self.action_row = self._make_actions()
        in_column(self.action_row, wide(self.view), parent=self, spacing=0)
        self.view.textChanged.connect(self._fit)
        self._fit()

    def append(self, level: str, message: str, run_name: str | None = None) -> None:
        """Add a message. Its lines after the first are indented."""
        bar = self.view.verticalScrollBar()
        at_end = bar.value() >= bar.maximum()
        head = f"{datetime.now():%H:%M:%S}  {level:<{_LEVEL_WIDTH}}  "
        lines = message.rstrip().splitlines() or [""]
        lines[0] = f"{run_name}: {lines[0]}" if run_name else lines[0]
        indent = "\n" + " " * len(head)
        self.view.appendPlainText(head + indent.join(lines))
        if at_end:
            bar.setValue(bar.maximum())

    def copy(self) -> None:
        """Copy the selected text to the clipboard, or the whole log if none is selected."""
        cursor: QTextCursor = self.view.textCursor()
        selected = cursor.selectedText().replace("\u2029", "\n")
        QGuiApplication.clipboard().setText(selected or self.text())

    def set_wrapped(self, wrapped: bool) -> None:
        """Wrap long lines at the panel's edge, or not."""
        modes = QPlainTextEdit.LineWrapMode
        self.view.setLineWrapMode(modes.WidgetWidth if wrapped else modes.NoWrap)
        self._wrap.setChecked(wrapped)

    def _make_actions(self) -> QWidget:
        row = QWidget()
        self._wrap = _button("Wrap", "Wrap long lines at the panel's edge")
        self._wrap.setCheckable(True)
        self._wrap.toggled.connect(self.set_wrapped)
        copy = _button("Copy", "Copy the selected lines, or all of them if none are selected")
        copy.clicked.connect(self.copy)
        clear = _button("Clear", "Clear this view (saved logs of runs are kept)")
        clear.clicked.connect(self.clear)
        self._needing_text = (copy, clear)
        in_row(Stretch(), self._wrap, copy, clear, parent=row, margins=(16, 6, 12, 6), spacing=4)
        return row

    def _fit(self) -> None:
        """Disable the buttons of an empty log."""
        has_text = not self.view.document().isEmpty()
        for button in self._needing_text:
            button.setEnabled(has_text)


class _Ink(QSyntaxHighlighter):
    """The colors of the log: the time is faintest, a warning's level strongest."""

    def __init__(self, panel: LogPanel) -> None:
        super().__init__(panel.view.document())
        self._formats()

    def refresh(self) -> None:
        self._formats()
        self.rehighlight()

    def _formats(self) -> None:
        palette = theme().palette
        self._time, self._quiet, self._loud = QTextCharFormat(), QTextCharFormat(), QTextCharFormat()
        self._time.setForeground(QColor(palette.text3))
        self._quiet.setForeground(QColor(palette.text2))
        self._loud.setForeground(QColor(palette.text))
        self._loud.setFontWeight(QFont.Weight.Bold)

    def highlightBlock(self, text: str) -> None:
        if text[:1].isspace():
            return
        level = text[_TIME_WIDTH + 2 :].split(" ", 1)[0]
        self.setFormat(0, _TIME_WIDTH, self._time)
        self.setFormat(_TIME_WIDTH + 2, _LEVEL_WIDTH, self._quiet if level == "info" else self._loud)


def _button(text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setProperty("kind", "toggle")
    describe(button, f"{text} the log", tip)
    return button
