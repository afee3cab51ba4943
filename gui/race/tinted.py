"""Grey thumbnails in a precision's colour, and a whole lane of them, lit and unlit, as two pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QPixmap

from engine.shades import brightened, shades
from gui.race.grid import Grid
from resources.looks import MarkFill, Palette, PrecisionLook

_RADIUS = 3 / 23
_FORMAT = QImage.Format.Format_ARGB32_Premultiplied


@dataclass(frozen=True)
class LaneLayers:
    """One lane as it looks with no block lit and with all lit, of one size; between blocks it is clear."""

    unlit: QPixmap
    lit: QPixmap


def lane_layers(
    grid: Grid,
    tiles: NDArray[np.uint8] | None,
    palette: Palette,
    look: PrecisionLook,
    fill: MarkFill = "full",
) -> LaneLayers:
    """Paints the lane once: showing more or fewer lit blocks is then copying parts of these two.

    `tiles` are (count, side, side) greys and begin anew where there are more blocks; without any, blocks are
    plain. Blocks that are not `full` have a rim, to tell two lanes of one precision apart.
    """
    unlit = _blocks(grid, palette.unlit)
    lit = _recolored(unlit, look.color)
    if tiles is not None and len(tiles):
        _paint_tiles(lit, grid, tinted(tiles, palette, look))
    if fill != "full":
        _paint_rims(lit, grid, look.color)
    return LaneLayers(QPixmap.fromImage(unlit), QPixmap.fromImage(lit))


def tinted(tiles: NDArray[np.uint8], palette: Palette, look: PrecisionLook) -> list[QImage]:
    """The thumbnails between the precision's `dim` and its full colour; what is bright stays brighter.

    On a dark page the full colour is the brighter of the two, on a light page the darker. One gamma for all
    of them brings dark pictures up, so that a lit lane is seen to be lit from far away.
    """
    dark, bright = (look.dim, look.color) if palette.is_dark else (look.color, look.dim)
    table = [0xFF000000 | red << 16 | green << 8 | blue for red, green, blue in shades(dark, bright).tolist()]
    images = []
    for tile in np.ascontiguousarray(brightened(tiles)):
        side = tile.shape[1]
        grey = QImage(tile.data, side, tile.shape[0], side, QImage.Format.Format_Indexed8)
        grey.setColorTable(table)
        # the copy is what outlives the array
        images.append(grey.convertToFormat(QImage.Format.Format_RGB32))
    return images


def _blocks(grid: Grid, color: str) -> QImage:
    layer = QImage(max(math.ceil(grid.width), 1), max(math.ceil(grid.height), 1), _FORMAT)
    layer.fill(Qt.GlobalColor.transparent)
    painter = QPainter(layer)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(color))
    for rect in grid.rects():
        radius = _RADIUS * min(rect.width(), rect.height())
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


def _paint_tiles(lit: QImage, grid: Grid, images: list[QImage]) -> None:
    painter = QPainter(lit)
    # only where the rounded blocks are
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceAtop)
    scaled: dict[tuple[int, int, int], QImage] = {}
    for rect, number in zip(grid.rects(), cycle(range(len(images))), strict=False):
        key = (number, rect.width(), rect.height())
        if key not in scaled:
            scaled[key] = _covering(images[number], rect)
        painter.drawImage(rect.topLeft(), scaled[key])
    painter.end()


def _covering(image: QImage, rect: QRect) -> QImage:
    """The picture scaled to cover the block, its middle where the block is not square."""
    shape = Qt.AspectRatioMode.KeepAspectRatioByExpanding
    large = image.scaled(rect.size(), shape, Qt.TransformationMode.SmoothTransformation)
    left, top = (large.width() - rect.width()) // 2, (large.height() - rect.height()) // 2
    return large.copy(left, top, rect.width(), rect.height())


def _paint_rims(lit: QImage, grid: Grid, color: str) -> None:
    painter = QPainter(lit)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for rect in grid.rects():
        side = min(rect.width(), rect.height())
        width = max(side / 12, 1.0)
        painter.setPen(QPen(QColor(color), width))
        inner = QRectF(rect).adjusted(width / 2, width / 2, -width / 2, -width / 2)
        painter.drawRoundedRect(inner, _RADIUS * side, _RADIUS * side)
    painter.end()
