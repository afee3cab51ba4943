"""Empty states, confirmation dialogs, and popovers."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget

from gui.widgets.boxes import Placed, Stretch, Surface, in_column, in_row
from gui.widgets.buttons import Button
from gui.widgets.labels import label, set_text


def ask(parent: QWidget, text: str, do: str, leave: str) -> bool:
    """Ask a question. Return True if the button `do` was pressed. The safe button `leave` is the default."""
    box = QMessageBox(QMessageBox.Icon.NoIcon, "Ammeter", text, parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    do_button = box.addButton(do, QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(leave, QMessageBox.ButtonRole.RejectRole))
    box.exec()
    box.deleteLater()
    return box.clickedButton() is do_button


def choose(parent: QWidget, text: str, choices: Sequence[str]) -> str | None:
    """Ask the user to choose one of `choices`, the first by default. Return None if cancelled."""
    box = QMessageBox(QMessageBox.Icon.NoIcon, "Ammeter", text, parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    buttons = {box.addButton(choice, QMessageBox.ButtonRole.AcceptRole): choice for choice in choices}
    box.setDefaultButton(next(iter(buttons)))
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.exec()
    box.deleteLater()
    pressed = box.clickedButton()
    return next((choice for button, choice in buttons.items() if button is pressed), None)


LEAVE, STOP = "Leave it training", "Stop it"


def may_leave(parent: QWidget, machine: str, waiting: str) -> str | None:
    """Ask what to do with a run on a remote machine as the window closes: LEAVE, STOP or None.

    `waiting` as for `may_stop`.
    """
    stays = f" Kept in the queue for the next start: {waiting}." if waiting else ""
    text = (
        f"A run is training on {machine}. It can continue after you close this window. Ammeter picks up its "
        f"results the next time it starts.{stays}"
    )
    return choose(parent, text, (LEAVE, STOP))


_STOPPED = {
    "run": ("A run is training", "Its results so far are kept.", "Keep training"),
    "limit": ("A batch-size search is running", "Its trials so far are kept.", "Keep searching"),
    "numerics": ("A numerics study is running", "The finished parts are kept.", "Keep it running"),
    "profile": ("A profile is being recorded", "The finished parts are kept.", "Keep profiling"),
    "sweep": ("A sweep is running", "Its runs are kept, and you can resume it later.", "Keep sweeping"),
    "tune": ("A tuning is running", "You can resume it later.", "Keep tuning"),
}


def may_stop(parent: QWidget, what: str, waiting: str) -> bool:
    """Ask whether to close while a "run" or a job of another kind, such as "limit", is in progress.

    `waiting` describes the jobs that stay in the queue, "" for none.
    """
    doing, kept, leave = _STOPPED[what]
    stays = f" Kept in the queue for the next start: {waiting}." if waiting else ""
    return ask(parent, f"{doing}. Closing stops it. {kept}{stays}", "Stop and close", leave)


def may_delete(parent: QWidget, what: str) -> bool:
    """Ask whether to delete `what`, such as "this limit with its trials"."""
    return ask(parent, f"Delete {what}? This cannot be undone.", "Delete", "Keep")


_LOW, _WIDEST_TEXT = 76, 560
"""The height below which the second sentence is hidden, and its maximum width."""


class EmptyState(QWidget):
    """The text shown where there is nothing yet: two centered sentences and at most one button.

    It has no minimum size. `pressed` is emitted when the button is clicked.
    """

    pressed = Signal()

    def __init__(
        self,
        text: str,
        hint: str = "",
        action: str = "",
        tooltip: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._text, self._hint = label("", "empty", wraps=True), label("", "hint", wraps=True)
        for line in (self._text, self._hint):
            line.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._hint.setMaximumWidth(_WIDEST_TEXT)
        self.button = Button(action, "strip", tooltip, do=self.pressed)
        below, offered = (
            in_row(Stretch(1), Placed(part, stretch), Stretch(1))
            for part, stretch in ((self._hint, 8), (self.button, 0))
        )
        parts = (Stretch(), self._text, below, 4, offered, Stretch())
        in_column(*parts, parent=self, margins=(16, 0, 16, 0), spacing=4)
        self.show_text(text, hint, action, tooltip)

    def show_text(self, text: str, hint: str = "", action: str = "", tooltip: str = "") -> None:
        """Show a statement, a hint on what to do, and a button if `action` names one."""
        set_text(self._text, text)
        set_text(self._hint, hint)
        self.button.set_words(action, tooltip or action or text, name=action or text)
        self.button.setVisible(bool(action))
        self.setAccessibleName(self.words())
        self._fit()

    def words(self) -> str:
        """Both sentences."""
        return f"{self._text.text()} {self._hint.text()}".strip()

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        self._hint.setVisible(bool(self._hint.text()) and self.height() >= _LOW)


class Popover(Surface):
    """A floating panel below a button. Escape, a click elsewhere or a resize of the window closes it.

    `toggled` is emitted when it opens or closes. It is a child of the button's window, not a window of its
    own, so menus and dialogs may open from it.
    """

    toggled = Signal(bool)

    def __init__(self, anchor: QWidget, *, is_right: bool = False) -> None:
        """Place the panel below `anchor`, aligned to its left or right edge."""
        super().__init__("popover", parent=anchor.window())
        self._anchor, self._is_right = anchor, is_right
        self.hide()

    def toggle(self) -> None:
        """Open or close the panel."""
        if self.is_open:
            self.dismiss()
        else:
            self.open()

    @property
    def is_open(self) -> bool:
        """True if the panel is open."""
        return not self.isHidden()

    def open(self) -> None:
        """Open below the anchor, as large as the content needs and the window allows."""
        window = self._anchor.window()
        self.setParent(window)
        below = self._anchor.mapTo(window, QPoint(0, self._anchor.height() + 4))
        left = below.x() + (self._anchor.width() - self.wanted_width() if self._is_right else 0)
        height = min(self.sizeHint().height(), window.height() - below.y() - 8)
        self.setGeometry(max(left, 8), below.y(), self.wanted_width(), height)
        self.raise_()
        self.show()
        self.setFocus(Qt.FocusReason.PopupFocusReason)
        for watched in (QApplication.instance(), window):
            assert watched is not None
            watched.installEventFilter(self)
        self.toggled.emit(True)

    def dismiss(self) -> None:
        """Close the panel and restore the focus."""
        if not self.is_open:
            return
        for watched in (QApplication.instance(), self.window()):
            assert watched is not None
            watched.removeEventFilter(self)
        focused = QApplication.focusWidget()
        has_focus = focused is not None and (focused is self or self.isAncestorOf(focused))
        self.hide()
        if has_focus:
            self._anchor.setFocus(Qt.FocusReason.PopupFocusReason)
        self.toggled.emit(False)

    def wanted_width(self) -> int:
        """Return the width of the anchor, or of the content."""
        return max(self._anchor.width(), self.sizeHint().width())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.window() and event.type() == QEvent.Type.Resize:
            self.dismiss()
        elif isinstance(event, QMouseEvent) and event.type() == QEvent.Type.MouseButtonPress:
            self._leave_for(watched)
        return False

    def _leave_for(self, pressed: QObject) -> None:
        # the anchor toggles it; menus and dialogs that it opened are windows of their own
        if not isinstance(pressed, QWidget) or pressed.window() is not self.window():
            return
        inside = (self, self._anchor)
        if not any(part is pressed or part.isAncestorOf(pressed) for part in inside):
            self.dismiss()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)
