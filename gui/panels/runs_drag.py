"""What hangs on the mouse while runs are dragged out of the table."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPixmap
from PySide6.QtWidgets import QApplication

from engine.records.record import RunRecord
from gui.fonts import font
from gui.theme import theme

_HEIGHT, _PAD, _WIDEST = 28, 12, 240


def drag_pixmap(runs: Sequence[RunRecord]) -> QPixmap:
    """A chip that names the run, or says how many there are."""
    face, palette = font(12, 600), theme().palette
    metrics = QFontMetrics(face)
    whole = runs[0].name if len(runs) == 1 else f"{len(runs):,} runs"
    words = metrics.elidedText(whole, Qt.TextElideMode.ElideRight, _WIDEST)
    place = QRect(0, 0, metrics.horizontalAdvance(words) + 2 * _PAD, _HEIGHT)
    screen = QApplication.primaryScreen()
    ratio = screen.devicePixelRatio() if screen else 1.0
    picture = QPixmap(round(place.width() * ratio), round(place.height() * ratio))
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QColor(palette.line2))
    painter.setBrush(QColor(palette.bg2))
    painter.drawRoundedRect(place.toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
    painter.setFont(face)
    painter.setPen(QColor(palette.text))
    painter.drawText(place, Qt.AlignmentFlag.AlignCenter, words)
    painter.end()
    return picture
