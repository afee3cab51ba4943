"""The painted headings of the runs table."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QMouseEvent, QPainter
from PySide6.QtWidgets import QHeaderView, QWidget

from gui.runs.table.columns import RIGHT, Column
from gui.runs.table.delegate import draw_tick
from gui.runs.table.model import RunsModel
from gui.theme.fonts import font
from gui.theme.icons import draw_icon
from gui.theme.theme import theme

_PAD, _ARROW = 8, 12


class RunsHeader(QHeaderView):
    """A box that ticks all, the arrow beside the sorted column's word, and figures' headings at the right.

    Headings can be dragged to another place, and their edges to another width.
    """

    width_chosen = Signal(int, int)  # section, width

    def __init__(self, runs: RunsModel, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._runs = runs
        self._is_pressed = self._is_dragged = False
        self._font = font(11, 500)
        self.setSectionsClickable(True)
        self.setHighlightSections(False)
        self.setMinimumSectionSize(24)
        self.setSectionsMovable(True)
        self.setFirstSectionMovable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setAccessibleName("Columns of the runs; press one to sort by it")
        self.setToolTip("Press a heading to sort by it, drag it to move the column, right-click it for more")
        self.sectionResized.connect(self._note_width)
        theme().changed.connect(self.viewport().update)
        runs.checked_changed.connect(lambda _ids: self.viewport().update())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._is_pressed, self._is_dragged = self._is_over_box(event), True
        # a press on the box ticks, and does not sort
        if not self._is_pressed:
            super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if not self._is_pressed:
            super().mouseReleaseEvent(event)
        elif self._is_over_box(event):
            self._runs.toggle_all()
        self._is_pressed = self._is_dragged = False

    def _note_width(self, section: int, _old: int, width: int) -> None:
        # what the table fits by itself is no choice of the user
        if self._is_dragged and width:
            self.width_chosen.emit(section, width)

    def _is_over_box(self, event: QMouseEvent) -> bool:
        is_left = event.button() == Qt.MouseButton.LeftButton
        return is_left and self.logicalIndexAt(event.position().toPoint()) == Column.TICK

    def paintSection(self, painter: QPainter, rect: QRect, logicalIndex: int) -> None:  # noqa: N803 - Qt's name
        palette, column = theme().palette, Column(logicalIndex)
        is_sorted = self.sortIndicatorSection() == logicalIndex
        painter.fillRect(rect, QColor(palette.bg1))
        painter.setPen(QColor(palette.line))
        painter.drawLine(rect.bottomLeft(), rect.bottomRight())
        if column is Column.TICK:
            painter.save()
            draw_tick(painter, rect, self._runs.ticks(), self._runs.rowCount() > 0, palette)
            painter.restore()
            return
        words = str(self.model().headerData(logicalIndex, Qt.Orientation.Horizontal))
        left = 2 if column in RIGHT else _PAD if rect.left() > 0 else 2 * _PAD
        inner = rect.adjusted(left, 0, -_PAD, 0)
        painter.setFont(self._font)
        painter.setPen(QColor(palette.text2 if is_sorted else palette.text3))
        side = Qt.AlignmentFlag.AlignRight if column in RIGHT else Qt.AlignmentFlag.AlignLeft
        metrics = QFontMetrics(self._font)
        words = metrics.elidedText(words, Qt.TextElideMode.ElideRight, inner.width())
        painter.drawText(inner, side | Qt.AlignmentFlag.AlignVCenter, words)
        if is_sorted:
            width = metrics.horizontalAdvance(words)
            left = inner.right() - width - _ARROW - 2 if column in RIGHT else inner.left() + width + 3
            self._paint_arrow(painter, QPointF(left, rect.center().y() - _ARROW / 2 + 1), palette.text2)

    def _paint_arrow(self, painter: QPainter, corner: QPointF, ink: str) -> None:
        falling = self.sortIndicatorOrder() is Qt.SortOrder.DescendingOrder
        box = QRectF(corner.x(), corner.y(), _ARROW, _ARROW)
        draw_icon(painter, box, "chevron-down" if falling else "chevron-up", ink)
