"""A lane of the race in the window: the engine's bitmap of it lit, of which any part is then copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from PySide6.QtCore import QRect, QRectF
from PySide6.QtGui import QImage, QPainter, QPixmap

from engine.drawing.bitmap import Painter
from engine.drawing.blocks import Blocks
from engine.drawing.shapes import Drawing
from resources.looks import Palette


class PaintedLane:
    """A lane's blocks in whole device pixels, painted once unlit and once lit, on the ink `ground`.

    Any number of lit blocks is then a copy of parts of the two.
    """

    def __init__(self, blocks: Blocks, ground: str, palette: Palette, ratio: float = 1.0) -> None:
        self.blocks, self.ratio = blocks, ratio
        self._corner = QRect(*blocks.rect(0, ratio)).topLeft()
        self._unlit, self._lit = (self._painted(lit, ground, palette) for lit in (0, blocks.grid.count))

    def paint_unlit(self, painter: QPainter) -> None:
        """Paints all blocks, unlit."""
        whole = QRectF(self._unlit.rect())
        corner = self._corner.toPointF() / self.ratio
        painter.drawPixmap(QRectF(corner, whole.size() / self.ratio), self._unlit, whole)

    def paint_lit(self, painter: QPainter, count: int, exposed: QRectF) -> None:
        """Paints the first `count` blocks, lit, as far as they are in what is exposed of the widget."""
        within = QRectF(exposed.topLeft() * self.ratio, exposed.size() * self.ratio).toAlignedRect()
        for rect in self.covered(0, count):
            part = rect.intersected(within)
            if not part.isEmpty():
                source = QRectF(part.translated(-self._corner))
                painter.drawPixmap(self._on_widget(part), self._lit, source)

    def changed(self, before: int, now: int) -> Iterator[QRect]:
        """Where the widget differs once `now` blocks are lit instead of `before`."""
        for rect in self.covered(*sorted((before, now))):
            yield self._on_widget(rect).toAlignedRect()

    def covered(self, first: int, end: int) -> Iterator[QRect]:
        """The blocks from `first` to before `end` as at most three rectangles that hold no others."""
        rows = self.blocks.grid.rows
        while first < end:
            row = first % rows
            last = end - end % rows if row == 0 and end - first >= rows else min(end, first + rows - row)
            yield self._rect(first).united(self._rect(last - 1))
            first = last

    def _rect(self, number: int) -> QRect:
        return QRect(*self.blocks.rect(number, self.ratio))

    def _on_widget(self, rect: QRect) -> QRectF:
        return QRectF(rect.toRectF().topLeft() / self.ratio, rect.toRectF().size() / self.ratio)

    def _painted(self, lit: int, ground: str, palette: Palette) -> QPixmap:
        left, top = self._corner.x() / self.ratio, self._corner.y() / self.ratio
        at_corner = replace(self.blocks, x=self.blocks.x - left, y=self.blocks.y - top, lit=lit)
        grid = self.blocks.grid
        drawing = Drawing(max(grid.columns * grid.across, 1.0), max(grid.rows * grid.down, 1.0), ())
        painter = Painter.blank(drawing, ground, palette, self.ratio)
        painter.paint_blocks(at_corner)
        (width, height), pixels = painter.image.size, painter.image.tobytes()
        # converted once, and not at each frame; Qt copies the bytes
        image = QImage(pixels, width, height, 3 * width, QImage.Format.Format_RGB888)
        return QPixmap.fromImage(image.convertToFormat(QImage.Format.Format_RGB32))
