"""The guide: its pages resolve, its numbers are torch's, and its window is read by keyboard and by mouse."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from engine.protocol.ranges import SMALL_FORMATS, NumberFormat
from engine.words.names import GLOSSARY
from gui.help.browser import (
    COLUMN_WIDTH,
    GuideBrowser,
    GuidePage,
    guide_pages,
    matching_pages,
    picture,
    picture_bytes,
    recolored,
)
from gui.help.dialog import GuideDialog, make_help, show_help
from gui.theme.stylesheet import DARK, LIGHT

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


def test_every_file_is_a_page_and_every_picture_is_used() -> None:
    folder = ROOT / "resources" / "guide"
    assert {path.stem for path in folder.glob("*.md")} == set(PAGES)
    assert {path.stem for path in (folder / "pictures").iterdir()} == {
        Path(link).stem for page in PAGES.values() for mark, link in _LINK.findall(page.text) if mark
    }
    for page in PAGES.values():
        first, empty = page.text.split("\n", 2)[:2]
        assert first == f"# {page.title}"
        assert not empty


@pytest.mark.slow
def test_the_pages_made_from_the_program_are_up_to_date() -> None:
    script = ROOT / "packaging" / "guide" / "make_pages.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True, cwd=ROOT, timeout=60)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_link_and_picture_of_a_page_resolves(page: GuidePage) -> None:
    for is_picture, link in _LINK.findall(page.text):
        if is_picture:
            assert picture_bytes(link.removeprefix("pictures/")) is not None
        elif not link.startswith("https://"):
            assert link.removesuffix(".md") in PAGES
            assert (ROOT / "resources" / "guide" / link).is_file()


def test_every_page_is_linked_to_from_another_besides_the_contents() -> None:
    linked = {
        link.removesuffix(".md")
        for page in PAGES.values()
        for _, link in _LINK.findall(page.text)
        if page.name not in ("README", Path(link).stem)
    }
    assert set(PAGES) - {"README"} <= linked


_MADE = {"README", "settings", "commands", "shortcuts"}
_MOST_WORDS, _MEAN_WORDS = 30, 14.0


@pytest.mark.parametrize("name", sorted(PAGES.keys() - _MADE))
def test_sentences_of_a_page_are_short(name: str) -> None:
    page = PAGES[name]
    counts = {sentence: len(sentence.split()) for sentence in _sentences(page.text)}
    assert not [sentence for sentence, count in counts.items() if count > _MOST_WORDS or ";" in sentence]
    assert statistics.fmean(counts.values()) <= _MEAN_WORDS


def _sentences(text: str) -> list[str]:
    """The sentences of paragraphs, lists and cells of tables, without code, pictures and sources."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    blocks = re.split(r"\n\n|\n(?=[-|#>]|\d+\. )", text)
    cells = [cell for block in blocks for cell in (block.split(" | ") if block[:1] == "|" else [block])]
    plain = (re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(cell.split())) for cell in cells)
    kept = (cell for cell in plain if cell[:1] not in "#" and not cell.startswith(("Source", "![")))
    return [part for cell in kept for part in re.split(r"(?<=[.!?:])\s+", cell) if len(part.split()) > 2]


@pytest.mark.parametrize("term", GLOSSARY)
def test_a_search_for_a_term_of_the_race_finds_a_page_about_it(term: str) -> None:
    assert {page.name for page in matching_pages(guide_pages(), term)} - {"README"}


@pytest.mark.parametrize(
    ("column", "kind", "digits"),
    [
        (1, torch.float32, ("1.19 × 10⁻⁷", "3.40 × 10³⁸", "1.18 × 10⁻³⁸", "1.40 × 10⁻⁴⁵")),
        (3, torch.float16, ("0.00098", "65,504", "6.10 × 10⁻⁵", "5.96 × 10⁻⁸")),
        (4, torch.bfloat16, ("0.0078", "3.39 × 10³⁸", "1.18 × 10⁻³⁸", "9.18 × 10⁻⁴¹")),
    ],
)
def test_the_numbers_of_a_format_are_those_of_torch(column, kind, digits):
    limits = torch.finfo(kind)
    heads = ("epsilon", "largest number", "smallest normal", "smallest subnormal")
    values = [limits.eps, limits.max, limits.smallest_normal, limits.smallest_normal * limits.eps]
    lines = PAGES["number-formats"].text.splitlines()
    for head, words, value in zip(heads, digits, values, strict=True):
        row = next(line for line in lines if line.startswith(f"| {head}"))
        assert row.split("|")[column + 1].strip() == words
        assert _number(words) == pytest.approx(value, rel=6e-3)


@pytest.mark.parametrize("form", SMALL_FORMATS, ids=lambda form: form.label)
def test_the_ranges_are_those_of_the_formats(form: NumberFormat) -> None:
    row = next(
        line
        for line in PAGES["check-numerics"].text.splitlines()
        if line.startswith("|") and form.label in line
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
        dark = recolored(light, DARK)
        colors = set(re.findall(rb"#[0-9A-Fa-f]{6}", light))
        assert colors.isdisjoint(re.findall(rb"#[0-9A-Fa-f]{6}", dark))
        assert picture(dark, DARK, 1.0).pixelColor(6, 6) == QColor(DARK.bg1)
        assert picture(light, LIGHT, 1.0).width() == COLUMN_WIDTH


@pytest.mark.parametrize("name", ["../fp8.md", "nothing.svg", "formats.png"])
def test_nothing_but_its_own_pictures_is_read(name: str) -> None:
    assert picture_bytes(name) is None


def test_words_are_found_wherever_they_stand() -> None:
    pages = guide_pages()
    assert [page.name for page in matching_pages(pages, "grad_SCALER.py")] == ["loss-scaling"]
    assert matching_pages(pages, "  ") == pages
    assert not matching_pages(pages, "fp32 nowhere-to-be-found")


@pytest.mark.slow
def test_no_page_is_wider_than_the_window(guide: GuideDialog) -> None:
    guide.resize(900, 640)
    for name in guide.list.names():
        guide.show_page(name)
        assert guide.page.horizontalScrollBar().maximum() == 0, name


def test_the_field_finds_pages_and_marks_the_words(guide: GuideDialog, qtbot: QtBot) -> None:
    guide.list.field.setText("zebra")
    assert guide.list.names() == () and guide.current == "README"
    guide.list.field.setText("loss scaling")
    assert len(guide.list.names()) > 1 and guide.current == "loss-scaling", "the page of that title"
    guide.list.field.clear()
    qtbot.keyClicks(guide.list.field, "grad_scaler.py")
    assert guide.list.names() == ("loss-scaling",)
    assert guide.current == "loss-scaling"
    assert guide.page.extraSelections()
    guide.list.field.clear()
    assert len(guide.list.names()) == len(PAGES) + 1
    assert guide.current == "loss-scaling"
    assert not guide.page.extraSelections()


def test_the_first_marked_word_is_brought_into_sight(guide: GuideDialog, qtbot: QtBot) -> None:
    guide.list.field.setText("micikevicius")
    (mark,) = guide.page.extraSelections()
    place = guide.page.cursorRect(mark.cursor)  # type: ignore[attr-defined]
    assert guide.page.viewport().rect().contains(place)


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
    guide.show_page("fp8")
    guide.page.anchorClicked.emit(QUrl("loss-scaling.md"))
    assert guide.current == "loss-scaling"
    guide.forward_backward()
    assert guide.current == "fp8"
    guide.page.anchorClicked.emit(QUrl("no-such-page.md"))
    assert guide.current == "fp8"


def test_only_web_pages_are_opened_outside(qtbot: QtBot) -> None:
    page = GuideBrowser()
    qtbot.addWidget(page)
    opened: list[str] = []
    page.web_wanted.connect(opened.append)
    for address in ("https://example.org/a", "file:///etc/hostname", "http://example.org", "javascript:x"):
        page.anchorClicked.emit(QUrl(address))
    assert opened == ["https://example.org/a"]


def test_a_window_has_one_guide_which_closes_with_it(qtbot: QtBot, home: Path) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    guide = show_help(window, "loss-scaling")
    assert guide.current == "loss-scaling"
    assert not guide.isModal()
    assert show_help(window, "fp8") is guide
    assert guide.current == "fp8"
    with qtbot.waitSignal(guide.destroyed):
        window.hide()
