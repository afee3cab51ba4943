"""The web page is opened in a browser: it reads, it answers the pointer, and names in it do nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from engine.export.content import Content, content_of
from engine.export.formats import COMPARISON
from engine.export.report.pages import page
from engine.store.store import Store

Browse = Callable[..., str]
Program = Callable[[str], Path]

POINT = """<script>
const svg = [...document.querySelectorAll(".plot.seconds svg")].find((one) => one.clientWidth > 0);
const box = svg.getBoundingClientRect();
svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width / 4, clientY: box.top}));
</script></body>"""


@pytest.fixture
def browse(program: Program, tmp_path: Path) -> Browse:
    """Opens a page in a browser of its own and gives what it prints; options are Chromium's."""
    browser = program("chromium")

    def run(path: Path, *options: str) -> str:
        command = [
            *(str(browser), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={tmp_path / 'profile'}", *options, path.as_uri()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    return run


class Reader(HTMLParser):
    """What a page fetches, runs and says, as a parser of HTML sees it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        self.handlers += [name for name, _value in attrs if name.startswith("on") or name == "style"]


def test_names_are_text_and_nothing_is_fetched(hostile: Content) -> None:
    reader = Reader(page(hostile))
    assert reader.tags.count("script") == 2 and reader.tags.count("style") == 1
    # but the pictures of the race are within the page
    assert all(address.startswith("data:image/jpeg;base64,") for address in reader.addresses)
    assert not reader.handlers
    assert "default-src 'none'" in unescape(page(hostile))


def test_tables_name_their_rows_and_columns(pair: Content) -> None:
    text = page(pair)
    assert text.count('scope="row"') > 8 and text.count('scope="col"') > 8
    pictures = re.findall(r"<svg[^>]*>", text)
    assert all('aria-hidden="true"' in one or re.search(r'aria-label="[^"]{20,}"', one) for one in pictures)


def test_a_long_pair_stays_small(exports_store: Store, trained: Callable[..., str]) -> None:
    ids = [trained(precision, steps=20_000) for precision in ("fp32", "bf16")]
    assert len(page(content_of(exports_store, ids))) < 1_000_000


@pytest.mark.slow
def test_a_browser_runs_its_script_and_no_other(hostile: Content, browse: Browse, tmp_path: Path) -> None:
    COMPARISON.export(hostile, tmp_path / "x.html")
    shown = browse(tmp_path / "x.html", "--dump-dom")
    assert "<title>FP16 AMP against FP32</title>" in shown
    # the script has made the plots reachable by key
    assert shown.count('tabindex="0"') > 10
    # what a name could not do, the policy forbids once more
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    (tmp_path / "y.html").write_text(text.replace("</body>", "<script>document.title = 'run'</script>"))
    assert "<title>run</title>" not in browse(tmp_path / "y.html", "--dump-dom")


@pytest.mark.slow
def test_the_crosshair_reads_all_curves_at_once(pair: Content, browse: Browse, tmp_path: Path) -> None:
    # the policy would keep the test's own script from running
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page(pair))
    (tmp_path / "x.html").write_text(text.replace("</body>", POINT), encoding="utf-8")
    shown = browse(tmp_path / "x.html", "--dump-dom")
    (loss, accuracy) = re.findall(r'<div class="chart".*?</ul>', shown, flags=re.DOTALL)
    for chart, values in ((loss, ["2.053", "1.956"]), (accuracy, ["–", "50.0"])):
        at, *read = re.findall(r"<output[^>]*>([^<]*)</output>", chart)
        assert re.fullmatch(r"1\.\d s", at)
        assert len(read) == len(values) and all(read)
    assert shown.count('class="cross"') > 1


@pytest.mark.slow
def test_it_is_light_and_dark_wide_and_narrow_and_prints(
    pair: Content, browse: Browse, program: Program, tmp_path: Path
) -> None:
    COMPARISON.export(pair, tmp_path / "x.html")
    grounds = {}
    for scheme, width in ((1, 1_200), (0, 500)):
        picture = tmp_path / f"{scheme}.png"
        options = (f"--window-size={width},1500", f"--blink-settings=preferredColorScheme={scheme}")
        browse(tmp_path / "x.html", f"--screenshot={picture}", *options)
        with Image.open(picture) as shot:
            assert shot.width == width
            grounds[scheme] = shot.convert("RGB").getpixel((2, 700))
            assert len(shot.convert("RGB").getcolors(1_000_000) or ()) > 100
    assert grounds == {1: (0xF1, 0xF3, 0xF5), 0: (0x0D, 0x0F, 0x12)}
    browse(tmp_path / "x.html", f"--print-to-pdf={tmp_path / 'x.pdf'}")
    reader = program("pdftotext")
    said = subprocess.run([reader, tmp_path / "x.pdf", "-"], capture_output=True, text=True, check=True)
    # folded settings are opened for paper
    assert "2.50 times as fast" in said.stdout and "Label smoothing" in said.stdout


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
    _heading, _line, *fonts = read("pdffonts", path).splitlines()
    assert len(fonts) >= 2 and all("TrueType" in font and " yes yes yes " in font for font in fonts)
    read("pdftoppm", "-r", "30", "-png", path, tmp_path / "page")
    for drawn in tmp_path.glob("page*.png"):
        with Image.open(drawn) as picture:
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
