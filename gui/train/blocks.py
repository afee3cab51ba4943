"""A lane's blocks in the live race: each stands for an equal part of the steps and shows a training image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QImage, QPainter, QPen, QPixmap, QTransform

from engine.drawing.shapes import ink_color
from engine.experiment.experiment import Precision
from gui.theme.theme import theme

COLUMNS = 50
_RADIUS = 3.0
_GAPS = (2.8, 3.0)


@dataclass(frozen=True)
class Place:
    """Where a lane's blocks are, in design pixels: columns of `rows` blocks, filled down, then right."""

    left: float
    top: float
    width: float
    rows: int
    down: float = 30.0

    @property
    def across(self) -> float:
        return self.width / COLUMNS

    @property
    def count(self) -> int:
        return COLUMNS * self.rows

    @property
    def bottom(self) -> float:
        return self.top + self.rows * self.down - _GAPS[1]

    def x(self, fraction: float) -> float:
        """Return the x that a run has reached with that fraction of the samples."""
        return self.left + fraction * self.width

    def rect(self, number: int) -> QRectF:
        """Return the rectangle of a block."""
        column, row = divmod(number, self.rows)
        left, top = self.left + column * self.across + _GAPS[0] / 2, self.top + row * self.down
        return QRectF(left, top, self.across - _GAPS[0], self.down - _GAPS[1])


class BlockLane:
    """Paints a lane's blocks. All lit blocks are painted once, with an image each, and then only copied.

    `tiles` are gray images of shape (count, side, side). `scale` is device pixels per design pixel.
    """

    def __init__(
        self, place: Place, precision: Precision, tiles: NDArray[np.uint8], scale: float, end: float = 1.0
    ) -> None:
        self._place, self._precision, self._scale = place, precision, scale
        self._count = round(min(end, 1.0) * place.count)
        area = self._area = QRectF(place.left, place.top, place.width, place.rows * place.down)
        self._lit = QPixmap(max(1, round(area.width() * scale)), max(1, round(area.height() * scale)))
        self._lit.fill(Qt.GlobalColor.transparent)
        painter = QPainter(self._lit)
        painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.scale(scale, scale)
        painter.translate(-area.topLeft())
        colors = _colors(precision)
        for number in range(self._count):
            painter.setBrush(_textured(tiles[number % len(tiles)], colors, place.rect(number), scale))
            painter.drawRoundedRect(place.rect(number), _RADIUS, _RADIUS)
        painter.end()

    def paint_unlit(self, painter: QPainter, color: str) -> None:
        """Paint all blocks in one color."""
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(color))
        for number in range(self._count):
            painter.drawRoundedRect(self._place.rect(number), _RADIUS, _RADIUS)

    def paint_lit(self, painter: QPainter, fraction: float) -> None:
        """Paint the blocks that are trained, of which the newest fills upward."""
        reached = min(max(fraction, 0.0) * self._place.count, float(self._count))
        whole = int(reached + 1e-6)
        columns, rest = divmod(whole, self._place.rows)
        across, down = self._place.across, self._place.down
        self._copy(painter, QRectF(0, 0, columns * across, self._area.height()))
        self._copy(painter, QRectF(columns * across, 0, across, rest * down))
        if whole < self._count and reached - whole > 0.02:
            palette, block = theme().palette, self._place.rect(whole)
            ink = QColor(palette.look(self._precision).color)
            painter.setPen(QPen(ink, 1))
            painter.setBrush(QColor(palette.bg2))
            painter.drawRoundedRect(block.adjusted(0.5, 0.5, -0.5, -0.5), _RADIUS, _RADIUS)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ink)
            block.setTop(block.bottom() - (reached - whole) * block.height())
            painter.drawRoundedRect(block, _RADIUS, _RADIUS)

    def _copy(self, painter: QPainter, part: QRectF) -> None:
        if not part.isEmpty():
            source = QRectF(part.topLeft() * self._scale, part.size() * self._scale)
            painter.drawPixmap(part.translated(self._area.topLeft()), self._lit, source)


def _colors(precision: Precision) -> list[int]:
    inks = [ink_color(theme().palette, f"{precision.value}-{end}") for end in ("low", "high")]
    ends = [np.array(list(bytes.fromhex(ink[1:])), dtype=np.float64) for ink in inks]
    shades = ends[0] + np.linspace(0.0, 1.0, 256)[:, None] * (ends[1] - ends[0])
    return [QColor(*map(round, shade)).rgb() for shade in shades.tolist()]


def _textured(tile: NDArray[np.uint8], colors: list[int], rect: QRectF, scale: float) -> QBrush:
    side = tile.shape[-1]
    image = QImage(tile.tobytes(), side, side, side, QImage.Format.Format_Indexed8)
    image.setColorTable(colors)
    # as large as its higher side, and cut at both ends of the other
    size = max(rect.width(), rect.height())
    pixels = max(1, round(size * scale))
    smooth = Qt.TransformationMode.SmoothTransformation
    brush = QBrush(
        image.convertToFormat(QImage.Format.Format_RGB32).scaled(
            pixels, pixels, Qt.AspectRatioMode.IgnoreAspectRatio, smooth
        )
    )
    corner = rect.center() - QPointF(size / 2, size / 2)
    brush.setTransform(QTransform.fromTranslate(corner.x(), corner.y()).scale(size / pixels, size / pixels))
    return brush


def text_tiles(count: int, side: int = 32) -> NDArray[np.uint8]:
    """Return gray tiles of lines like text, for data without images. They are the same at each call."""
    generator = np.random.default_rng(1)
    tiles = np.full((count, side, side), 60, np.uint8)
    for tile in tiles:
        for top in range(4, side - 3, 6):
            tile[top : top + 3, 7 : int(generator.integers(side // 2, side - 6))] = 255
    return tiles
