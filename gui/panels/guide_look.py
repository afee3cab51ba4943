"""How a page of the guide is set: sizes, distances and tables, which markdown leaves to the viewer."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtGui import (
    QColor,
    QFont,
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

from gui.fonts import font
from gui.tokens import Palette

COLUMN_WIDTH = 520
"""In pixels: some 75 characters of the text, and the width of the pictures."""

TEXT_PX, SMALL_PX = 15, 13
_HEADINGS = {1: (26, 600, 0, 12), 2: (18, 600, 26, 6), 3: (15, 600, 18, 4)}
"""Size, weight, and the distances above and below, of each level."""

_LINE_PERCENT = 142.0
_SOURCES = "Sources:"


def set_page(document: QTextDocument, palette: Palette) -> None:
    """Sets a document that was read from markdown, in the colours of the theme."""
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
    # a picture's line stretched would leave a gap under it
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
    goes_on = is_code and after.blockFormat().hasProperty(QTextFormat.Property.BlockCodeLanguage)
    return 0 if goes_on else 6 if is_list else 16 if is_code or _is_picture(block) else 12


def _fragments(block: QTextBlock) -> list[tuple[int, int, QTextCharFormat]]:
    # all of them first: to set one begins the iteration anew
    found = []
    place = block.begin()
    while not place.atEnd():
        fragment = place.fragment()
        end = fragment.position() + fragment.length()
        found.append((fragment.position(), end, QTextCharFormat(fragment.charFormat())))
        place += 1
    return found


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
