"""A run's tags as small chips in a cell of the table."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter

from gui.theme import Palette

_HEIGHT, _INNER, _GAP = 18, 6, 4
_LEAST = 24


def draw_chips(painter: QPainter, room: QRect, tags: Sequence[str], face: QFont, palette: Palette) -> None:
    """Draws as many tags as there is room for, and how many more there are; the last may be cut short."""
    metrics = QFontMetrics(face)
    painter.setFont(face)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    left = room.left()
    for place, tag in enumerate(tags):
        later = len(tags) - place - 1
        rest = metrics.horizontalAdvance(f"+{later + 1}")
        reserved = metrics.horizontalAdvance(f"+{later}") + _GAP if later else 0
        free = room.right() + 1 - left - reserved
        if place and free < min(metrics.horizontalAdvance(tag), _LEAST) + 2 * _INNER:
            more = QRect(left, room.top(), rest + _GAP, room.height())
            painter.setPen(QColor(palette.text3))
            painter.drawText(more, Qt.AlignmentFlag.AlignVCenter, f"+{later + 1}")
            return
        # an advance is rounded, and what just fits would be cut short
        width = min(metrics.horizontalAdvance(tag) + 2 * _INNER + 2, free)
        chip = QRect(left, room.center().y() - _HEIGHT // 2 + 1, width, _HEIGHT)
        painter.setPen(QColor(palette.line2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(chip.toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        words = metrics.elidedText(tag, Qt.TextElideMode.ElideRight, width - 2 * _INNER)
        painter.setPen(QColor(palette.text2))
        painter.drawText(chip, Qt.AlignmentFlag.AlignCenter, words)
        left += width + _GAP
