"""A lane of the race: the pictures that were trained, lit block by block in the precision's colour.

Blocks stand in whole device pixels; a lane is two prepared pictures, lit and unlit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.drawing.blocks import ROUND, Grid, grid_for
from engine.experiment.experiment import Precision
from engine.protocol.pictures import brightened, shades
from gui.theme.theme import theme
from resources.looks import MarkFill, Palette, PrecisionLook


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


@dataclass(frozen=True)
class LaneLayers:
    """A lane with no block lit and with all lit; transparent between the blocks."""

    unlit: QPixmap
    lit: QPixmap


def lane_layers(
    grid: PixelGrid,
    tiles: NDArray[np.uint8] | None,
    palette: Palette,
    look: PrecisionLook,
    fill: MarkFill = "full",
) -> LaneLayers:
    """Paints the lane once; any number of lit blocks is then a copy of parts of the two.

    `tiles` are (count, side, side) greys, repeated where there are more blocks; without them blocks are
    plain. Blocks that are not `full` have a rim, which distinguishes two lanes of one precision.
    """
    unlit = _blocks(grid, palette.unlit)
    lit = _recolored(unlit, look.color)
    if tiles is not None and len(tiles):
        _paint_tiles(lit, grid, tinted(tiles, palette, look))
    if fill != "full":
        _paint_rims(lit, grid, look.color)
    return LaneLayers(QPixmap.fromImage(unlit), QPixmap.fromImage(lit))


def tinted(tiles: NDArray[np.uint8], palette: Palette, look: PrecisionLook) -> list[QImage]:
    """The thumbnails in shades between the precision's `dim` and its full colour; bright stays bright.

    On a dark page the full colour is the brighter of the two, on a light page the darker. One gamma for all
    brightens dark pictures, so that a lit lane looks lit from far away.
    """
    dark, bright = (look.dim, look.color) if palette.is_dark else (look.color, look.dim)
    table = [0xFF000000 | red << 16 | green << 8 | blue for red, green, blue in shades(dark, bright).tolist()]
    images = []
    for tile in np.ascontiguousarray(brightened(tiles)):
        side = tile.shape[1]
        grey = QImage(tile.data, side, tile.shape[0], side, QImage.Format.Format_Indexed8)
        grey.setColorTable(table)
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


class LaneView(QWidget):
    """A grid of blocks fitted to the widget, of which the first `lit` show their pictures.

    The lane is painted once for a size, theme and screen; lighting a block repaints only that block.
    """

    def __init__(self, precision: Precision = Precision.FP32, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._precision, self._fill = precision, _FULL
        self._tiles: NDArray[np.uint8] | None = None
        self._total, self._lit = 0, 0
        self._grid: PixelGrid | None = None
        self._layers: LaneLayers | None = None
        self._layers_of: tuple[object, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self._describe()
        theme().changed.connect(self.update)

    @property
    def blocks(self) -> int:
        return self._total

    @property
    def lit(self) -> int:
        return self._lit

    def set_look(self, precision: Precision, fill: MarkFill = "full") -> None:
        """Sets the lane's colour; `fill` distinguishes two lanes of one precision."""
        if (precision, fill) != (self._precision, self._fill):
            self._precision, self._fill = precision, fill
            self._repaint_all()

    def set_tiles(self, tiles: NDArray[np.uint8] | None) -> None:
        """Grey pictures (count, side, side) for the blocks, from the first; None for plain blocks.

        Raises ValueError for an array of another shape.
        """
        if tiles is not None and (tiles.ndim != 3 or tiles.dtype != np.uint8 or 0 in tiles.shape[1:]):
            raise ValueError(f"Thumbnails are (count, side, side) bytes, not {tiles.shape} {tiles.dtype}.")
        self._tiles = tiles
        self._repaint_all()

    def set_blocks(self, total: int) -> None:
        """Sets how many blocks the lane has."""
        if total != self._total:
            self._total = max(total, 0)
            self._lit = min(self._lit, self._total)
            self._describe()
            self._repaint_all()

    def set_lit(self, count: int) -> None:
        """Lights the first `count` blocks only."""
        count = min(max(count, 0), self._total)
        if count == self._lit:
            return
        first, end = sorted((count, self._lit))
        self._lit = count
        self._describe()
        if self._grid is None:
            self.update()
            return
        for rect in self._grid.covered(first, end):
            self.update(self._on_screen(rect))

    def sizeHint(self) -> QSize:
        return QSize(1037, 127)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, 24)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._repaint_all()
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._total == 0:
            return
        grid, layers = self._painted()
        painter = QPainter(self)
        ratio = self.devicePixelRatioF()
        for layer, rects in (
            (layers.lit, grid.covered(0, self._lit)),
            (layers.unlit, grid.covered(self._lit, self._total)),
        ):
            for rect in rects:
                painter.drawPixmap(QPointF(rect.topLeft()) / ratio, layer, QRectF(rect))
        painter.end()

    def _painted(self) -> tuple[PixelGrid, LaneLayers]:
        ratio, palette = self.devicePixelRatioF(), theme().palette
        wanted = (self._total, int(self.width() * ratio), int(self.height() * ratio), ratio, palette.name)
        if self._grid is None or self._layers is None or wanted != self._layers_of:
            self._grid = PixelGrid.fitted(*wanted[:3])
            look = palette.look(self._precision)
            self._layers = lane_layers(self._grid, self._tiles, palette, look, self._fill)
            for layer in (self._layers.unlit, self._layers.lit):
                layer.setDevicePixelRatio(ratio)
            self._layers_of = wanted
        return self._grid, self._layers

    def _repaint_all(self) -> None:
        self._grid = self._layers = None
        self.update()

    def _on_screen(self, rect: QRect) -> QRect:
        ratio = self.devicePixelRatioF()
        return QRectF(
            rect.left() / ratio, rect.top() / ratio, rect.width() / ratio, rect.height() / ratio
        ).toAlignedRect()

    def _describe(self) -> None:
        self.setAccessibleDescription(f"{self._lit} of {self._total} blocks trained")


_FULL: MarkFill = "full"
