"""The ring around the control that the keyboard has brought into focus."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractItemView, QAbstractScrollArea, QApplication, QScrollArea, QWidget

from gui.theme import theme

_REACH = 4


class FocusRing(QWidget):
    """One ring for a whole window: 2 px wide, 2 px outside the control, not shown after a mouse click."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._target: QWidget | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hide()
        application = QApplication.instance()
        assert isinstance(application, QApplication)  # a QWidget exists, so there is one
        application.focusChanged.connect(self._follow)

    def target(self) -> QWidget | None:
        """The control that has the ring now."""
        return self._target if self.isVisible() else None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Show):
            self._place()
        elif event.type() in (QEvent.Type.Hide, QEvent.Type.MouseButtonPress):
            self.hide()
        return False

    def _follow(self, old: QWidget | None, now: QWidget | None) -> None:
        if self._target is not None:
            self._target.removeEventFilter(self)
            self._target.destroyed.disconnect(self._forget)
        # a window that has just come to the front gives some widget the focus: nobody asked where it is
        came_to_front = old is None
        self._target = now if now is not None and not came_to_front and self._wants_ring(now) else None
        if self._target is None:
            self.hide()
            return
        self._target.installEventFilter(self)
        self._target.destroyed.connect(self._forget)
        self._place()

    def _forget(self) -> None:
        self._target = None
        self.hide()

    def _wants_ring(self, widget: QWidget) -> bool:
        by_mouse = QGuiApplication.mouseButtons() != Qt.MouseButton.NoButton
        large = isinstance(widget, QAbstractItemView | QScrollArea) or widget.property("surface") == "page"
        return not by_mouse and not large and self._window.isAncestorOf(widget)

    def _place(self) -> None:
        if self._target is None:
            return
        home, rect = self._home(self._target)
        if self.parentWidget() is not home:
            self.setParent(home)
        self.setGeometry(rect)
        self.show()
        self.raise_()

    def _home(self, target: QWidget) -> tuple[QWidget, QRect]:
        # the nearest ancestor with room for the ring, so that it scrolls along and is not clipped
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
        return home, self._rect_in(home, target)

    @staticmethod
    def _rect_in(home: QWidget, target: QWidget) -> QRect:
        corner = target.mapTo(home, QPoint(0, 0))
        return QRect(corner, target.size()).adjusted(-_REACH, -_REACH, _REACH, _REACH)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme().palette.pri), 2))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 8, 8)
        painter.end()
