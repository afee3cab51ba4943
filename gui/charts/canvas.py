"""The drawing area of a plot: pyqtgraph draws the curves, and Ammeter the frame around them."""

from __future__ import annotations

from collections.abc import Sequence

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QResizeEvent, QWheelEvent

from gui.charts.frame import Frame, FramePainter, Trace
from gui.theme.theme import theme
from gui.widgets.boxes import scrolled_in

LEFT_AXIS, RIGHT_MARGIN, BOTTOM_AXIS, TOP_MARGIN = 62, 11, 24, 4


class PlotCanvas(pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph ships no types
    """The drawing area of a plot: curves in a frame of axes, with a crosshair.

    `hovered` carries the pointer's x in view coordinates, or None when it leaves. `x_range_chosen` carries
    the range (low, high) that the user dragged or scrolled to. `whole_asked` is emitted on a double click, to
    show the full run.
    """

    hovered = Signal(object)
    x_range_chosen = Signal(object)
    whole_asked = Signal()
    resized = Signal()

    def __init__(self, name: str) -> None:
        super().__init__(enableMenu=False)
        self.frame = Frame()
        self._traces: tuple[Trace, ...] = ()
        self.crosshair: float | None = None
        item = self.getPlotItem()
        for side in ("left", "bottom"):
            item.hideAxis(side)
            # hidden, it would still write its label at every frame
            item.getAxis(side).enableAutoSIPrefix(False)
        item.hideButtons()
        # said to the plot, which would overrule what a curve says for itself
        item.setDownsampling(auto=True, mode="peak")
        item.setClipToView(True)
        item.layout.setContentsMargins(LEFT_AXIS, TOP_MARGIN, RIGHT_MARGIN, BOTTOM_AXIS)
        self._view = item.getViewBox()
        self._view.setMouseEnabled(x=True, y=False)
        self._view.disableAutoRange()
        self._view.setDefaultPadding(0.0)
        self._view.sigRangeChangedManually.connect(self._emit_range)
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setMinimumSize(160, 52)
        # pyqtgraph keeps the background as a picture; ours changes with every frame
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        # the frame is painted beside the items, so a partial update would leave parts of it behind
        self.setViewportUpdateMode(self.ViewportUpdateMode.FullViewportUpdate)
        theme().changed.connect(self._restyle)
        self._restyle()

    def show_frame(self, frame: Frame, traces: Sequence[Trace] = ()) -> None:
        """Show a frame with its ranges, ticks and marks. The view's range is set only if it changed.

        Texts of the frame do not cover `traces`.
        """
        self._traces = tuple(traces)
        x_range, y_range = map(tuple, self._view.viewRange())
        if frame == self.frame and frame.x_range == x_range:
            return
        if frame.x_range != x_range:
            self._view.setXRange(*frame.x_range, padding=0)
        if frame.y_range != y_range:
            self._view.setYRange(*frame.y_range, padding=0)
        self.frame = frame
        self.viewport().update()

    def set_crosshair(self, place: float | None) -> None:
        """Move the crosshair to `place` in the view's x. None hides it."""
        if place != self.crosshair:
            self.crosshair = place
            self.viewport().update()

    def area(self) -> QRectF:
        """Return the rectangle of the curves, in pixels."""
        return QRectF(self._view.sceneBoundingRect())

    def drawBackground(self, painter: QPainter, rect: QRectF) -> None:
        palette = theme().palette
        painter.fillRect(rect, QColor(palette.bg1))
        FramePainter(painter, self.frame, self.area(), palette, self._traces).paint_behind()

    def drawForeground(self, painter: QPainter, rect: QRectF) -> None:
        painted = FramePainter(painter, self.frame, self.area(), theme().palette, self._traces)
        painted.paint_before(self.crosshair)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        self.hovered.emit(self.place_at(event.position()))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        super().mouseDoubleClickEvent(event)
        self.whole_asked.emit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        # on a page that scrolls the wheel is for the page
        page = scrolled_in(self)
        scrolls = page is not None and page.verticalScrollBar().maximum() > 0
        if scrolls and not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            event.ignore()
        else:
            super().wheelEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.hovered.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        low, high = self.frame.x_range
        if steps is not None:
            pixel = (high - low) / max(1.0, self.area().width())
            start = self.crosshair if self.crosshair is not None else (low + high) / 2
            self.hovered.emit(min(max(start + steps * 4 * pixel, low), high))
        elif event.key() == Qt.Key.Key_Escape and self.crosshair is not None:
            self.hovered.emit(None)
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if hasattr(self, "_view"):  # pyqtgraph resizes itself while it is being made
            self.resized.emit()

    def place_at(self, position: QPointF) -> float | None:
        """Return the view's x at a point of the widget, or None outside of the curves' rectangle."""
        area = self.area()
        if not area.contains(position) or area.width() <= 0:
            return None
        low, high = self.frame.x_range
        return float(low + (position.x() - area.left()) / area.width() * (high - low))

    def _emit_range(self) -> None:
        (low, high), _ = self._view.viewRange()
        self.x_range_chosen.emit((float(low), float(high)))

    def _restyle(self) -> None:
        self.setBackground(theme().palette.bg1)
        self.viewport().update()
