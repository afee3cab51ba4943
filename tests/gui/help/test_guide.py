"""The guide: its pages resolve, its numbers are torch's, and its window is read by keyboard and by mouse."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from engine.protocol.numerics.formats import SMALL_FORMATS, NumberFormat
from engine.words.names import GLOSSARY
from gui.help.browser import (
    COLUMN_WIDTH,
    GuideBrowser,
    GuidePage,
    guide_pages,
    matching,
    picture,
    picture_bytes,
    recoloured,
)
from gui.help.dialog import GuideDialog, make_help, show_help
from gui.theme.stylesheet import DARK, LIGHT
from gui.theme.theme import theme

ROOT = Path(__file__).resolve().parents[3]
PAGES = {page.name: page for page in guide_pages()}
_LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)]+)\)")


@pytest.fixture
def guide(qtbot: QtBot, home: Path) -> GuideDialog:
    dialog = make_help()
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(dialog)
    with qtbot.waitExposed(dialog):
        dialog.show()
    return dialog


def test_every_file_is_a_page_and_begins_with_its_title_and_a_picture() -> None:
    folder = ROOT / "resources" / "guide"
    assert {path.stem for path in folder.glob("*.md")} == set(PAGES)
    assert {path.stem for path in (folder / "pictures").iterdir()} == {
        Path(link).stem for page in PAGES.values() for mark, link in _LINK.findall(page.text) if mark
    }
    for page in PAGES.values():
        first, empty, shown = page.text.split("\n", 3)[:3]
        assert first == f"# {page.title}"
        assert not empty
        assert shown.startswith("![")


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_link_and_picture_of_a_page_resolves(page: GuidePage) -> None:
    for is_picture, link in _LINK.findall(page.text):
        if is_picture:
            assert picture_bytes(link.removeprefix("pictures/")) is not None
        elif not link.startswith("https://"):
            assert link.removesuffix(".md") in PAGES
            assert (ROOT / "resources" / "guide" / link).is_file()


def test_every_page_but_the_first_is_linked_to_from_another() -> None:
    linked = {
        link.removesuffix(".md")
        for page in PAGES.values()
        for _, link in _LINK.findall(page.text)
        if link != f"{page.name}.md"
    }
    assert set(PAGES) - {"README"} <= linked


def test_a_page_is_short_enough_to_be_read() -> None:
    long = {name: len(page.text.split()) for name, page in PAGES.items() if len(page.text.split()) > 340}
    assert not long


@pytest.mark.parametrize("term", GLOSSARY)
def test_a_search_for_a_term_of_the_race_finds_a_page_about_it(term: str) -> None:
    assert {page.name for page in matching(guide_pages(), term)} - {"README"}


@pytest.mark.parametrize(
    ("name", "kind", "digits"),
    [
        ("fp32", torch.float32, ("1.19 × 10⁻⁷", "3.40 × 10³⁸", "1.18 × 10⁻³⁸")),
        ("fp16", torch.float16, ("0.00098", "65,504", "6.10 × 10⁻⁵", "5.96 × 10⁻⁸")),
        ("bf16", torch.bfloat16, ("0.0078", "3.39 × 10³⁸", "1.18 × 10⁻³⁸")),
        ("fp8", torch.float8_e4m3fn, ("0.125", "448", "0.0156")),
    ],
)
def test_the_numbers_of_a_format_are_those_of_torch(name, kind, digits):
    limits = torch.finfo(kind)
    told = [limits.eps, limits.max, limits.smallest_normal, limits.smallest_normal * limits.eps]
    for words, value in zip(digits, told, strict=False):
        assert words in PAGES[name].text
        assert _number(words) == pytest.approx(value, rel=6e-3)


@pytest.mark.parametrize("form", SMALL_FORMATS, ids=lambda form: form.label)
def test_the_ranges_are_those_of_the_formats(form: NumberFormat) -> None:
    row = next(
        line for line in PAGES["ranges"].text.splitlines() if line.startswith("|") and form.label in line
    )
    largest, smallest = (cell.strip() for cell in row.split("|")[2:4])
    assert _number(largest) == pytest.approx(form.largest, rel=6e-3)
    assert _number(smallest) == pytest.approx(2.0**form.subnormal_exponent, rel=6e-3)


def _number(words: str) -> float:
    plain = words.replace(",", "").replace(" × 10", "e")
    return float(plain.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))


def test_the_defaults_of_the_scaler_are_those_of_torch() -> None:
    scaler = torch.amp.GradScaler("cpu")
    text = PAGES["loss-scaling"].text
    assert f"| `init_scale` | {scaler._init_scale:,.0f} |" in text
    assert f"| `backoff_factor` | {scaler.get_backoff_factor():g} |" in text
    assert f"| `growth_factor` | {scaler.get_growth_factor():g} |" in text
    assert f"| `growth_interval` | {scaler.get_growth_interval():,} |" in text


def test_the_pictures_are_those_that_the_script_draws(tmp_path: Path) -> None:
    script = ROOT / "packaging" / "guide" / "make_pictures.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, cwd=ROOT, timeout=60)
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = (ROOT / "resources" / "guide" / "pictures").iterdir()
    assert drawn == {path.name: path.read_text(encoding="utf-8") for path in kept}


def test_pictures_hold_tokens_alone_and_turn_dark() -> None:
    for path in (ROOT / "resources" / "guide" / "pictures").iterdir():
        light = path.read_bytes()
        dark = recoloured(light, DARK)
        colors = set(re.findall(rb"#[0-9A-Fa-f]{6}", light))
        assert colors.isdisjoint(re.findall(rb"#[0-9A-Fa-f]{6}", dark))
        assert picture(dark, DARK, 1.0).pixelColor(6, 6) == QColor(DARK.bg1)
        assert picture(light, LIGHT, 1.0).width() == COLUMN_WIDTH


def test_a_picture_is_as_sharp_as_the_screen() -> None:
    svg = picture_bytes("formats.svg")
    assert svg is not None
    image = picture(svg, LIGHT, 2.0)
    assert image.width() == 2 * COLUMN_WIDTH
    assert image.deviceIndependentSize().width() == COLUMN_WIDTH


@pytest.mark.parametrize("name", ["../fp32.md", "nothing.svg", "formats.png"])
def test_nothing_but_its_own_pictures_is_read(name: str) -> None:
    assert picture_bytes(name) is None


def test_words_are_found_wherever_they_stand() -> None:
    pages = guide_pages()
    assert [page.name for page in matching(pages, "growth_INTERVAL")] == ["loss-scaling"]
    assert matching(pages, "  ") == pages
    assert not matching(pages, "fp32 nowhere-to-be-found")


def test_no_page_is_wider_than_the_window(guide: GuideDialog) -> None:
    guide.resize(900, 640)
    for name in guide.list.names():
        guide.show_page(name)
        assert guide.page.horizontalScrollBar().maximum() == 0, name


def test_arrows_go_through_the_list(guide: GuideDialog, qtbot: QtBot) -> None:
    qtbot.keyClick(guide.list.list, Qt.Key.Key_Down)
    assert guide.current == "fp32"
    for _ in range(6):
        qtbot.keyClick(guide.list.list, Qt.Key.Key_Down)
    qtbot.keyClick(guide.list.list, Qt.Key.Key_Down)
    assert guide.current == "autocast"


def test_the_field_finds_pages_and_marks_the_words(guide: GuideDialog, qtbot: QtBot) -> None:
    qtbot.keyClicks(guide.list.field, "growth_interval")
    assert guide.list.names() == ("loss-scaling",)
    assert guide.current == "loss-scaling"
    assert guide.page.extraSelections()
    guide.list.field.clear()
    assert len(guide.list.names()) == len(PAGES) + 2
    assert guide.current == "loss-scaling"
    assert not guide.page.extraSelections()


def test_a_search_shows_the_page_that_is_called_so(guide: GuideDialog) -> None:
    guide.list.field.setText("loss")
    assert len(guide.list.names()) > 1
    assert guide.current == "loss-scaling"


def test_the_first_marked_word_is_brought_into_sight(guide: GuideDialog, qtbot: QtBot) -> None:
    guide.list.field.setText("micikevicius")
    (mark,) = guide.page.extraSelections()
    place = guide.page.cursorRect(mark.cursor)  # type: ignore[attr-defined]
    assert guide.page.viewport().rect().contains(place)


def test_words_on_no_page_leave_the_page_that_is_read(guide: GuideDialog, qtbot: QtBot) -> None:
    guide.show_page("recipe")
    guide.list.field.setText("zebra")
    assert guide.list.names() == ()
    assert guide.current == "recipe"


@pytest.mark.parametrize(
    ("key", "modifier"),
    [(Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier), (Qt.Key.Key_Slash, Qt.KeyboardModifier.NoModifier)],
)
def test_keys_lead_to_the_field_and_from_it_to_the_list(guide, qtbot, key, modifier):
    guide.activateWindow()
    qtbot.waitUntil(guide.isActiveWindow)
    qtbot.keyClick(guide.list.list, key, modifier)
    qtbot.waitUntil(guide.list.field.hasFocus)
    qtbot.keyClicks(guide.list.field, "a/b")
    assert guide.list.field.text() == "a/b"
    qtbot.keyClick(guide.list.field, Qt.Key.Key_Down)
    assert guide.list.list.hasFocus()


def test_escape_ends_a_search_and_then_closes(guide: GuideDialog, qtbot: QtBot) -> None:
    guide.list.field.setFocus()
    qtbot.keyClicks(guide.list.field, "scale")
    qtbot.keyClick(guide.list.field, Qt.Key.Key_Escape)
    assert guide.isVisible() and guide.list.field.text() == ""
    qtbot.keyClick(guide.list.field, Qt.Key.Key_Escape)
    assert not guide.isVisible()


def test_a_link_leads_to_its_page_and_alt_left_back(guide: GuideDialog, qtbot: QtBot) -> None:
    guide.show_page("fp16")
    guide.page.anchorClicked.emit(QUrl("loss-scaling.md"))
    assert guide.current == "loss-scaling"
    guide.go_back()
    assert guide.current == "fp16"
    guide.page.anchorClicked.emit(QUrl("no-such-page.md"))
    assert guide.current == "fp16"


def test_only_web_pages_are_opened_outside(qtbot: QtBot) -> None:
    page = GuideBrowser()
    qtbot.addWidget(page)
    opened: list[str] = []
    page.web_wanted.connect(opened.append)
    for address in ("https://example.org/a", "file:///etc/hostname", "http://example.org", "javascript:x"):
        page.anchorClicked.emit(QUrl(address))
    assert opened == ["https://example.org/a"]


def test_the_page_follows_the_theme(guide: GuideDialog) -> None:
    for mode, palette in (("dark", DARK), ("light", LIGHT)):
        theme().set_mode(mode)
        cursor = guide.page.textCursor()
        cursor.movePosition(cursor.MoveOperation.Right)
        assert cursor.charFormat().foreground().color() == QColor(palette.text)


def test_a_window_has_one_guide_which_closes_with_it(qtbot: QtBot, home: Path) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    guide = show_help(window, "loss-scaling")
    assert guide.current == "loss-scaling"
    assert not guide.isModal()
    assert show_help(window, "fp16") is guide
    assert guide.current == "fp16"
    with qtbot.waitSignal(guide.destroyed):
        window.hide()


def test_an_unknown_page_is_an_error(guide: GuideDialog) -> None:
    with pytest.raises(KeyError):
        guide.show_page("no-such-page")
