"""A drawing of a timing whose parts can be hovered, walked through by keys, and clicked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from engine.drawing.shapes import Drawing
from gui.charts.painter import paint
from gui.theme.theme import theme
from gui.widgets.labels import plain_tip

_LEAST_WIDTH = 420
_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Up: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_Down: 1}
_PRESSES = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


class Spot(Protocol):
    """A part of a picture."""

    def holds(self, x: float, y: float) -> bool:
        """Whether the point is in it."""
        ...


S = TypeVar("S", bound=Spot)


class Picture(QWidget, Generic[S]):
    """Paints a drawing as wide as it is. A subclass draws it, and tells what its spots are.

    `chosen` carries the spot that is clicked, or on which Enter is pressed.
    """

    chosen = Signal(object)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._drawing = Drawing(0, 0, ())
        self._spots: Sequence[S] = ()
        self._current: S | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(_LEAST_WIDTH)
        self.setAccessibleName(name)
        theme().changed.connect(self.update)

    def drawn(self, width: float) -> tuple[Drawing, Sequence[S]]:
        """The picture of that width, and its spots, the topmost first."""
        raise NotImplementedError

    def tip(self, spot: S) -> str:
        """What a spot is."""
        raise NotImplementedError

    def outline(self, spot: S) -> QRectF:
        """The frame around a spot."""
        raise NotImplementedError

    def stops(self) -> Sequence[S]:
        """The spots that arrow keys go to, in their order."""
        return self._spots

    def spots(self) -> Sequence[S]:
        """The parts of the picture."""
        return self._spots

    def redraw(self) -> None:
        """Draws it again, for another content or width."""
        self._drawing, self._spots = self.drawn(max(_LEAST_WIDTH, self.width()))
        self._current = None
        self.setAccessibleDescription(self._drawing.description)
        self.setFixedHeight(round(self._drawing.height))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(_LEAST_WIDTH, round(self._drawing.height))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.redraw()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        paint(painter, self._drawing)
        if self._current is not None:
            painter.setPen(QPen(QColor(theme().palette.text), 1))
            painter.drawRect(self.outline(self._current))
        painter.end()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            spot = self._spot_at(QPointF(event.pos()))
            tip = plain_tip(self.tip(spot)) if spot is not None else ""
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        spot = self._spot_at(event.position())
        self.setCursor(Qt.CursorShape.ArrowCursor if spot is None else Qt.CursorShape.PointingHandCursor)
        self._mark(spot)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._mark(None)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        spot = self._spot_at(event.position())
        if spot is not None and event.button() is Qt.MouseButton.LeftButton:
            self.chosen.emit(spot)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step, stops = _STEPS.get(Qt.Key(event.key())), self.stops()
        if step is not None and stops:
            start = stops.index(self._current) if self._current in stops else min(0, -step)
            self._mark(stops[(start + step) % len(stops)])
        elif Qt.Key(event.key()) in _PRESSES and self._current is not None:
            self.chosen.emit(self._current)
        else:
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._mark(None)

    def _spot_at(self, position: QPointF) -> S | None:
        return next((spot for spot in self._spots if spot.holds(position.x(), position.y())), None)

    def _mark(self, spot: S | None) -> None:
        if spot != self._current:
            self._current = spot
            self.setAccessibleDescription(self._drawing.description if spot is None else self.tip(spot))
            self.update()
