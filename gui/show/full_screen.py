"""Full screen for the place Show, where a pointer that lies still is hidden."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

STILL_MS = 3_000
"""After so long without moving, the pointer is hidden."""

_SHOWS_POINTER = (
    QEvent.Type.MouseMove,
    QEvent.Type.MouseButtonPress,
    QEvent.Type.Wheel,
    # a blank pointer would be blank over the window that came to the front as well
    QEvent.Type.WindowDeactivate,
)


class FullScreen(QObject):
    """Puts `window` in full screen and hides `parts` of it; Escape leaves, as does the desktop's own way.

    `changed` carries whether it is on. A part that something else shows meanwhile (a notice) stays hidden
    until the end.
    """

    changed = Signal(bool)

    def __init__(self, window: QMainWindow, parts: Sequence[QWidget], parent: QObject | None = None) -> None:
        super().__init__(parent or window)
        self._window, self._parts = window, tuple(parts)
        self._to_show: list[QWidget] = []
        self._state_before = Qt.WindowState.WindowNoState
        self._least = window.minimumSize()
        self._is_on = False
        self.pointer = Pointer(self)
        self._escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), window)
        self._escape.activated.connect(self.leave)
        self._escape.setEnabled(False)

    @property
    def is_on(self) -> bool:
        """True if the window is in full screen."""
        return self._is_on

    def toggle(self) -> None:
        """Enters or leaves full screen."""
        if self._is_on:
            self.leave()
        else:
            self.enter()

    def enter(self) -> None:
        """Enters full screen, unless it is on."""
        if self._is_on:
            return
        self._is_on = True
        self._to_show = [part for part in self._parts if not part.isHidden()]
        self._state_before = self._window.windowState()
        for part in self._parts:
            part.hide()
            part.installEventFilter(self)
        # a projector, or a large display scale, may have less than the window's minimum size
        self._least = self._window.minimumSize()
        self._window.setMinimumSize(0, 0)
        self._window.showFullScreen()
        self._window.installEventFilter(self)
        self._escape.setEnabled(True)
        self.pointer.watch(self._window)
        self.changed.emit(True)

    def leave(self) -> None:
        """Restores the window, unless full screen is off."""
        if not self._is_on:
            return
        self._is_on = False
        self._escape.setEnabled(False)
        self._window.removeEventFilter(self)
        self.pointer.stop()
        for part in self._parts:
            part.removeEventFilter(self)
        for part in self._to_show:
            part.show()
        self._window.setMinimumSize(self._least)
        if self._window.isFullScreen():
            self._window.setWindowState(self._state_before & ~Qt.WindowState.WindowFullScreen)
        self.changed.emit(False)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._window:
            if event.type() == QEvent.Type.WindowStateChange and not self._window.isFullScreen():
                self.leave()
        elif event.type() == QEvent.Type.ShowToParent and isinstance(watched, QWidget) and self._is_on:
            if watched not in self._to_show:
                self._to_show.append(watched)
            watched.hide()
        return False


class Pointer(QObject):
    """Hides the mouse pointer while it lies still over a window that is in front."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._is_hidden = False
        self._window: QWidget | None = None
        self._watched: tuple[QObject, ...] = ()
        self.still = QTimer(self)
        self.still.setSingleShot(True)
        self.still.setInterval(STILL_MS)
        self.still.timeout.connect(self._hide)

    def watch(self, window: QWidget) -> None:
        # the window's handle gets every move of the pointer, whichever widget is below it
        handle = window.windowHandle()
        if handle is not None:
            self._window, self._watched = window, (window, handle)
            for target in self._watched:
                target.installEventFilter(self)
            self.still.start()

    def stop(self) -> None:
        self.still.stop()
        self._show()
        for target in self._watched:
            target.removeEventFilter(self)
        self._window, self._watched = None, ()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in _SHOWS_POINTER:
            self._show()
            self.still.start()
        return False

    def _hide(self) -> None:
        is_in_front = self._window is not None and self._window.isActiveWindow()
        if not is_in_front or QApplication.activePopupWidget() is not None:
            # the moves go to another window or a menu, which is not watched
            self.still.start()
        elif not self._is_hidden:
            self._is_hidden = True
            QApplication.setOverrideCursor(Qt.CursorShape.BlankCursor)

    def _show(self) -> None:
        if self._is_hidden:
            self._is_hidden = False
            QApplication.restoreOverrideCursor()
