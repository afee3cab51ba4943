"""Rows of blocks with dataset images in the window: which of them are lit may change at every frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from PySide6.QtCore import QPointF, QRect, QRectF
from PySide6.QtGui import QImage, QPainter, QPixmap

from engine.drawing.blocks import BlockGrid
from gui.theme.theme import theme


def paint_blocks(painter: QPainter, blocks: BlockGrid) -> None:
    """Paint the blocks in the theme's colors, at the painter's scale, on whole pixels of the screen.

    If a fraction of a block is lit, it is filled from below.
    """
    pixels = painter.device().devicePixelRatioF()
    world = painter.worldTransform()
    scale = world.m11() * pixels
    corner = (world.map(QPointF(blocks.x, blocks.y)) * pixels).toPoint()
    at_corner = replace(blocks, x=0.0, y=0.0, lit=0.0)
    unlit = _pixmap(at_corner, theme().palette.name, scale)
    painter.save()
    painter.resetTransform()
    painter.drawPixmap(_on_widget(unlit.rect().translated(corner), pixels), unlit, QRectF(unlit.rect()))
    if blocks.lit > 0:
        lit = _pixmap(replace(at_corner, lit=float(blocks.count)), theme().palette.name, scale)
        for rect in _lit_rects(replace(at_corner, lit=min(blocks.lit, blocks.count)), scale):
            painter.drawPixmap(_on_widget(rect.translated(corner), pixels), lit, QRectF(rect))
    painter.restore()


def _on_widget(rect: QRect, pixels: float) -> QRectF:
    return QRectF(QPointF(rect.topLeft()) / pixels, rect.toRectF().size() / pixels)


def _lit_rects(blocks: BlockGrid, scale: float) -> Iterator[QRect]:
    # whole columns, the blocks of the last one, and the part of the newest
    whole, rows = int(blocks.lit), blocks.rows

    def rect(number: int) -> QRect:
        return QRect(*blocks.rect(number, scale))

    full = whole - whole % rows
    if full:
        yield rect(0).united(rect(full - 1))
    if whole > full:
        yield rect(full).united(rect(whole - 1))
    if whole < blocks.count and blocks.lit > whole:
        newest = rect(whole)
        newest.setTop(newest.bottom() + 1 - round((blocks.lit - whole) * newest.height()))
        if not newest.isEmpty():
            yield newest


@lru_cache(maxsize=40)
def _pixmap(blocks: BlockGrid, palette_name: str, scale: float) -> QPixmap:
    from engine.drawing.bitmap import blocks_bitmap  # the window's start does without Pillow

    # painted once for a size and theme: a frame then only copies parts of it
    image = blocks_bitmap(blocks, theme().palette, scale)
    width, height = image.size
    # Qt copies the bytes
    shown = QImage(image.tobytes(), width, height, 4 * width, QImage.Format.Format_RGBA8888_Premultiplied)
    return QPixmap.fromImage(shown)
