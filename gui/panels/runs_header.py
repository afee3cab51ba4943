"""The headings of the runs table, painted from the theme's tokens."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter
from PySide6.QtWidgets import QHeaderView, QWidget

from gui.fonts import font
from gui.icons import draw_icon
from gui.panels.runs_columns import NUMBERS, Column
from gui.theme import theme

_PAD, _ARROW = 8, 12


class RunsHeader(QHeaderView):
    """The arrow of the sorted column stands right beside its word, and figures' headings at the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._font = font(11, 500)
        self.setSectionsClickable(True)
        self.setHighlightSections(False)
        self.setMinimumSectionSize(24)
        self.setAccessibleName("Columns of the runs; press one to sort by it")
        self.setToolTip("Press a heading to sort by it")
        theme().changed.connect(self.viewport().update)

    def paintSection(self, painter: QPainter, rect: QRect, logicalIndex: int) -> None:  # noqa: N803 - Qt's name
        palette, column = theme().palette, Column(logicalIndex)
        is_sorted = self.sortIndicatorSection() == logicalIndex
        painter.fillRect(rect, QColor(palette.bg1))
        painter.setPen(QColor(palette.line))
        painter.drawLine(rect.bottomLeft(), rect.bottomRight())
        words = str(self.model().headerData(logicalIndex, Qt.Orientation.Horizontal))
        inner = rect.adjusted(_PAD, 0, -_PAD, 0)
        painter.setFont(self._font)
        painter.setPen(QColor(palette.text2 if is_sorted else palette.text3))
        side = Qt.AlignmentFlag.AlignRight if column in NUMBERS else Qt.AlignmentFlag.AlignLeft
        painter.drawText(inner, side | Qt.AlignmentFlag.AlignVCenter, words)
        if is_sorted:
            width = QFontMetrics(self._font).horizontalAdvance(words)
            left = inner.right() - width - _ARROW - 2 if column in NUMBERS else inner.left() + width + 3
            self._paint_arrow(painter, QPointF(left, rect.center().y() - _ARROW / 2 + 1), palette.text2)

    def _paint_arrow(self, painter: QPainter, corner: QPointF, ink: str) -> None:
        falling = self.sortIndicatorOrder() is Qt.SortOrder.DescendingOrder
        box = QRectF(corner.x(), corner.y(), _ARROW, _ARROW)
        draw_icon(painter, box, "chevron-down" if falling else "chevron-up", ink)
