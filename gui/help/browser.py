"""The open page of the guide: text with images, tables and links.

Sizes and distances are set here, because Markdown has none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from PySide6.QtCore import QByteArray, QSizeF, Qt, QUrl, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QImage,
    QPainter,
    QResizeEvent,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFrame,
    QTextFrameFormat,
    QTextLength,
    QTextTable,
    QTextTableFormat,
)
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QFrame, QTextBrowser, QTextEdit, QWidget

from gui.theme.fonts import TEXT_FAMILIES, font
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

TEXT_PX, SMALL_PX = 15, 13
_HEADINGS = {1: (26, 600, 0, 12), 2: (18, 600, 26, 6), 3: (15, 600, 18, 4)}
"""Size, weight, and space above and below, by level."""

_LINE_PERCENT = 142.0
_SOURCES = "Sources:"


def set_page(document: QTextDocument, palette: Palette) -> None:
    """Format a page of the guide, parsed from Markdown, in the theme's colors."""
    document.setDocumentMargin(0)
    document.setIndentWidth(24)
    for block in _blocks(document):
        _set_block(block, palette)
    for table in _tables(document.rootFrame()):
        _set_table(table, palette)


def _blocks(document: QTextDocument) -> Iterator[QTextBlock]:
    block = document.begin()
    while block.isValid():
        yield block
        block = block.next()


def _set_block(block: QTextBlock, palette: Palette) -> None:
    cursor = QTextCursor(block)
    cell = cursor.currentTable() is not None
    level = block.blockFormat().headingLevel()
    is_code = block.blockFormat().hasProperty(QTextFormat.Property.BlockCodeLanguage)
    is_small = cell or is_code or block.text().startswith(_SOURCES)
    shape = QTextBlockFormat(block.blockFormat())
    # a stretched line would leave a gap below a picture
    percent = 100.0 if _is_picture(block) else 120.0 if level else _LINE_PERCENT
    shape.setLineHeight(percent, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    if level:
        _, _, above, below = _HEADINGS[min(level, 3)]
        shape.setTopMargin(above)
        shape.setBottomMargin(below)
    elif not cell:
        shape.setTopMargin(14 if block.text().startswith(_SOURCES) else 0)
        shape.setBottomMargin(_below(block, is_code))
    if is_code:
        shape.setLeftMargin(16)
    cursor.setBlockFormat(shape)
    for start, end, format_ in _fragments(block):
        cursor.setPosition(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        cursor.setCharFormat(_characters(format_, level, palette, is_small=is_small, is_code=is_code))


def _is_picture(block: QTextBlock) -> bool:
    return any(format_.isImageFormat() for _, _, format_ in _fragments(block))


def _below(block: QTextBlock, is_code: bool) -> float:
    after = block.next()
    is_list = block.textList() is not None and after.isValid() and after.textList() is block.textList()
    continues = is_code and after.blockFormat().hasProperty(QTextFormat.Property.BlockCodeLanguage)
    return 0 if continues else 6 if is_list else 16 if is_code or _is_picture(block) else 12


def _fragments(block: QTextBlock) -> list[tuple[int, int, QTextCharFormat]]:
    # all of them first: formatting a fragment would restart the iteration
    fragments = []
    place = block.begin()
    while not place.atEnd():
        fragment = place.fragment()
        end = fragment.position() + fragment.length()
        fragments.append((fragment.position(), end, QTextCharFormat(fragment.charFormat())))
        place += 1
    return fragments


def _characters(
    was: QTextCharFormat, level: int, palette: Palette, *, is_small: bool, is_code: bool
) -> QTextCharFormat:
    if was.isImageFormat():
        return was
    size, weight = (SMALL_PX if is_small else TEXT_PX), was.fontWeight()
    color = palette.text2 if is_small and not is_code else palette.text
    if level:
        size, weight = _HEADINGS[min(level, 3)][:2]
    is_mono = was.fontFixedPitch() or is_code
    shown = font(
        SMALL_PX if is_mono else size, 600 if weight > 400 else 400, display=bool(level), mono=is_mono
    )
    shown.setItalic(was.fontItalic())
    result = QTextCharFormat()
    result.setFont(shown)
    result.setForeground(QColor(palette.text if was.fontWeight() > QFont.Weight.Normal else color))
    if was.isAnchor():
        result.setAnchor(True)
        result.setAnchorHref(was.anchorHref())
        result.setFontUnderline(True)
        result.setForeground(QColor(palette.text))
    return result


def _tables(frame: QTextFrame) -> Iterator[QTextTable]:
    for child in frame.childFrames():
        if isinstance(child, QTextTable):
            yield child
        yield from _tables(child)


def _set_table(table: QTextTable, palette: Palette) -> None:
    shape = QTextTableFormat(table.format())
    shape.setWidth(QTextLength(QTextLength.Type.FixedLength, COLUMN_WIDTH))
    shape.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_None)
    shape.setBorder(0)
    shape.setCellSpacing(0)
    shape.setCellPadding(0)
    shape.setTopMargin(4)
    shape.setBottomMargin(14)
    shape.clearColumnWidthConstraints()
    table.setFormat(shape)
    for row in range(table.rows()):
        for column in range(table.columns()):
            _set_cell(table, row, column, palette)


def _set_cell(table: QTextTable, row: int, column: int, palette: Palette) -> None:
    cell = table.cellAt(row, column)
    shape = cell.format().toTableCellFormat()
    shape.setTopPadding(6)
    shape.setBottomPadding(6)
    shape.setLeftPadding(0)
    shape.setRightPadding(16)
    shape.setBottomBorder(1)
    shape.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    shape.setBottomBorderBrush(QColor(palette.line2 if row == 0 else palette.line))
    cell.setFormat(shape)


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
        self.setMarkdown(self._page.text)
        set_page(self.document(), theme().palette)
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
