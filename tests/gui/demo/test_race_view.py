"""The race as the window paints it: lanes of pictures, what is painted again and when, and the number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PySide6.QtCore import QPoint, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent, QRegion
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.drawing.blocks import Blocks, grid_for
from engine.drawing.shapes import Drawing
from engine.experiment.experiment import Precision
from engine.race.parts import laid_out
from engine.race.race import Race
from engine.race.scene import Scene
from engine.race.words import scene_of
from gui.charts.painter import paint
from gui.demo.race_view import METRICS, PaintedLane, RaceView
from gui.theme.theme import DARK, LIGHT, Palette, theme
from resources.looks import MarkFill


def flat(value: int, count: int = 4, side: int = 8) -> NDArray[np.uint8]:
    return np.full((count, side, side), value, dtype=np.uint8)


class TestBlocks:
    @settings(max_examples=60, deadline=None)
    @given(
        st.integers(1, 500), st.integers(60, 2560), st.integers(20, 300), st.sampled_from([0.75, 1.0, 1.5])
    )
    def test_every_block_is_inside_and_none_touches_another(
        self, total: int, width: int, height: int, scale: float
    ) -> None:
        blocks = Blocks(3.4, 5.5, grid_for(total, width, height), 0, "fp32", flat(0))
        rects = [QRect(*blocks.rect(number, scale)) for number in range(total)]
        room = QRect(round(3.4 * scale), round(5.5 * scale), round(width * scale), round(height * scale))
        together = QRegion()
        for rect in rects:
            assert room.adjusted(0, 0, 1, 1).contains(rect) and not together.intersects(rect)
            together = together.united(rect)
        # all are of about one size
        assert max(rect.width() for rect in rects) - min(rect.width() for rect in rects) <= 1

    @pytest.mark.parametrize("first, end", [(0, 1), (3, 5), (0, 200), (7, 23), (4, 6), (198, 200), (9, 9)])
    def test_what_is_covered_holds_these_blocks_and_no_other(
        self, qapp: QApplication, first: int, end: int
    ) -> None:
        painted = PaintedLane(
            Blocks(0.0, 0.0, grid_for(200, 1037, 127), 0, "fp32", flat(0)), "bg0", DARK, 1.5
        )
        covered = list(painted.covered(first, end))
        assert len(covered) <= 3
        for number in range(200):
            rect = QRect(*painted.blocks.rect(number, 1.5))
            held = any(one.contains(rect) for one in covered)
            touched = any(one.intersects(rect) for one in covered)
            assert held == touched == (first <= number < end)

    @pytest.mark.parametrize("total", [1, 2, 7, 41, 157, 500])
    def test_blocks_stay_nearly_square_however_few(self, total: int) -> None:
        grid = grid_for(total, 1037, 127)
        assert 0.6 < grid.block_width / grid.block_height < 1.55


def lane(
    tiles: NDArray[np.uint8], palette: Palette = DARK, ink: str = "fp32", fill: MarkFill = "full"
) -> Any:
    """A painted lane of ten blocks at the left upper corner."""
    return PaintedLane(Blocks(0.0, 0.0, grid_for(10, 260.0, 50.0), 0, ink, tiles, fill), "bg0", palette)


def center(painted: PaintedLane, number: int) -> QPoint:
    return QRect(*painted.blocks.rect(number, 1.0)).center()


def image_of(painted: PaintedLane, lit: int = 10) -> QImage:
    image = QImage(260, 50, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painted.paint_unlit(painter)
    painted.paint_lit(painter, lit, QRectF(image.rect()))
    painter.end()
    return image


@pytest.mark.usefixtures("qapp")
class TestPaintedLane:
    @pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
    def test_it_is_lit_in_the_shades_of_its_precision_and_tiles_begin_anew(self, palette: Palette) -> None:
        painted, look = (
            lane(np.concatenate([flat(0, 1), flat(255, 1)]), palette),
            palette.look(Precision.FP32),
        )
        image = image_of(painted, 4)
        colors = [image.pixelColor(center(painted, number)).name().upper() for number in range(5)]
        # what is bright stays bright on a light page
        dark, bright = (look.dim, look.color) if palette.is_dark else (look.color, look.dim)
        assert colors == [dark, bright, dark, bright, palette.unlit]
        assert image.pixelColor(0, 0) != image.pixelColor(2, 2), "corners are round"

    def test_the_second_lane_of_one_precision_has_rims(self) -> None:
        full, hollow = lane(flat(0)), lane(flat(0), fill="hollow")
        edge = QPoint(center(full, 0).x(), 0)
        dim = QColor(DARK.look(Precision.FP32).dim)
        assert image_of(full).pixelColor(edge) == dim != image_of(hollow).pixelColor(edge)

    def test_what_changes_is_the_blocks_between_two_counts(self) -> None:
        painted = lane(flat(0))
        assert list(painted.changed(3, 3)) == []
        third = [QRect(*painted.blocks.rect(3, 1.0))]
        assert list(painted.changed(3, 4)) == list(painted.changed(4, 3)) == third


class Watched(RaceView):
    """Remembers what it was asked to paint."""

    def __init__(self) -> None:
        super().__init__()
        self.painted: list[QRegion] = []

    def paintEvent(self, event: QPaintEvent) -> None:
        self.painted.append(QRegion(event.region()))
        super().paintEvent(event)


class TestRaceView:
    @pytest.fixture
    def scene(self, usual: Race) -> Scene:
        return scene_of(usual, flat(255))

    @pytest.fixture
    def view(self, scene: Scene, qtbot: QtBot) -> Watched:
        theme().set_mode("dark")
        shown = Watched()
        qtbot.addWidget(shown)
        shown.resize(1440, 784)
        shown.show_scene(scene, scene.at(0.0), "How certain is this?")
        shown.show()
        qtbot.waitUntil(lambda: bool(shown.painted))
        shown.painted.clear()
        return shown

    def test_only_what_changed_is_painted(self, view: Watched, scene: Scene, qapp: QApplication) -> None:
        view.show_instant(scene.at(0.0))
        qapp.processEvents()
        assert view.painted == [], "the same instant paints nothing"
        before = view.instant
        assert before is not None and view.card is not None
        full, mixed = before.counts
        view.show_instant(replace(before, counts=(full, replace(mixed, blocks=1))))
        qapp.processEvents()
        blocks, area = view.card.lanes[1], view.painted[0].boundingRect()
        assert (area.left(), area.top()) == (round(blocks.x), round(blocks.y))
        assert area.width() == pytest.approx(blocks.grid.block_width, abs=2)

    def test_parts_of_it_come_to_the_same_as_the_whole(self, view: Watched, scene: Scene) -> None:
        for part in (0.1, 0.35, 0.2, 1.0):
            view.show_instant(scene.at(scene.seconds * part))
            QApplication.processEvents()
        shown = view.grab().toImage()
        view.show_scene(scene, scene.end, "How certain is this?")
        assert view.grab().toImage() == shown

    def test_another_theme_repaints_it_all(self, view: Watched, scene: Scene) -> None:
        view.show_instant(scene.end)
        assert view.card is not None
        x, y = (round(place) + 8 for place in view.card.lanes[1].corner(0))
        for palette in (DARK, LIGHT):
            theme().set_mode(palette.name)
            image = view.grab().toImage()
            look = palette.look(Precision.FP16)
            bright = look.color if palette.is_dark else look.dim
            assert image.pixelColor(3, 3) == QColor(palette.bg0)
            assert image.pixelColor(x, y) == QColor(bright)
        theme().set_mode("dark")

    def test_it_can_always_be_painted(self, view: Watched, scene: Scene) -> None:
        for size in ((1, 1), (3, 500), (500, 3), (160, 90)):
            view.resize(*size)
            view.show_instant(scene.end)
            view.grab()

    def test_a_press_on_the_number_or_a_key_asks_where_it_comes_from(
        self, view: Watched, scene: Scene, qtbot: QtBot
    ) -> None:
        with qtbot.assertNotEmitted(view.number.clicked):
            qtbot.mouseClick(view.number, Qt.MouseButton.LeftButton)
        view.show_instant(scene.end)
        with qtbot.waitSignal(view.number.clicked):
            qtbot.mouseClick(view.number, Qt.MouseButton.LeftButton)
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            with qtbot.waitSignal(view.number.clicked):
                qtbot.keyClick(view.number, key)


class TestNumber:
    """In the window's fonts."""

    @pytest.mark.parametrize("room_for", ["0.004", "44.4", "0.09", "100", "1,250", "1.19", "1.21", "11.4"])
    def test_no_figure_touches_the_next_nor_is_cut_off(self, qapp: QApplication, room_for: str) -> None:
        for text in {room_for, f"1{room_for[1:]}", room_for.replace("9", "1")}:
            image = QImage(900, 260, QImage.Format.Format_RGB32)
            image.fill(QColor(DARK.bg0))
            painter = QPainter(image)
            number = laid_out(text, room_for, METRICS)
            paint(painter, Drawing(900, 260, number.shapes(1.0, 200.0, 208)))
            painter.end()
            bits = np.frombuffer(image.constBits(), np.uint8).reshape(260, 900, 4)[..., 1] > 60
            columns = np.flatnonzero(bits.any(axis=0))
            # one column of ground between any two outlines, and the sign after the figures
            assert np.count_nonzero(np.diff(columns) > 1) == len(text), text
            assert columns[0] > 0 and (text != room_for or columns[0] <= 3)
            assert columns[-1] <= 1 + 208 * number.width
