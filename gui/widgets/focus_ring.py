"""The ring around the control that has keyboard focus."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractItemView, QAbstractScrollArea, QApplication, QScrollArea, QWidget
from shiboken6 import isValid

from gui.theme.theme import theme

_REACH = 4
_BY_KEYBOARD = Qt.WidgetAttribute.WA_KeyboardFocusChange
"""Qt sets it on the window before a focus that comes by Tab, Backtab or a shortcut."""


class FocusRing(QWidget):
    """A frame around the focused widget of a window. It is shown after keyboard input, not after a click."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._target: QWidget | None = None
        self._left: QWidget | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hide()
        application = QApplication.instance()
        assert isinstance(application, QApplication)  # a QWidget exists, so there is one
        application.focusChanged.connect(self._follow)

    def target(self) -> QWidget | None:
        """Return the control inside the ring. None while the ring is hidden."""
        return self._target if self.isVisible() else None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Show):
            self._place()
        elif event.type() in (QEvent.Type.Hide, QEvent.Type.MouseButtonPress):
            self.hide()
        return False

    def _follow(self, old: QWidget | None, now: QWidget | None) -> None:
        # as a window is taken down its popup may give the focus back
        if not isValid(self._window):
            return
        by_keyboard = self._window.testAttribute(_BY_KEYBOARD)
        # left on, Qt would draw its own box inside every focused control
        self._window.setAttribute(_BY_KEYBOARD, False)
        if now is None:
            # another program came to the front: the ring returns with the window
            self._left = self._target
        is_back = old is None and now is not None and now is self._left
        if self._target is not None:
            self._target.removeEventFilter(self)
            self._target.destroyed.disconnect(self._forget)
        self._target = now if now is not None and (by_keyboard or is_back) and self._wants_ring(now) else None
        if self._target is None:
            self.hide()
            return
        self._target.installEventFilter(self)
        self._target.destroyed.connect(self._forget)
        self._place()

    def _forget(self) -> None:
        self._target = self._left = None
        self.hide()

    def _wants_ring(self, widget: QWidget) -> bool:
        page = widget.widget() if isinstance(widget, QScrollArea) else widget
        is_page = page is not None and page.property("surface") == "page"
        return not is_page and widget.window() is self._window

    def _place(self) -> None:
        if self._target is None or not _is_seen(self._target):
            self.hide()
            return
        home, rect = self._home(self._target)
        if self.parentWidget() is not home:
            self.setParent(home)
        self.setGeometry(rect)
        self.show()
        self.raise_()

    def _home(self, target: QWidget) -> tuple[QWidget, QRect]:
        # the nearest ancestor with room for the ring: there it scrolls along and is not clipped
        home = target
        while True:
            parent = home.parentWidget()
            if parent is None or home is self._window:
                break
            home = parent
            rect = self._rect_in(home, target)
            grandparent = home.parentWidget()
            in_viewport = (
                isinstance(grandparent, QWidget)
                and isinstance(grandparent.parentWidget(), QAbstractScrollArea)
                and not isinstance(home, QAbstractScrollArea)
            )
            if home.rect().contains(rect) or in_viewport:
                return home, rect
        # at the window's edge the ring is drawn closer
        return home, self._rect_in(home, target) & home.rect()

    @staticmethod
    def _rect_in(home: QWidget, target: QWidget) -> QRect:
        corner = target.mapTo(home, QPoint(0, 0))
        # a table fills its panel: there is no room around it
        reach = 0 if isinstance(target, QAbstractItemView | QScrollArea) else _REACH
        return QRect(corner, target.size()).adjusted(-reach, -reach, reach, reach)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme().palette.pri), 2))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 8, 8)
        painter.end()


def _is_seen(widget: QWidget) -> bool:
    if not widget.isVisible():
        return False
    rect, inner = widget.rect(), widget
    while (outer := inner.parentWidget()) is not None and not inner.isWindow():
        rect = rect.translated(inner.pos()) & outer.rect()
        inner = outer
    return not rect.isEmpty()


def tab_after(before: QWidget, made: QWidget) -> None:
    """Put the widget `made`, which was created later than the window, after `before` in the tab order."""
    for stop, next_stop in pairwise((*_tab_stops(before)[-1:], *_tab_stops(made))):
        QWidget.setTabOrder(stop, next_stop)


def _tab_stops(widget: QWidget) -> list[QWidget]:
    # not by nextInFocusChain, which makes PySide forget objects that still exist
    inside = (widget, *widget.findChildren(QWidget))
    return [
        stop
        for stop in inside
        if stop.focusPolicy() != Qt.FocusPolicy.NoFocus and stop.window() is widget.window()
    ]
