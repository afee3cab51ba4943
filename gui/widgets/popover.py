"""A panel that opens over the window beside the control that it belongs to."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QFrame, QWidget


class Popover(QFrame):
    """Closes on Escape, on a click elsewhere, and when the window changes its size; `toggled` tells either.

    It is a child of the anchor's window, not a window of its own: menus and dialogs may open from it.
    """

    toggled = Signal(bool)

    def __init__(self, anchor: QWidget, *, is_right: bool = False) -> None:
        """Below `anchor`, at whose left or right edge it begins."""
        super().__init__(anchor.window())
        self._anchor, self._is_right = anchor, is_right
        self.setProperty("surface", "popover")
        self.hide()

    def toggle(self) -> None:
        """Opens or closes it."""
        if self.is_open:
            self.dismiss()
        else:
            self.open()

    @property
    def is_open(self) -> bool:
        """True if it was opened, and not closed since."""
        return not self.isHidden()

    def open(self) -> None:
        """Opens below the anchor, as large as its content asks for and the window allows."""
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
        """Closes it and gives the focus back."""
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
        """As wide as its anchor, or as its content asks for."""
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
