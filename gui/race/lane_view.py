"""One lane of the race: blocks of the pictures that were trained, lit one after another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.experiment import Precision
from gui.race.grid import Grid
from gui.race.tinted import LaneLayers, lane_layers
from gui.theme import theme
from resources.looks import MarkFill


class LaneView(QWidget):
    """A grid of blocks fitted to the widget, of which the first `lit` show their pictures.

    The lane is painted once for a size, a theme and a screen; lighting a block repaints that block alone.
    """

    def __init__(self, precision: Precision = Precision.FP32, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._precision, self._fill = precision, _FULL
        self._tiles: NDArray[np.uint8] | None = None
        self._total, self._lit = 0, 0
        self._grid: Grid | None = None
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
        """The lane's colour; `fill` tells two lanes of one precision apart."""
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
        """How many blocks the lane has in all."""
        if total != self._total:
            self._total = max(total, 0)
            self._lit = min(self._lit, self._total)
            self._describe()
            self._repaint_all()

    def set_lit(self, count: int) -> None:
        """Lights the first `count` blocks, and no others."""
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

    def _painted(self) -> tuple[Grid, LaneLayers]:
        ratio, palette = self.devicePixelRatioF(), theme().palette
        wanted = (self._total, int(self.width() * ratio), int(self.height() * ratio), ratio, palette.name)
        if self._grid is None or self._layers is None or wanted != self._layers_of:
            self._grid = Grid.fitted(*wanted[:3])
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
