"""A lane of the race: the pictures that were trained, lit block by block in the precision's colour.

Blocks stand in whole device pixels; a lane is two prepared pictures, lit and unlit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import cycle

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPixmap, QRegion

from engine.drawing.blocks import ROUND, Blocks, Grid, grid_for
from engine.drawing.shapes import colour
from engine.protocol.pictures import shades
from resources.looks import Palette


class PixelGrid(Grid):
    """The engine's grid in device pixels: edges are whole, so that no block is blurred."""

    @classmethod
    def fitted(cls, count: int, width: int, height: int) -> PixelGrid:
        return cls(**vars(grid_for(max(count, 1), max(width, 1), max(height, 1), whole_gaps=True)))

    def rect(self, index: int) -> QRect:
        """The block number `index`, from 0."""
        column, row = divmod(index, self.rows)
        return self.span(column, column + 1, row, row + 1)

    def rects(self) -> Iterator[QRect]:
        return map(self.rect, range(self.count))

    def span(self, left: int, right: int, top: int, bottom: int) -> QRect:
        """From column `left` to before `right` and from row `top` to before `bottom`, with the gaps."""
        x, y = self._x(left), self._y(top)
        gap = round(self.gap)
        return QRect(x, y, self._x(right) - gap - x, self._y(bottom) - gap - y)

    def covered(self, first: int, end: int) -> list[QRect]:
        """The blocks from `first` to before `end` as at most three rectangles that hold no others."""
        rects, rows = [], self.rows
        while first < end:
            column, row = divmod(first, rows)
            if row == 0 and end - first >= rows:
                last = end // rows
                rects.append(self.span(column, last, 0, rows))
                first = last * rows
            else:
                count = min(end - first, rows - row)
                rects.append(self.span(column, column + 1, row, row + count))
                first += count
        return rects

    def _x(self, column: int) -> int:
        return round(column * self.across)

    def _y(self, row: int) -> int:
        return round(row * self.down)


_FORMAT = QImage.Format.Format_ARGB32_Premultiplied


class PaintedLane:
    """A lane's blocks in device pixels, painted once unlit and once lit; transparent between the blocks.

    Any number of lit blocks is then a copy of parts of the two.
    """

    def __init__(self, blocks: Blocks, palette: Palette, ratio: float = 1.0) -> None:
        self.ratio, self.corner = ratio, QPoint(round(blocks.x * ratio), round(blocks.y * ratio))
        width, height = (round(ratio * side) for side in (blocks.grid.width, blocks.grid.height))
        self.grid = PixelGrid.fitted(blocks.grid.count, width, height)
        unlit, color = _blocks(self.grid, palette.unlit), colour(palette, blocks.ink)
        lit = _recolored(unlit, color)
        if len(blocks.tiles):
            ends = (colour(palette, f"{blocks.ink}-{end}") for end in ("low", "high"))
            _paint_tiles(lit, self.grid, tinted(blocks.tiles, shades(*ends)))
        if blocks.fill != "full":
            _paint_rims(lit, self.grid, color)
        self._unlit, self._lit = QPixmap.fromImage(unlit), QPixmap.fromImage(lit)

    def paint_unlit(self, painter: QPainter) -> None:
        """Paints all blocks, unlit."""
        painter.drawPixmap(QPointF(self.corner) / self.ratio, self._unlit, QRectF(self._unlit.rect()))

    def paint_lit(self, painter: QPainter, count: int, region: QRegion) -> None:
        """Paints the first `count` blocks, lit, as far as they are in the region."""
        for rect in self.grid.covered(0, count):
            if region.intersects(self._on_widget(rect).toAlignedRect()):
                painter.drawPixmap(self._on_widget(rect).topLeft(), self._lit, QRectF(rect))

    def changed(self, before: int, now: int) -> Iterator[QRect]:
        """Where the widget differs once `now` blocks are lit instead of `before`."""
        for rect in self.grid.covered(*sorted((before, now))):
            yield self._on_widget(rect).toAlignedRect()

    def _on_widget(self, rect: QRect) -> QRectF:
        place, ratio = QRectF(rect.translated(self.corner)), self.ratio
        return QRectF(place.topLeft() / ratio, place.size() / ratio)


def tinted(tiles: NDArray[np.uint8], table: NDArray[np.uint8]) -> list[QImage]:
    """The grey pictures in the colours of a table of 256."""
    colors = [0xFF000000 | red << 16 | green << 8 | blue for red, green, blue in table.tolist()]
    images = []
    for tile in np.ascontiguousarray(tiles):
        side = tile.shape[1]
        grey = QImage(tile.data, side, tile.shape[0], side, QImage.Format.Format_Indexed8)
        grey.setColorTable(colors)
        # the copy outlives the array
        images.append(grey.convertToFormat(QImage.Format.Format_RGB32))
    return images


def _blocks(grid: PixelGrid, color: str) -> QImage:
    layer = QImage(max(math.ceil(grid.width), 1), max(math.ceil(grid.height), 1), _FORMAT)
    layer.fill(Qt.GlobalColor.transparent)
    painter = QPainter(layer)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(color))
    for rect in grid.rects():
        radius = ROUND * min(rect.width(), rect.height())
        painter.drawRoundedRect(QRectF(rect), radius, radius)
    painter.end()
    return layer


def _recolored(layer: QImage, color: str) -> QImage:
    """The same shapes in another colour."""
    copied = layer.copy()
    painter = QPainter(copied)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceIn)
    painter.fillRect(copied.rect(), QColor(color))
    painter.end()
    return copied


def _paint_tiles(lit: QImage, grid: PixelGrid, images: list[QImage]) -> None:
    painter = QPainter(lit)
    # only on the rounded blocks
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceAtop)
    scaled: dict[tuple[int, int, int], QImage] = {}
    for rect, number in zip(grid.rects(), cycle(range(len(images))), strict=False):
        key = (number, rect.width(), rect.height())
        if key not in scaled:
            scaled[key] = _covering(images[number], rect)
        painter.drawImage(rect.topLeft(), scaled[key])
    painter.end()


def _covering(image: QImage, rect: QRect) -> QImage:
    """The picture scaled to cover the block; its middle where the block is not square."""
    shape = Qt.AspectRatioMode.KeepAspectRatioByExpanding
    large = image.scaled(rect.size(), shape, Qt.TransformationMode.SmoothTransformation)
    left, top = (large.width() - rect.width()) // 2, (large.height() - rect.height()) // 2
    return large.copy(left, top, rect.width(), rect.height())


def _paint_rims(lit: QImage, grid: PixelGrid, color: str) -> None:
    painter = QPainter(lit)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for rect in grid.rects():
        side = min(rect.width(), rect.height())
        width = max(side / 12, 1.0)
        painter.setPen(QPen(QColor(color), width))
        inner = QRectF(rect).adjusted(width / 2, width / 2, -width / 2, -width / 2)
        painter.drawRoundedRect(inner, ROUND * side, ROUND * side)
    painter.end()
