"""The open page of the guide: text with images, tables and links."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from markdown_it import MarkdownIt
from PySide6.QtCore import QByteArray, QSizeF, Qt, QUrl, Signal
from PySide6.QtGui import (
    QColor,
    QImage,
    QPainter,
    QResizeEvent,
    QTextCursor,
    QTextDocument,
)
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QFrame, QTextBrowser, QTextEdit, QWidget

from gui.theme.fonts import DISPLAY_FAMILIES, MONO_FAMILIES, TEXT_FAMILIES
from gui.theme.stylesheet import LIGHT, Palette
from gui.theme.theme import theme

_FAMILIES = re.compile(rb'font-family="[^"]*"')
_COLOR = re.compile(rb"#[0-9A-F]{6}")
_TOKENS = ("bg1", "bg2", "bg3", "line", "line2", "shade", "text", "text2", "text3")


def recolored(svg: bytes, palette: Palette) -> bytes:
    """Return an SVG in light-theme colors with the colors of `palette`."""
    exchanged = _exchanged(palette)
    # Qt takes a list of families for a single name
    svg = _FAMILIES.sub(f'font-family="{TEXT_FAMILIES[0]}"'.encode(), svg)
    return _COLOR.sub(lambda found: exchanged.get(found[0].decode(), found[0].decode()).encode(), svg)


def picture(svg: bytes, palette: Palette, pixel_ratio: float) -> QImage:
    """Return the image at the screen's device pixel ratio."""
    renderer = QSvgRenderer(QByteArray(recolored(svg, palette)))
    size = QSizeF(renderer.defaultSize()) * pixel_ratio
    image = QImage(size.toSize(), QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    renderer.render(painter)
    painter.end()
    image.setDevicePixelRatio(pixel_ratio)
    return image


def _exchanged(palette: Palette) -> Mapping[str, str]:
    pairs = {getattr(LIGHT, name): getattr(palette, name) for name in _TOKENS}
    for name, look in LIGHT.precisions.items():
        other = palette.look(name)
        pairs |= {look.color: other.color, look.tint: other.tint, look.dim: other.dim}
    return pairs


FIRST_PAGE = "README"


@dataclass(frozen=True)
class GuidePage:
    """One page of the guide. `text` is Markdown, with the title in the first line.

    Links use the page's `name`.
    """

    name: str
    section: str
    title: str
    text: str

    def contains(self, words: str) -> bool:
        """Return True if the page contains each of the words, ignoring case, also within other words."""
        text = self.text.casefold()
        return all(word in text for word in words.casefold().split())


@cache
def contents() -> Mapping[str, Any]:
    """Return the guide's title and introduction, and its parts with the names of their pages."""
    return tomllib.loads(_file("contents.toml").read_text(encoding="utf-8"))


@cache
def guide_pages() -> tuple[GuidePage, ...]:
    """Return the guide's pages, in the order of the list."""
    parts = ((part["title"], part["pages"]) for part in contents()["part"])
    return tuple(_read(name, section) for section, names in (("", [FIRST_PAGE]), *parts) for name in names)


def _file(name: str) -> Traversable:
    return resources.files("resources") / "guide" / name


def _read(name: str, section: str) -> GuidePage:
    text = _file(f"{name}.md").read_text(encoding="utf-8")
    return GuidePage(name, section, text.partition("\n")[0].lstrip("# "), text)


def picture_bytes(name: str) -> bytes | None:
    """Return the SVG with that file name in light-theme colors. None if there is none."""
    entry = _file("pictures") / name
    return entry.read_bytes() if name.endswith(".svg") and "/" not in name and entry.is_file() else None


def matching_pages(pages: Sequence[GuidePage], words: str) -> tuple[GuidePage, ...]:
    """Return the pages that contain each of the words."""
    return tuple(page for page in pages if page.contains(words))


def best_match(pages: Sequence[GuidePage], words: str, current: str | None) -> str | None:
    """Return the name of the page to open after a search, or None without pages.

    It is the first page with the words in its title, else the open page if it was found, else the first.
    """
    titled = (
        page.name for page in pages if words.strip() and words.strip().casefold() in page.title.casefold()
    )
    names = [page.name for page in pages]
    return next(titled, current if current in names else next(iter(names), None))


COLUMN_WIDTH = 520
"""In pixels: some 75 characters of text, and the width of the images."""

_STYLE = """
    /* headings are 2, 1.5 and 1.2 times as large as the window's text */
    h1, h2, h3 { font-family: %(display)s; font-weight: 600; line-height: 120%%; }
    h1 { margin-top: 0; margin-bottom: 12px; }
    h2 { margin-top: 26px; margin-bottom: 6px; }
    h3 { margin-top: 18px; margin-bottom: 4px; }
    p, li { font-size: 15px; line-height: 142%%; margin-top: 0; margin-bottom: 12px; }
    /* a stretched line would leave a gap below a picture */
    p.picture { line-height: 100%%; margin-bottom: 16px; }
    p.sources { font-size: 13px; color: %(text2)s; margin-top: 14px; }
    ul, ol { margin-top: 0; margin-bottom: 12px; }
    li { margin-bottom: 6px; }
    a { color: %(text)s; text-decoration: underline; }
    strong { color: %(text)s; font-weight: 600; }
    code { font-family: %(mono)s; font-size: 13px; }
    pre { font-family: %(mono)s; line-height: 142%%; margin: 0 0 16px 16px; }
    table { margin-top: 4px; margin-bottom: 14px; }
    th, td { color: %(text2)s; padding: 6px 16px 6px 0; line-height: 142%%;
             border-bottom: 1px solid %(line)s; vertical-align: top; text-align: left; }
    th { font-weight: 600; color: %(text)s; border-bottom-color: %(line2)s; }
"""


def style_sheet(palette: Palette) -> str:
    """Return the style sheet of a page in the colors of `palette`, in the CSS that Qt understands."""
    families = {"display": DISPLAY_FAMILIES, "mono": MONO_FAMILIES}
    colors = {name: getattr(palette, name) for name in ("text", "text2", "line", "line2")}
    return _STYLE % {**colors, **{name: ", ".join(map(repr, names)) for name, names in families.items()}}


def html_of(text: str) -> str:
    """Return a page of the guide, in Markdown, as HTML."""
    html: str = MarkdownIt("commonmark").enable("table").render(text)
    html = html.replace("<table>", f'<table width="{COLUMN_WIDTH}" cellspacing="0">')
    html = html.replace("\n</code></pre>", "</code></pre>")
    html = html.replace("<p>Sources:", '<p class="sources">Sources:')
    return html.replace("<p><img", '<p class="picture"><img')


_LEAST_MARGIN = 24


class GuideBrowser(QTextBrowser):
    """Shows one page of the guide.

    A clicked link emits `page_wanted` (page name) or `web_wanted` (address).
    """

    page_wanted = Signal(str)
    web_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._page: GuidePage | None = None
        self._words = ""
        self.document().setDocumentMargin(0)
        self.document().setIndentWidth(24)
        self.setOpenLinks(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Page of the guide")
        self.anchorClicked.connect(self._follow)
        theme().changed.connect(self._show_page)

    def set_page(self, page: GuidePage) -> None:
        self._page = page
        self._show_page()
        self.verticalScrollBar().setValue(0)
        self._scroll_to_mark()

    def mark(self, words: str) -> None:
        """Mark the words in the page and scroll to the first. An empty text clears the marks."""
        self._words = words
        self._mark()
        self._scroll_to_mark()

    def _mark(self) -> None:
        marks = []
        for word in self._words.split():
            cursor = self.document().find(word)
            while not cursor.isNull():
                marks.append(self._marked(cursor))
                cursor = self.document().find(word, cursor)
        self.setExtraSelections(marks)

    def _scroll_to_mark(self) -> None:
        places = [self.cursorRect(mark.cursor).top() for mark in self.extraSelections()]
        height = self.viewport().height()
        if places and not 0 <= min(places) < height:
            bar = self.verticalScrollBar()
            bar.setValue(bar.value() + min(places) - height // 3)

    def _marked(self, cursor: QTextCursor) -> QTextEdit.ExtraSelection:
        selection = QTextEdit.ExtraSelection()
        selection.cursor = cursor
        selection.format.setBackground(QColor(theme().palette.bg3))
        return selection

    def _show_page(self) -> None:
        if self._page is None:
            return
        place = self.verticalScrollBar().value()
        self.document().setDefaultStyleSheet(style_sheet(theme().palette))
        self.setHtml(html_of(self._page.text))
        self._settle()
        self._mark()
        self.verticalScrollBar().setValue(place)

    def _follow(self, url: QUrl) -> None:
        if url.scheme() == "https":
            self.web_wanted.emit(url.toString())
        elif url.isRelative() and url.path().endswith(".md"):
            self.page_wanted.emit(url.path().removesuffix(".md"))

    def loadResource(self, kind: int, name: QUrl | str) -> object:
        """Load the guide's images in the theme's colors, and nothing else."""
        path = name.path() if isinstance(name, QUrl) else name
        if kind == QTextDocument.ResourceType.ImageResource.value and path.startswith("pictures/"):
            svg = picture_bytes(path.removeprefix("pictures/"))
            if svg is not None:
                return picture(svg, theme().palette, self.devicePixelRatioF())
        return None

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._settle()

    def _settle(self) -> None:
        frame = self.document().rootFrame()
        shape = frame.frameFormat()
        spare = self.viewport().width() - COLUMN_WIDTH
        shape.setLeftMargin(_LEAST_MARGIN + 8)
        shape.setRightMargin(max(_LEAST_MARGIN, spare - _LEAST_MARGIN - 8))
        shape.setTopMargin(28)
        shape.setBottomMargin(40)
        frame.setFrameFormat(shape)
