"""Rows of blocks in the window: whole pixels, the precision's shades, and a newest one that fills up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QColor, QImage, QPainter, QRegion
from PySide6.QtWidgets import QApplication

from engine.drawing.blocks import BlockGrid, Tiles
from engine.experiment.experiment import Precision
from gui.charts.blocks import paint_blocks
from gui.theme.theme import DARK, LIGHT, Palette, theme

TILES = Tiles(np.stack([np.full((8, 8), value, np.uint8) for value in (0, 255)]))
BLOCKS = BlockGrid(3.4, 5.5, 10, 2, 18.0, 27.0, 2.8, "fp32", TILES)


@pytest.fixture(autouse=True)
def dark(qapp: QApplication) -> Iterator[None]:
    theme().set_mode("dark")
    yield
    theme().set_mode("dark")


def painted(blocks: BlockGrid, scale: float = 1.0) -> QImage:
    image = QImage(round(230 * scale), round(70 * scale), QImage.Format.Format_RGB32)
    image.fill(QColor(theme().palette.bg0))
    painter = QPainter(image)
    painter.scale(scale, scale)
    paint_blocks(painter, blocks)
    painter.end()
    return image


def middle(blocks: BlockGrid, number: int) -> QPoint:
    x, y = blocks.corner(number)
    return QPoint(round(x + blocks.width / 2), round(y + blocks.height / 2))


@settings(max_examples=60, deadline=None)
@given(st.floats(2, 40), st.floats(2, 40), st.floats(0.5, 4), st.sampled_from([0.75, 1.0, 1.37, 2.0]))
def test_no_block_touches_another_and_all_are_of_about_one_size(
    width: float, height: float, gap: float, scale: float
) -> None:
    blocks = replace(BLOCKS, width=width, height=height, gap=gap)
    rects = [QRect(*blocks.rect(number, scale)) for number in range(blocks.count)]
    together = QRegion()
    for rect in rects:
        assert not together.intersects(rect)
        together = together.united(rect)
    assert max(rect.width() for rect in rects) - min(rect.width() for rect in rects) <= 1


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize("lit", [0, 1, 2, 5, 20])
def test_so_many_are_lit_in_the_shades_of_the_precision(palette: Palette, lit: int) -> None:
    theme().set_mode(palette.name)
    image, look = painted(replace(BLOCKS, lit=lit)), palette.look(Precision.FP32)
    # what is bright stays bright on a light page
    pair = (look.dim, look.color) if palette.is_dark else (look.color, look.dim)
    shown = [image.pixelColor(middle(BLOCKS, number)).name().upper() for number in range(20)]
    assert shown == [pair[number % 2] if number < lit else palette.unlit for number in range(20)]
    # the gap, and a round corner
    corner = QPoint(*(round(edge) for edge in BLOCKS.corner(0)))
    assert image.pixelColor(corner) != image.pixelColor(middle(BLOCKS, 0))
    assert image.pixelColor(corner.x() + 19, 20).name().upper() == palette.bg0


def test_the_newest_fills_from_below() -> None:
    image = painted(replace(BLOCKS, lit=3.5))
    x = middle(BLOCKS, 3).x()
    top = BLOCKS.corner(3)[1]
    above, below = (image.pixelColor(x, round(top + place)).name().upper() for place in (6, 22))
    assert (above, below) == (DARK.unlit, DARK.look(Precision.FP32).color)


def test_the_second_lane_of_one_precision_has_rims() -> None:
    full, hollow = (painted(replace(BLOCKS, lit=20, fill=fill)) for fill in ("full", "hollow"))
    edge = QPoint(middle(BLOCKS, 0).x(), round(BLOCKS.y))
    assert full.pixelColor(edge) == QColor(DARK.look(Precision.FP32).dim) != hollow.pixelColor(edge)


def test_a_scaled_row_is_as_sharp_as_a_plain_one() -> None:
    image = painted(replace(BLOCKS, lit=20), 1.37)
    colors = {image.pixelColor(x, 40).name() for x in range(image.width())}
    # the shade of one row and the ground: nothing is blurred at the edges
    assert len(colors) == 2
