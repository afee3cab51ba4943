"""Lanes of pictures: where the blocks stand, what is painted of them, and when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QImage, QPaintEvent, QRegion
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from gui.show.race.lanes import LaneView, PixelGrid, lane_layers, tinted
from gui.theme.theme import DARK, LIGHT, Palette, theme


def flat(value: int, count: int = 4, side: int = 8) -> NDArray[np.uint8]:
    return np.full((count, side, side), value, dtype=np.uint8)


class TestGrid:
    def test_the_design_has_forty_columns_of_five(self) -> None:
        grid = PixelGrid.fitted(200, 1037, 127)
        assert (grid.columns, grid.rows, grid.gap) == (40, 5, 3)
        first, last = grid.rect(0), grid.rect(199)
        assert (first.x(), first.y(), first.width(), first.height()) == (0, 0, 23, 23)
        assert (last.right() + 1, last.bottom() + 1) == (1037, 127)

    @settings(max_examples=60, deadline=None)
    @given(st.integers(1, 500), st.integers(60, 7680), st.integers(20, 900))
    def test_every_block_is_inside_and_none_touches_another(
        self, total: int, width: int, height: int
    ) -> None:
        grid = PixelGrid.fitted(total, width, height)
        rects = list(grid.rects())
        assert len(rects) == total
        together = QRegion()
        for rect in rects:
            assert rect.width() > 0
            assert rect.height() > 0
            assert rect.left() >= 0 and rect.right() < width
            assert rect.top() >= 0 and rect.bottom() < height
            assert not together.intersects(rect)
            together = together.united(rect)

    @pytest.mark.parametrize("first, end", [(0, 1), (3, 5), (0, 200), (7, 23), (4, 6), (198, 200), (9, 9)])
    def test_what_is_covered_holds_these_blocks_and_no_other(self, first: int, end: int) -> None:
        grid = PixelGrid.fitted(200, 1037, 127)
        covered = grid.covered(first, end)
        assert len(covered) <= 3
        for number, rect in enumerate(grid.rects()):
            held = any(one.contains(rect) for one in covered)
            touched = any(one.intersects(rect) for one in covered)
            assert held == touched == (first <= number < end)

    def test_blocks_stay_nearly_square_however_few(self) -> None:
        for total in (1, 2, 7, 41, 157, 500):
            rect = PixelGrid.fitted(total, 1037, 127).rect(0)
            assert 0.6 < rect.width() / rect.height() < 1.55


class TestTint:
    def test_dark_pages_go_from_dim_to_the_full_colour(self) -> None:
        look = DARK.look(Precision.FP16)
        dark, bright = tinted(np.concatenate([flat(0, 1), flat(255, 1)]), DARK, look)
        assert QColor(dark.pixel(3, 3)) == QColor(look.dim)
        assert QColor(bright.pixel(3, 3)) == QColor(look.color)

    def test_light_pages_keep_what_is_bright_brighter(self) -> None:
        look = LIGHT.look(Precision.FP16)
        dark, bright = tinted(np.concatenate([flat(0, 1), flat(255, 1)]), LIGHT, look)
        assert QColor(dark.pixel(3, 3)) == QColor(look.color)
        assert QColor(bright.pixel(3, 3)).lightness() > QColor(look.color).lightness()

    def test_dark_pictures_are_brought_up(self) -> None:
        look = DARK.look(Precision.FP32)
        tiles = flat(20, 1)
        tiles[0, 0, 0] = 255
        (image,) = tinted(tiles, DARK, look)
        plain = QColor(look.dim).lightness() + (
            QColor(look.color).lightness() - QColor(look.dim).lightness()
        ) * (20 / 255)
        assert QColor(image.pixel(4, 4)).lightness() > plain

    @pytest.mark.parametrize("chosen", [DARK, LIGHT], ids=["dark", "light"])
    def test_corners_are_clear_and_tiles_begin_anew(self, qapp: QApplication, chosen: Palette) -> None:
        grid = PixelGrid.fitted(10, 260, 50)
        tiles = np.concatenate([flat(0, 1), flat(255, 1)])
        layers = lane_layers(grid, tiles, chosen, chosen.look(Precision.FP32))
        lit, unlit = layers.lit.toImage(), layers.unlit.toImage()
        at = [grid.rect(number).center() for number in range(4)]
        assert lit.pixelColor(at[0]) == lit.pixelColor(at[2]) != lit.pixelColor(at[1])
        assert lit.pixelColor(at[1]) == lit.pixelColor(at[3])
        assert unlit.pixelColor(at[0]) == QColor(chosen.unlit)
        assert lit.pixelColor(QPoint(0, 0)).alpha() < 128

    def test_without_pictures_blocks_are_plain(self, qapp: QApplication) -> None:
        grid, look = PixelGrid.fitted(10, 260, 50), DARK.look(Precision.BF16)
        for tiles in (None, flat(0, 0)):
            lit = lane_layers(grid, tiles, DARK, look).lit.toImage()
            assert lit.pixelColor(grid.rect(0).center()) == QColor(look.color)

    def test_the_second_lane_of_one_precision_has_rims(self, qapp: QApplication) -> None:
        grid, look = PixelGrid.fitted(10, 520, 100), DARK.look(Precision.FP16)
        full = lane_layers(grid, flat(0), DARK, look, "full").lit.toImage()
        hollow = lane_layers(grid, flat(0), DARK, look, "hollow").lit.toImage()
        edge = QPoint(grid.rect(0).center().x(), grid.rect(0).top())
        assert full.pixelColor(edge) == QColor(look.dim)
        assert hollow.pixelColor(edge) != full.pixelColor(edge)


class Watched(LaneView):
    """Remembers what it was asked to paint."""

    def __init__(self) -> None:
        super().__init__()
        self.painted: list[QRegion] = []

    def paintEvent(self, event: QPaintEvent) -> None:
        self.painted.append(QRegion(event.region()))
        super().paintEvent(event)


@pytest.fixture
def lane(qtbot: QtBot) -> Watched:
    theme().set_mode("dark")
    shown = Watched()
    qtbot.addWidget(shown)
    shown.set_tiles(flat(255))
    shown.set_blocks(200)
    shown.resize(1037, 127)
    shown.show()
    qtbot.waitUntil(lambda: bool(shown.painted))
    return shown


def colors(lane: LaneView, *numbers: int) -> list[QColor]:
    image: QImage = lane.grab().toImage()
    grid = PixelGrid.fitted(lane.blocks, lane.width(), lane.height())
    return [image.pixelColor(grid.rect(number).center()) for number in numbers]


class TestLaneView:
    def test_the_first_blocks_are_lit(self, lane: LaneView) -> None:
        lane.set_lit(12)
        lit, unlit = QColor(DARK.look(Precision.FP32).color), QColor(DARK.unlit)
        assert colors(lane, 0, 11, 12, 199) == [lit, lit, unlit, unlit]
        lane.set_lit(3)
        assert colors(lane, 2, 3) == [lit, unlit]

    def test_only_what_changed_is_painted(self, lane: Watched, qtbot: QtBot) -> None:
        lane.set_lit(10)
        qtbot.waitUntil(lambda: len(lane.painted) > 1)
        lane.painted.clear()
        lane.set_lit(11)
        qtbot.waitUntil(lambda: bool(lane.painted))
        area = lane.painted[0].boundingRect()
        assert (area.width(), area.height()) == (23, 23)

    def test_the_same_count_paints_nothing(self, lane: Watched, qapp: QApplication) -> None:
        lane.set_lit(10)
        qapp.processEvents()
        lane.painted.clear()
        lane.set_lit(10)
        qapp.processEvents()
        assert lane.painted == []

    def test_counts_beyond_the_ends_are_held_there(self, lane: LaneView) -> None:
        lane.set_lit(999)
        assert lane.lit == 200
        lane.set_lit(-1)
        assert lane.lit == 0
        lane.set_lit(150)
        lane.set_blocks(100)
        assert lane.lit == 100

    def test_another_theme_and_another_size_repaint_it_all(self, lane: LaneView) -> None:
        lane.set_lit(200)
        theme().set_mode("light")
        look = LIGHT.look(Precision.FP32)
        assert colors(lane, 0, 199) == [QColor(look.dim)] * 2
        lane.resize(640, 80)
        assert colors(lane, 0, 199) == [QColor(look.dim)] * 2
        lane.set_look(Precision.BF16)
        assert colors(lane, 5) == [QColor(LIGHT.look(Precision.BF16).dim)]
        theme().set_mode("dark")

    def test_a_reader_hears_how_far_it_is(self, lane: LaneView) -> None:
        lane.set_lit(35)
        assert lane.accessibleDescription() == "35 of 200 blocks trained"

    def test_it_paints_with_nothing_to_show_and_with_no_room(self, qtbot: QtBot) -> None:
        lane = LaneView()
        qtbot.addWidget(lane)
        lane.grab()
        lane.set_blocks(200)
        lane.set_lit(100)
        for width, height in ((1, 1), (3, 500), (500, 3)):
            lane.resize(width, height)
            lane.grab()

    def test_what_is_no_thumbnail_is_refused(self, lane: LaneView) -> None:
        with pytest.raises(ValueError, match="Thumbnails"):
            lane.set_tiles(np.zeros((4, 8), dtype=np.uint8))
        with pytest.raises(ValueError, match="Thumbnails"):
            lane.set_tiles(np.zeros((4, 8, 8), dtype=np.float32))  # type: ignore[arg-type]
