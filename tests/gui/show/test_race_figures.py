"""The huge number and the two tanks: what they show, from the start of a race to its end."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from engine.drawing.looks import precision_look
from engine.experiment.experiment import Precision
from engine.race.tanks import Tank
from gui.show.race.number import NumberView
from gui.show.race.tank import TanksView
from gui.theme.theme import DARK, LIGHT, theme


def ink(widget: QWidget) -> tuple[int, int, int, int]:
    """Left, right, top and bottom of what differs from the ground, in pixels."""
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_Grayscale8)
    bits = np.frombuffer(image.constBits(), dtype=np.uint8).reshape(image.height(), image.bytesPerLine())
    grey = bits[:, : image.width()].astype(int)
    rows, columns = np.nonzero(np.abs(grey - grey[0, -1]) > 60)
    return int(columns.min()), int(columns.max()), int(rows.min()), int(rows.max())


@pytest.fixture
def number(qtbot: QtBot) -> NumberView:
    theme().set_mode("dark")
    shown = NumberView()
    qtbot.addWidget(shown)
    shown.resize(700, 160)
    shown.show()
    return shown


class TestNumber:
    def test_it_is_as_large_as_in_the_design(self, number: NumberView) -> None:
        number.set_text("5.7")
        left, right, top, bottom = ink(number)
        assert left <= 2
        assert right == pytest.approx(377, abs=4)
        assert bottom - top == pytest.approx(151, abs=4)

    @pytest.mark.parametrize("text", ["5.7", "0.004", "1,200", "120", "1.03"])
    @pytest.mark.parametrize("size", [(700, 160), (300, 160), (120, 40), (1800, 400)])
    def test_it_always_fits(self, number: NumberView, text: str, size: tuple[int, int]) -> None:
        number.resize(*size)
        number.set_text(text)
        left, right, top, bottom = ink(number)
        assert left >= 0 and right < size[0] - 1
        assert top >= 0 and bottom < size[1]
        assert bottom - top > 0.15 * size[1]

    def test_the_sign_does_not_move_while_it_counts(self, number: NumberView) -> None:
        number.set_room_for("4.7")
        ends = set()
        for text in ("1.0", "1.1", "2.9", "3.8", "4.7"):
            number.set_text(text)
            ends.add(ink(number)[1])
        assert len(ends) == 1
        assert number.natural_width(160) == pytest.approx(ends.pop(), abs=16)

    def test_it_begins_at_its_left_edge_however_few_figures_it_has_yet(self, number: NumberView) -> None:
        number.set_room_for("1,250")
        for text in ("1", "84", "594", "1,250"):
            number.set_text(text)
            assert ink(number)[0] <= 3, text

    @pytest.mark.parametrize("room_for", [None, "1.19", "1.21", "11.4"])
    def test_no_figure_touches_the_next(self, number: NumberView, room_for: str | None) -> None:
        counted = {"1.19": ("1.00", "1.08"), "1.21": ("1.00", "1.20"), "11.4": ("10.8", "11.4")}
        number.set_room_for(room_for)
        for text in counted.get(room_for or "", ("0.004", "44.4", "0.09", "100", "1,250")):
            number.set_text(text)
            left, right, *_ = ink(number)
            image = number.grab().toImage()
            # one column of ground between any two outlines, so many times as there are gaps
            dark = [
                all(image.pixelColor(x, y).lightness() < 60 for y in range(image.height()))
                for x in range(left, right + 1)
            ]
            gaps = sum(now and not before for before, now in pairwise(dark))
            assert gaps == len(text), text

    @pytest.mark.parametrize("text", list("0123456789"))
    def test_no_figure_is_cut_off_at_the_left_edge(self, number: NumberView, text: str) -> None:
        number.set_text(f"{text}.7")
        alone = number.grab().toImage()
        number.set_room_for("1.7")
        counting = number.grab().toImage()
        at_edge = [
            sum(image.pixelColor(0, y).lightness() > 200 for y in range(160)) for image in (alone, counting)
        ]
        # by itself it begins right at the edge
        assert at_edge[1] <= at_edge[0]

    def test_none_shows_nothing_and_cannot_be_pressed(self, number: NumberView, qtbot: QtBot) -> None:
        empty = number.grab().toImage()
        number.set_text("5.7")
        assert number.grab().toImage() != empty
        number.set_text(None)
        assert number.grab().toImage() == empty
        with qtbot.assertNotEmitted(number.clicked):
            qtbot.mouseClick(number, Qt.MouseButton.LeftButton)

    @pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space])
    def test_a_press_or_a_key_asks_where_it_comes_from(
        self, number: NumberView, qtbot: QtBot, key: Qt.Key
    ) -> None:
        number.set_text("5.7")
        with qtbot.waitSignal(number.clicked):
            qtbot.mouseClick(number, Qt.MouseButton.LeftButton)
        with qtbot.waitSignal(number.clicked):
            qtbot.keyClick(number, key)


def tank(name: str, precision: Precision, peak_mib: float | None) -> Tank:
    return Tank((name,), precision_look(precision), peak_mib)


def fill_in(
    view: TanksView,
    full_mib: float | None,
    mixed_mib: float | None,
    full: Precision = Precision.FP32,
    mixed: Precision = Precision.FP16,
) -> None:
    view.set_tanks(tank("Full", full, full_mib), tank("Mixed", mixed, mixed_mib))


@pytest.fixture
def tanks(qtbot: QtBot) -> TanksView:
    theme().set_mode("dark")
    shown = TanksView("Memory used at its highest point")
    qtbot.addWidget(shown)
    shown.resize(216, 500)
    shown.show()
    return shown


def at(view: TanksView, x: int, y: int) -> QColor:
    return view.grab().toImage().pixelColor(QPoint(x, y))


class TestTanks:
    def test_they_fill_with_the_race(self, tanks: TanksView) -> None:
        fill_in(tanks, 10_240, 3_200)
        full, mixed = (QColor(DARK.look(one).color) for one in (Precision.FP32, Precision.FP16))
        assert (at(tanks, 48, 120), at(tanks, 168, 400)) == (full, mixed)
        tanks.set_fill(0.1)
        assert at(tanks, 48, 120) == QColor(DARK.bg2)
        tanks.set_fill(7.0)
        assert tanks.fill == 1.0

    def test_another_theme_and_other_precisions_recolour_them(self, tanks: TanksView) -> None:
        fill_in(tanks, 10_240, 3_200)
        tanks.grab()
        theme().set_mode("light")
        assert at(tanks, 48, 120) == QColor(LIGHT.look(Precision.FP32).color)
        fill_in(tanks, 10_240, 3_200, Precision.TF32, Precision.BF16)
        assert at(tanks, 48, 120) == QColor(LIGHT.look(Precision.TF32).color)
        assert at(tanks, 168, 400) == QColor(LIGHT.look(Precision.BF16).color)
        theme().set_mode("dark")

    @pytest.mark.parametrize(
        "peaks", [(10_240, None), (None, None), (0, 0), (float("nan"), -3.0), (3, 4_000)]
    )
    @pytest.mark.parametrize("size", [(216, 500), (20, 20), (1, 1), (900, 60)])
    def test_they_can_always_be_painted(
        self, tanks: TanksView, peaks: tuple[float | None, float | None], size: tuple[int, int]
    ) -> None:
        tanks.resize(*size)
        fill_in(tanks, *peaks)
        for fill in (0.0, 0.3, 1.0):
            tanks.set_fill(fill)
            tanks.grab()

    def test_a_reader_hears_the_amounts(self, tanks: TanksView) -> None:
        fill_in(tanks, 10.2 * 1024, None)
        assert tanks.accessibleDescription() == "Full: 10.2 GiB; Mixed: not measured"
