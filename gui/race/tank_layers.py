"""The pictures of which the tanks are put together: empty, hatched and filled to the brim."""

from __future__ import annotations

import math
from dataclasses import dataclass

from PySide6.QtCore import QLineF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPixmap

from engine.experiment import Precision
from resources.looks import MarkFill, Palette

_RADIUS = 10.0
_PITCH = 8.0


@dataclass(frozen=True)
class TankLayers:
    """One tank of one size in three states; a level is shown by joining two of them."""

    empty: QPixmap
    hatched: QPixmap
    filled: QPixmap


def tank_layers(
    size: QSizeF, scale: float, ratio: float, palette: Palette, precision: Precision, fill: MarkFill
) -> TankLayers:
    """Paints a tank of `size` pixels for a screen of `ratio` device pixels to one."""
    body = QRectF(0.5, 0.5, size.width() - 1, size.height() - 1)
    shape = QPainterPath()
    shape.addRoundedRect(body, _RADIUS * scale, _RADIUS * scale)
    look = palette.look(precision)
    pages = [_page(size, ratio) for _ in range(3)]
    for page, color in zip(pages, (palette.bg2, palette.bg2, look.color), strict=True):
        painter = QPainter(page)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillPath(shape, QColor(color))
        if page is pages[1]:
            _hatch(painter, shape, palette.hatch if palette.is_dark else palette.line2, scale)
        if page is pages[2] and fill != "full":
            # two lanes of one precision: this one is not as solid
            _hatch(painter, shape, look.dim, scale)
        painter.setPen(QPen(QColor(palette.line2), 1))
        painter.drawPath(shape)
        painter.end()
    return TankLayers(*pages)


def _page(size: QSizeF, ratio: float) -> QPixmap:
    page = QPixmap(max(math.ceil(size.width() * ratio), 1), max(math.ceil(size.height() * ratio), 1))
    page.setDevicePixelRatio(ratio)
    page.fill(Qt.GlobalColor.transparent)
    return page


def _hatch(painter: QPainter, shape: QPainterPath, color: str, scale: float) -> None:
    room, pitch = shape.boundingRect(), _PITCH * max(scale, 0.75)
    painter.save()
    painter.setClipPath(shape)
    painter.setPen(QPen(QColor(color), max(scale, 1.0)))
    count = int((room.width() + room.height()) / pitch) + 1
    bottom, reach = room.bottom(), room.height()
    painter.drawLines(
        [
            QLineF(x, bottom, x + reach, bottom - reach)
            for x in (room.left() - reach + number * pitch for number in range(count))
        ]
    )
    painter.restore()
