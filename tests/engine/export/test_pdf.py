"""The PDF is read back by poppler: its text can be selected, its fonts are in it, its pages can be drawn."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from engine.export.content import Content, content_of
from engine.export.formats import COMPARISON
from engine.store.store import Store

Program = Callable[[str], Path]


@pytest.fixture
def read(program: Program) -> Callable[..., str]:
    """What a program of poppler's says of a file; it must have nothing to complain about."""

    def run(name: str, *arguments: object) -> str:
        command = [str(program(name)), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert done.stderr == ""
        return done.stdout

    return run


def test_a_pair_reads_as_text_and_can_be_drawn_with_its_own_fonts(
    pair: Content, read: Callable[..., str], tmp_path: Path
) -> None:
    path = COMPARISON.export(pair, tmp_path / "x.pdf")
    text = " ".join(read("pdftotext", path, "-").split())
    for words in ("2.50 times as fast", "Throughput", "2,500", "a card", "Label smoothing", "Seed"):
        assert words in text
    _heading, _line, *fonts = read("pdffonts", path).splitlines()
    assert len(fonts) >= 2 and all("TrueType" in font and " yes yes yes " in font for font in fonts)
    read("pdftoppm", "-r", "30", "-png", path, tmp_path / "page")
    for page in tmp_path.glob("page*.png"):
        with Image.open(page) as picture:
            assert len(picture.convert("L").getcolors() or ()) > 10
    assert "A4" in read("pdfinfo", path) and "FP16 AMP against FP32" in read("pdfinfo", path)


def test_hostile_names_are_there_and_what_no_font_has_is_seen(
    hostile: Content, read: Callable[..., str], tmp_path: Path
) -> None:
    text = read("pdftotext", COMPARISON.export(hostile, tmp_path / "x.pdf"), "-")
    assert "cmd|" in text and "etc/passwd" in text and r"\alpha_{x}%" in text
    # a letter of Chinese, for which there is no font
    assert "\N{WHITE SQUARE}" in text


def test_a_name_of_any_length_fits_on_a_page(
    exports_store: Store, trained: Callable[..., str], read: Callable[..., str], tmp_path: Path
) -> None:
    content = content_of(exports_store, [trained(name="long " * 1_000)])
    assert "long long" in read("pdftotext", COMPARISON.export(content, tmp_path / "x.pdf"), "-")
