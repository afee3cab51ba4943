"""Messages that float over a page: what happened, where the file is, and what can be done about it."""

from __future__ import annotations

from collections.abc import Callable
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
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QVBoxLayout, QWidget

from gui.widgets.buttons import Button, IconButton
from gui.widgets.labels import ElidedLabel, label

_WIDEST, _MARGIN, _GAP = 440, 16, 8
_MOST = 3
_LEAST_MS, _LETTER_MS, _TO_DO_MS = 5_000, 60, 8_000
"""For how long a message is read: at least, for each letter, and more where it offers something."""

Do = Callable[[], object]


class Message(QFrame):
    """One message. `answered` when it is through, with what the pressed button does; None: closed, or passed.

    `asks`: it waits for an answer. `stands`: it says what goes on holding, and Escape leaves it alone.
    """

    answered = Signal(object)

    def __init__(
        self, text: str, remedy: str, offers: tuple[tuple[str, Do], ...], path: Path | None, stays: bool
    ) -> None:
        super().__init__()
        self.text, self.remedy, self.path = text, remedy, path
        self.offers = tuple(name for name, _ in offers)
        self.asks = self.stands = False
        self.setProperty("surface", "popover")
        self.setAccessibleName(f"{text} {remedy}".strip())
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 10, 10, 12)
        column.setSpacing(6)
        buttons = QHBoxLayout()
        buttons.setContentsMargins(0, 4, 0, 0)
        buttons.setSpacing(8)
        for name, do in offers:
            button = Button(name, "strip", name)
            button.clicked.connect(lambda _=False, do=do: self.answered.emit(do))
            buttons.addWidget(button)
        buttons.addStretch(1)
        close = IconButton("cross", "Close this message", "Close this message (Escape)")
        close.clicked.connect(lambda: self.answered.emit(None))
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(_wrapped(text, "strong"), 1)
        head.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)
        column.addLayout(head)
        if remedy:
            column.addWidget(_wrapped(remedy, "body"))
        if path is not None:
            column.addWidget(ElidedLabel(str(path), "hint", mode=Qt.TextElideMode.ElideMiddle))
        if offers:
            column.addLayout(buttons)
        self.timer = QTimer(self, interval=_LEAST_MS + _LETTER_MS * len(text + remedy))
        if offers:
            self.timer.setInterval(self.timer.interval() + _TO_DO_MS)
        self._stays = stays
        self.timer.timeout.connect(self._end)

    def _end(self) -> None:
        """Stays for another while where a person is at it, or away from the window."""
        focused = QApplication.focusWidget()
        is_read = self.underMouse() or (focused is not None and self.isAncestorOf(focused))
        if self.window().isActiveWindow() and not is_read:
            self.answered.emit(None)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._stays:
            self.timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.timer.stop()


class Notice(QWidget):
    """The messages of a window, the newest lowest, in the lower right corner of what it floats over.

    Nothing is laid out anew for them. A new one takes the place of the last, unless that waits for an answer
    or goes on holding. `dismissed`, after a person has answered or closed a message, or let it pass.
    """

    dismissed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._messages: list[Message] = []
        self._below = 0
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(_GAP)
        self._escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        self._escape.activated.connect(self._close_newest)
        self.hide()
        if parent is not None:
            self.float_over(parent)

    def float_over(self, ground: QWidget) -> None:
        """Lies over `ground` from now on."""
        self.setParent(ground)
        ground.installEventFilter(self)
        self._place()

    def keep_free(self, below: int) -> None:
        """Leaves so many pixels free at the lower edge, for the controls that stand there."""
        if below != self._below:
            self._below = below
            self._place()

    def tell(
        self,
        text: str,
        remedy: str = "",
        action: str = "",
        do: Do | None = None,
        *,
        other: tuple[str, Do] | None = None,
        asks: bool | None = None,
    ) -> Message:
        """Shows `text`, what to do about it, and a button named `action` that calls `do`.

        `other` is a second button: its name, and what it calls. With a button it waits for an answer, unless
        `asks` says that it need not be given.
        """
        offers = (((action, do),) if do is not None else ()) + ((other,) if other is not None else ())
        return self._add(text, remedy, offers, None, asks=bool(offers) if asks is None else asks)

    def tell_written(self, text: str, path: Path, remedy: str = "") -> Message:
        """Says that a file or folder was written, where it is, and offers to open it or its folder."""
        offers = (("Open", partial(_open, path)), ("Show in folder", partial(_open, path.parent)))
        return self._add(text, remedy, offers, path)

    def stand(self, text: str, remedy: str = "", action: str = "", do: Do | None = None) -> Message:
        """Says what holds until it is taken back, such as that nothing can be saved."""
        return self._add(text, remedy, ((action, do),) if do is not None else (), None, stands=True)

    def take_back(self, message: Message | None) -> None:
        """Takes away a message that `tell` or `stand` gave, if it is still there."""
        if message in self._messages:
            self._remove(message)

    def drop(self) -> None:
        """Takes back what is past; what still asks something, or goes on holding, stays."""
        for message in [one for one in self._messages if not one.asks and not one.stands]:
            self._remove(message)

    def text(self) -> str:
        """What the newest message says; empty where there is none but what goes on holding."""
        return self._newest.text if self._newest is not None else ""

    def offers(self) -> tuple[str, ...]:
        """What the newest message offers to do."""
        return self._newest.offers if self._newest is not None else ()

    def messages(self) -> tuple[Message, ...]:
        """All that there are, from the top."""
        return tuple(self._messages)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self._place()
        return False

    @property
    def _newest(self) -> Message | None:
        return next((one for one in reversed(self._messages) if not one.stands), None)

    def _add(
        self,
        text: str,
        remedy: str,
        offers: tuple[tuple[str, Do], ...],
        path: Path | None,
        *,
        asks: bool = False,
        stands: bool = False,
    ) -> Message:
        self.drop()
        for same in [one for one in self._messages if one.text == text]:
            self._remove(same)
        message = Message(text, remedy, offers, path, asks or stands)
        message.asks, message.stands = asks, stands
        message.answered.connect(partial(self._dismiss, message))
        self._messages.insert(0 if stands else len(self._messages), message)
        passing = [one for one in self._messages if not one.stands]
        if len(passing) > _MOST:
            self._remove(passing[0])
        self._column.insertWidget(self._messages.index(message), message)
        self._place()
        self.show()
        said = QAccessibleAnnouncementEvent(self, f"{text} {remedy}".strip())
        QAccessible.updateAccessibility(said)
        return message

    def _remove(self, message: Message) -> None:
        self._messages.remove(message)
        self._column.removeWidget(message)
        message.hide()
        message.setParent(None)
        message.deleteLater()
        self.setVisible(bool(self._messages))
        self._place()

    def _dismiss(self, message: Message, do: Do | None = None) -> None:
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
            # the oldest give way; the newest is there however little room there is
            message.setVisible(taken <= room or message is self._messages[-1])
        height = self._column.totalHeightForWidth(width)
        top = ground.height() - _MARGIN - self._below - height
        self.setGeometry(ground.width() - _MARGIN - width, top, width, height)
        self.raise_()


def _wrapped(text: str, role: str) -> QWidget:
    words = label(text, role)
    words.setWordWrap(True)
    return words


def _open(path: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))
