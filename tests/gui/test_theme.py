"""The theme: tokens, style sheet, icons and fonts."""

from __future__ import annotations

from importlib import resources
from itertools import combinations

import pytest
from coloraide import Color
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontInfo
from PySide6.QtWidgets import QApplication, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from engine.experiment.experiment import Precision
from gui.theme.fonts import font
from gui.theme.icons import _SHAPES, icon, pixmap, svg
from gui.theme.stylesheet import style_sheet
from gui.theme.theme import DARK, LIGHT, Palette, theme


def contrast(first: str, second: str) -> float:
    """The WCAG 2 contrast ratio."""
    return float(Color(first).contrast(second, method="wcag21"))


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize("missing", [None, "protan", "deutan", "tritan"])
def test_any_two_precisions_can_be_told_apart_whatever_colors_one_sees(
    palette: Palette, missing: str | None
) -> None:
    seen = [Color(palette.look(precision).color) for precision in Precision]
    if missing is not None:
        seen = [color.filter(missing, method="machado").clip() for color in seen]
    assert min(one.delta_e(other, method="2000") for one, other in combinations(seen, 2)) >= 9.6


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
def test_all_can_be_read_and_no_two_precisions_look_alike(palette: Palette) -> None:
    for ink, ground, least in (
        (palette.text, palette.bg1, 15),
        (palette.text2, palette.bg1, 7.5),
        (palette.text3, palette.bg1, 5),
        (palette.prifg, palette.pri, 15),
        *((palette.look(precision).color, palette.bg1, 4.5) for precision in Precision),
    ):
        assert contrast(ink, ground) > least
    for fill in (palette.pri_hover, palette.pri_pressed):
        # what is disabled is filled with bg3
        assert fill != palette.pri and contrast(fill, palette.prifg) > 7 and contrast(fill, palette.bg3) > 5
    looks = [palette.look(precision) for precision in Precision]
    for told in ("color", "dash", "symbol"):
        assert len({getattr(look, told) for look in looks}) == len(looks)


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
def test_the_style_sheet_is_filled_in_and_its_pictures_exist(palette: Palette) -> None:
    sheet = style_sheet(palette)
    assert "$" not in sheet and sheet.count("{") == sheet.count("}")
    folder = resources.files("resources") / "icons"
    for name, color in (("check", palette.prifg), ("chevron", palette.text2), ("up", palette.text2)):
        assert f'url("ammeter:{name}-{palette.name}.svg")' in sheet
        assert color in (folder / f"{name}-{palette.name}.svg").read_text()


def test_choosing_a_mode_changes_palette_and_style_sheet_and_says_so(
    qtbot: QtBot, qapp: QApplication
) -> None:
    themes = theme()
    themes.set_mode("light")
    with qtbot.waitSignal(themes.changed):
        themes.set_mode("dark")
    assert themes.palette is DARK and themes.mode == "dark"
    assert DARK.bg0 in qapp.styleSheet()
    with qtbot.assertNotEmitted(themes.changed):
        themes.set_mode("dark")
    with qtbot.waitSignal(themes.changed):
        themes.toggle()
    assert themes.palette is LIGHT and LIGHT.bg0 in qapp.styleSheet()
    assert qapp.palette().window().color() == QColor(LIGHT.bg0)


def test_the_one_theme_follows_the_system_and_refuses_an_unknown_mode(qapp: QApplication) -> None:
    theme().set_mode("system")
    assert theme().palette in (DARK, LIGHT) and theme() is theme()
    with pytest.raises(ValueError, match="choose system, light or dark"):
        theme().set_mode("sepia")
    assert theme().mode == "system"


def test_the_fonts_come_along_with_tabular_numerals_in_any_weight(qapp: QApplication) -> None:
    theme()
    assert {"Inter", "Inter Display", "JetBrains Mono"} <= set(QFontDatabase.families())
    for weight in (400, 500, 600, 700):
        face = font(13, weight)
        assert QFontInfo(face).family() == "Inter" and face.featureValue(QFont.Tag("tnum")) == 1
        assert face.hintingPreference() == QFont.HintingPreference.PreferNoHinting
    assert QFontInfo(font(15, 600, display=True)).family() == "Inter Display"
    assert QFontInfo(font(12, mono=True)).fixedPitch()


def test_every_font_file_has_its_licence_beside_it() -> None:
    folder = resources.files("resources") / "fonts"
    for name in ("LICENSE-Inter.txt", "LICENSE-JetBrainsMono.txt"):
        assert "SIL OPEN FONT LICENSE Version 1.1" in (folder / name).read_text()
    assert "Bitstream Vera" in (folder / "LICENSE-DejaVu.txt").read_text()


def test_every_icon_draws_something_in_the_colour_asked_for(qapp: QApplication) -> None:
    for name in _SHAPES:
        assert "{" not in svg(name, "#123456")
        image = pixmap(name, "#FF0000", 16, 2.0).toImage()
        inks = [image.pixelColor(x, y) for x in range(32) for y in range(32)]
        solid = [ink for ink in inks if ink.alpha() > 200]
        assert solid and all(ink.red() > 200 and ink.green() < 60 for ink in solid), name
        assert not icon(name, "#FF0000", disabled="#00FF00").isNull()


def test_after_two_switches_all_looks_as_before(qtbot: QtBot) -> None:
    theme().set_mode("dark")
    box = QWidget()
    column = QVBoxLayout(box)
    for text, kind in (("Primary", "primary"), ("Link", "link"), ("Plain", "")):
        button = QPushButton(text)
        button.setProperty("kind", kind)
        column.addWidget(button)
    qtbot.addWidget(box)
    box.show()
    dark = box.grab().toImage()
    theme().set_mode("light")
    assert box.grab().toImage() != dark
    theme().set_mode("dark")
    assert box.grab().toImage() == dark
