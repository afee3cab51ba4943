"""Presenting: Show over the whole screen, with nothing of the window around it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

STILL_MS = 3_000
"""For how long the pointer has to lie still before it is hidden."""

_POINTER = (QEvent.Type.MouseMove, QEvent.Type.MouseButtonPress, QEvent.Type.Wheel)


class Presenting(QObject):
    """Takes `window` to the full screen and hides `parts` of it meanwhile; Escape leaves.

    `changed` carries whether it is on. A part that something else shows meanwhile (a notice) stays hidden,
    and is there afterwards.
    """

    changed = Signal(bool)

    def __init__(self, window: QMainWindow, parts: Sequence[QWidget], parent: QObject | None = None) -> None:
        super().__init__(parent or window)
        self._window, self._parts = window, tuple(parts)
        self._to_show: list[QWidget] = []
        self._state_before = Qt.WindowState.WindowNoState
        self._is_on = False
        self.pointer = Pointer(self)
        self._escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), window)
        self._escape.activated.connect(self.leave)
        self._escape.setEnabled(False)

    @property
    def is_on(self) -> bool:
        return self._is_on

    def toggle(self) -> None:
        if self._is_on:
            self.leave()
        else:
            self.enter()

    def enter(self) -> None:
        """Nothing happens where it is on already."""
        if self._is_on:
            return
        self._is_on = True
        self._to_show = [part for part in self._parts if not part.isHidden()]
        self._state_before = self._window.windowState()
        for part in self._parts:
            part.hide()
            part.installEventFilter(self)
        self._window.showFullScreen()
        self._escape.setEnabled(True)
        self.pointer.watch(self._window)
        self.changed.emit(True)

    def leave(self) -> None:
        """The window as it was. Nothing happens where it is off."""
        if not self._is_on:
            return
        self._is_on = False
        self._escape.setEnabled(False)
        self.pointer.stop()
        for part in self._parts:
            part.removeEventFilter(self)
        for part in self._to_show:
            part.show()
        self._window.setWindowState(self._state_before & ~Qt.WindowState.WindowFullScreen)
        self.changed.emit(False)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShowToParent and isinstance(watched, QWidget) and self._is_on:
            if watched not in self._to_show:
                self._to_show.append(watched)
            watched.hide()
        return False


class Pointer(QObject):
    """Hides the mouse pointer over a window while it lies still."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._is_hidden = False
        self._watched: QObject | None = None
        self.still = QTimer(self)
        self.still.setSingleShot(True)
        self.still.setInterval(STILL_MS)
        self.still.timeout.connect(self._hide)

    def watch(self, window: QWidget) -> None:
        # the window's handle sees each move of the pointer, whichever widget is below it
        self._watched = window.windowHandle()
        if self._watched is not None:
            self._watched.installEventFilter(self)
            self.still.start()

    def stop(self) -> None:
        self.still.stop()
        self._show()
        if self._watched is not None:
            self._watched.removeEventFilter(self)
            self._watched = None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in _POINTER:
            self._show()
            self.still.start()
        return False

    def _hide(self) -> None:
        if QApplication.activePopupWidget() is not None:
            # its moves go to the menu's own window, which is not watched
            self.still.start()
        elif not self._is_hidden:
            self._is_hidden = True
            QApplication.setOverrideCursor(Qt.CursorShape.BlankCursor)

    def _show(self) -> None:
        if self._is_hidden:
            self._is_hidden = False
            QApplication.restoreOverrideCursor()
