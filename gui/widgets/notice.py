"""Messages that float over a page, with buttons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QDesktopServices,
    QHideEvent,
    QKeySequence,
    QShortcut,
    QShowEvent,
)
from PySide6.QtWidgets import QApplication, QWidget

from gui.widgets.boxes import Placed, Surface, in_column, in_row, wide
from gui.widgets.buttons import Button, IconButton
from gui.widgets.labels import ElidedLabel, label

_WIDEST, _MARGIN, _GAP = 440, 16, 8
_MOST = 3
_LEAST_MS, _LETTER_MS, _TO_DO_MS = 5_000, 60, 8_000
"""Reading time of a message: its minimum, per letter, and in addition where it has buttons."""

Do = Callable[[], object]


class NoticeMessage(Surface):
    """One message of a `Notice`. `answered` carries the function of the button that was clicked.

    It carries None if the message was closed or timed out. A message that `asks` waits for an answer. One
    that `stands` remains until it is withdrawn.
    """

    answered = Signal(object)

    def __init__(
        self,
        text: str,
        remedy: str,
        offers: tuple[tuple[str, Do], ...],
        path: Path | None,
        *,
        asks: bool,
        stands: bool,
    ) -> None:
        super().__init__("popover", f"{text} {remedy}".strip())
        self.text, self.remedy, self.path = text, remedy, path
        self.offers = tuple(name for name, _ in offers)
        self.asks, self.stands = asks, stands
        buttons = in_row(margins=(0, 4, 0, 0), spacing=8)
        for name, do in offers:
            button = Button(name, "strip", name)
            button.clicked.connect(lambda _=False, do=do: self.answered.emit(do))
            buttons.addWidget(button)
        buttons.addStretch(1)
        close = IconButton("cross", "Close this message", "Close this message (Escape)")
        close.clicked.connect(lambda: self.answered.emit(None))
        head = in_row(
            wide(label(text, "strong", wraps=True)), Placed(close, 0, Qt.AlignmentFlag.AlignTop), spacing=8
        )
        column = in_column(head, parent=self, margins=(16, 10, 10, 12), spacing=6)
        if remedy:
            column.addWidget(label(remedy, "body", wraps=True))
        if path is not None:
            column.addWidget(ElidedLabel(str(path), "hint", mode=Qt.TextElideMode.ElideMiddle))
        if offers:
            column.addLayout(buttons)
        reading_ms = _LEAST_MS + _LETTER_MS * len(text + remedy) + (_TO_DO_MS if offers else 0)
        self.timer = QTimer(self, interval=reading_ms)
        self.timer.timeout.connect(self._end)

    def _end(self) -> None:
        focused = QApplication.focusWidget()
        is_read = self.underMouse() or (focused is not None and self.isAncestorOf(focused))
        if self.window().isActiveWindow() and not is_read:
            self.answered.emit(None)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not (self.asks or self.stands):
            self.timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.timer.stop()


class Notice(QWidget):
    """The pop-up messages in the lower right corner of the window, newest at the bottom.

    A new message replaces the earlier ones, except those that ask a question or stay until withdrawn.
    `dismissed` is emitted after a message was answered or closed, or has timed out.
    """

    dismissed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._messages: list[NoticeMessage] = []
        self._below = 0
        self._column = in_column(parent=self, spacing=_GAP)
        self._escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        self._escape.activated.connect(self._close_newest)
        self.hide()
        if parent is not None:
            self.float_over(parent)

    def float_over(self, ground: QWidget) -> None:
        """Move to another widget, over which the messages float."""
        self.setParent(ground)
        ground.installEventFilter(self)
        self._place()

    def keep_free(self, below: int) -> None:
        """Keep the lowest `below` pixels of the window free of messages."""
        if below != self._below:
            self._below = below
            self._place()

    def notify(
        self,
        text: str,
        remedy: str = "",
        action: str = "",
        do: Do | None = None,
        *,
        others: Sequence[tuple[str, Do]] = (),
        asks: bool | None = None,
    ) -> NoticeMessage:
        """Show `text`, what to do about it, and a button `action` that calls `do`.

        `others` are more buttons: their names and functions. A message with a button waits for an answer
        unless `asks` is False.
        """
        offers = (*(((action, do),) if do is not None else ()), *others)
        return self._add(text, remedy, offers, None, asks=bool(offers) if asks is None else asks)

    def notify_written(self, text: str, path: Path, remedy: str = "") -> NoticeMessage:
        """Report a written file or folder, and offer to open it or its folder."""
        offers = (("Open", partial(open_path, path)), ("Show in folder", partial(open_path, path.parent)))
        return self._add(text, remedy, offers, path)

    def stand(self, text: str, remedy: str = "", action: str = "", do: Do | None = None) -> NoticeMessage:
        """Show a lasting condition, such as that nothing can be saved, until it is withdrawn."""
        return self._add(text, remedy, ((action, do),) if do is not None else (), None, stands=True)

    def withdraw(self, message: NoticeMessage | None) -> None:
        """Remove a message that `notify` or `stand` returned, if it is still there."""
        if message in self._messages:
            self._remove(message)

    def drop(self) -> None:
        """Remove all messages, except questions and messages that remain until withdrawn."""
        for message in self.messages():
            if not (message.asks or message.stands):
                self._remove(message)

    def text(self) -> str:
        """Return the text of the newest message that times out, or "" without one."""
        return self._newest.text if self._newest is not None else ""

    def offers(self) -> tuple[str, ...]:
        """Return the buttons of the newest message."""
        return self._newest.offers if self._newest is not None else ()

    def messages(self) -> tuple[NoticeMessage, ...]:
        """Return all messages, from top to bottom."""
        return tuple(self._messages)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self._place()
        return False

    @property
    def _newest(self) -> NoticeMessage | None:
        return next((message for message in reversed(self._messages) if not message.stands), None)

    def _add(
        self,
        text: str,
        remedy: str,
        offers: tuple[tuple[str, Do], ...],
        path: Path | None,
        *,
        asks: bool = False,
        stands: bool = False,
    ) -> NoticeMessage:
        self.drop()
        for other in self.messages():
            if other.text == text:
                self._remove(other)
        message = NoticeMessage(text, remedy, offers, path, asks=asks, stands=stands)
        message.answered.connect(partial(self._dismiss, message))
        self._messages.insert(0 if stands else len(self._messages), message)
        passing = [other for other in self._messages if not other.stands]
        if len(passing) > _MOST:
            self._remove(passing[0])
        self._column.insertWidget(self._messages.index(message), message)
        self._place()
        self.show()
        announcement = QAccessibleAnnouncementEvent(self, f"{text} {remedy}".strip())
        QAccessible.updateAccessibility(announcement)
        return message

    def _remove(self, message: NoticeMessage) -> None:
        self._messages.remove(message)
        self._column.removeWidget(message)
        message.hide()
        message.setParent(None)
        message.deleteLater()
        self.setVisible(bool(self._messages))
        self._place()

    def _dismiss(self, message: NoticeMessage, do: Do | None = None) -> None:
        if message in self._messages:
            self._remove(message)
            if do is not None:
                do()
            self.dismissed.emit()

    def _close_newest(self) -> None:
        if self._newest is not None:
            self._dismiss(self._newest)

    def _place(self) -> None:
        ground = self.parentWidget()
        self._escape.setEnabled(self._newest is not None)
        if ground is None or not self._messages:
            return
        width = min(_WIDEST, ground.width() - 2 * _MARGIN)
        room = ground.height() - 2 * _MARGIN - self._below
        taken = 0
        for message in reversed(self._messages):
            taken += message.heightForWidth(width) + (_GAP if taken else 0)
            # the oldest give way; the newest is shown however little room there is
            message.setVisible(taken <= room or message is self._messages[-1])
        height = self._column.totalHeightForWidth(width)
        top = ground.height() - _MARGIN - self._below - height
        self.setGeometry(ground.width() - _MARGIN - width, top, width, height)
        self.raise_()


def open_path(path: Path) -> None:
    """Open a file or folder in the program that the desktop has for it."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))
