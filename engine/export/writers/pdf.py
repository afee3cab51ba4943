"""A document as a PDF: A4, with selectable text, charts as lines, and embedded fonts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from fpdf import FPDF
from fpdf.fonts import FontFace

from engine import __version__
from engine.compare.verdict import Piece, Pieces
from engine.drawing.pdf import SCALE, Letters, draw, set_face
from engine.drawing.shapes import Drawing
from engine.export.document import Cell, Document, Section
from engine.export.writers.picture import panel
from resources.looks import LIGHT

_MARGIN, _GAP = 42.0, 18.0
_LONGEST, _LONGEST_CELL = 40, 400  # letters of a word, and of a cell, so that a row of a table fits on a page
_MOST_ROWS = 200
_PADDING = 8.0
_MOST_WORD, _MOST_WIDTH, _LEAST_WIDTH = 80.0, 140.0, 34.0  # of a column: for a word, for a line, and at least
_Face = tuple[int, float, str]  # weight, size in points, color


class Pages(FPDF):
    """A PDF of A4 pages, measured in points. A character that its fonts lack is shown as a box."""

    def __init__(self, foot: str) -> None:
        super().__init__(format="A4", unit="pt")
        self.letters = Letters(self)
        self._foot = self.letters.shown(foot)
        self.set_margins(_MARGIN, _MARGIN, _MARGIN)
        self.set_auto_page_break(True, _MARGIN + 14)
        self.c_margin = 0
        self.add_page()

    def footer(self) -> None:
        set_face(self, 400, 7.5, LIGHT.text3)
        self.set_xy(_MARGIN, self.h - 36)
        self.cell(w=self.epw, h=10, text=self._foot)
        self.set_xy(_MARGIN, self.h - 36)
        self.cell(w=self.epw, h=10, text=f"{self.page_no()}", align="R")

    def gap(self, height: float) -> None:
        self.set_y(self.get_y() + height)

    def room(self, height: float) -> None:
        """Start a new page if less than `height` is left on the current one."""
        if self.will_page_break(height):
            self.add_page()

    def heading(self, text: str) -> None:
        self.room(80)
        self.paragraph(text, 10, 600, LIGHT.text)
        self.gap(3)

    def paragraph(self, text: str, size: float = 9, weight: int = 400, color: str = LIGHT.text2) -> None:
        """Write text over the full width."""
        set_face(self, weight, size, color)
        shown = self.letters.shown(text)
        self.multi_cell(w=0, h=1.45 * size, text=shown, align="L", new_x="LEFT", new_y="NEXT")

    def sentence(self, pieces: Pieces, size: float) -> None:
        """Write a verdict with its pieces in their weights and colors. Lines break only between words."""
        height = 1.3 * size
        for word in _piece_words(pieces, self.letters):
            parts = [(part, _piece_face(piece, size)) for part, piece in word]
            space = self._text_width(" ", parts[0][1])
            needed = sum(self._text_width(part, face) for part, face in parts)
            if self.get_x() > self.l_margin:
                if self.get_x() + space + needed > self.w - self.r_margin:
                    self.ln(height)
                else:
                    self.set_x(self.get_x() + space)
            for part, face in parts:
                self.cell(w=self._text_width(part, face), h=height, text=part)
        self.ln(height)

    def _text_width(self, text: str, face: _Face) -> float:
        set_face(self, *face)
        return self.get_string_width(text)

    def rows(
        self,
        headings: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        widths: Sequence[float],
        align: Sequence[str],
    ) -> None:
        """Draw a table. `widths` are shares of the page's width. Headings repeat on every page."""
        set_face(self, 400, 8.5, LIGHT.text)
        self.set_draw_color(LIGHT.line)
        self.set_line_width(0.5)
        head = FontFace(emphasis="BOLD", size_pt=8, color=LIGHT.text2)
        with self.table(
            col_widths=tuple(widths),
            text_align=tuple(align),
            headings_style=head,
            borders_layout="HORIZONTAL_LINES",
            line_height=11.5,
            padding=(3, _PADDING, 3, 0),
            v_align="TOP",
        ) as table:
            for cells in (headings, *rows):
                table.row(["\n".join(map(self._cell_text, _cell_lines(cell))) for cell in cells])

    def column_widths(self, heading: str, lines: Sequence[str]) -> tuple[float, float]:
        """Return the widths in points at which a column breaks no word, and at which it breaks no line."""
        faces = ((600, 8.0, LIGHT.text2, [heading]), (400, 8.5, LIGHT.text, lines))
        word = line = 0.0
        for weight, size, color, texts in faces:
            set_face(self, weight, size, color)
            for text in dict.fromkeys(map(self._cell_text, texts)):
                word = max([word, *map(self.get_string_width, text.split())])
                line = max(line, self.get_string_width(text)) if texts is lines else line
        least = max(_LEAST_WIDTH, min(_MOST_WORD, word) + _PADDING + 1)
        return least, max(least, min(_MOST_WIDTH, line) + _PADDING + 1)

    def _cell_text(self, text: str) -> str:
        cut = text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
        return self.letters.shown(cut)

    def drawings(self, drawings: Sequence[Drawing], gap: float) -> None:
        """Draw drawings side by side, scaled down if they would not fit on a page."""
        height = max(drawing.height for drawing in drawings) * SCALE
        scale = SCALE * min(1.0, (self.eph - 1) / height)
        self.room(height)
        left, top = _MARGIN, self.get_y()
        for drawing in drawings:
            draw(self, drawing, LIGHT, (left, top), scale)
            left += drawing.width * SCALE + gap
        self.set_xy(_MARGIN, top + height * scale / SCALE)


def _piece_words(pieces: Pieces, letters: Letters) -> list[list[tuple[str, Piece]]]:
    words: list[list[tuple[str, Piece]]] = [[]]
    for piece in pieces:
        text = letters.shown(piece.text)
        for part in re.findall(" +|[^ ]+", text):
            if part.startswith(" "):
                words.append([])
            else:
                words[-1].append((part if len(part) <= _LONGEST else f"{part[:_LONGEST]}…", piece))
    return [word for word in words if word]


def _piece_face(piece: Piece, size: float) -> _Face:
    weight = 600 if piece.role in ("title", "strong") else 400
    color = LIGHT.text2 if piece.role == "aside" else LIGHT.text
    if piece.look is not None:
        color = LIGHT.look(piece.look).color
    return weight, 0.72 * size if piece.role == "aside" else size, color


Lead = Callable[[Pages], None]


def write_pdf(document: Document, path: Path, lead: Lead | None = None) -> None:
    """Write the document. `lead` draws below its answers. Letters that no font has become boxes."""
    pages = Pages(f"{document.made}.")
    pages.set_title(pages.letters.shown(document.title))
    pages.set_creator(f"Ammeter {__version__}")
    pages.set_lang("en")
    pages.set_creation_date(datetime.now(UTC))
    _head(pages, document)
    if lead is not None:
        lead(pages)
    for section in (section for section in document.sections if not section.is_empty):
        _section(pages, section, min(document.most_rows, _MOST_ROWS))
    path.write_bytes(bytes(pages.output()))


def _head(pages: Pages, document: Document) -> None:
    if document.is_named or not document.answers:
        pages.paragraph(document.title, 11 if document.answers else 15, 600, LIGHT.text)
        pages.gap(2)
    pages.paragraph(document.subject, 9)
    pages.gap(6)
    for place, answer in enumerate(document.answers):
        size = 11 if place else 19
        pages.room(4 * size)
        pages.sentence(answer.pieces, size)
        for note in filter(None, answer.notes):
            pages.gap(2)
            pages.paragraph(note, 9.5)
        pages.gap(6)
    if document.nothing:
        pages.paragraph(document.nothing, 9.5)
    if document.warnings:
        pages.gap(8)
        pages.heading("Caution")
        for text in document.warnings:
            pages.paragraph(f"• {text}")
    pages.gap(16)


def _section(pages: Pages, section: Section, most_rows: int) -> None:
    half = (pages.epw - _GAP) / 2 / SCALE
    width = pages.epw / SCALE if len(section.pictures) == 1 else half
    drawings = [panel(part, width) for part in section.pictures]
    if drawings:
        pages.room(120 + max(drawing.height for drawing in drawings) * SCALE)
    if section.title:
        pages.heading(section.title)
    for text in section.sentences:
        pages.paragraph(text)
        pages.gap(3)
    for first in range(0, len(drawings), 2):
        pages.gap(2)
        pages.drawings(drawings[first : first + 2], _GAP)
    if not (section.is_drawn and drawings):
        _write_tables(pages, section, most_rows)
    if section.pairs:
        # two pairs to a row
        texts = [*(text for pair in section.pairs for text in pair), *[""] * (2 * (len(section.pairs) % 2))]
        rows = [texts[first : first + 4] for first in range(0, len(texts), 4)]
        pages.rows(["Name", "Value", "Name", "Value"], rows, [1.1, 0.9, 1.1, 0.9], ["LEFT"] * 4)
    for text in section.notes:
        pages.gap(2)
        pages.paragraph(text, 8.5)
    pages.gap(14)


def _write_tables(pages: Pages, section: Section, most_rows: int) -> None:
    rows, left_out = section.first_rows(most_rows)
    widths = [
        pages.column_widths(heading, [line for row in rows for line in _cell_lines(row[column])])
        for column, heading in enumerate(section.headings if rows else ())
    ]
    # in as many tables as the columns need, split evenly, each with the first column
    others = len(widths) - 1
    room = pages.epw - widths[0][0] if rows else 0.0
    tables = max(1, math.ceil(sum(least for least, _ in widths[1:]) / room)) if rows else 0
    ends = [round(others * table / tables) for table in range(tables + 1)] if rows else []
    for first, end in pairwise(ends):
        if first:
            pages.gap(10)
        columns = [0, *range(1 + first, 1 + end)]
        headings = [section.headings[column] for column in columns]
        pages.rows(
            headings,
            [[row[column] for column in columns] for row in rows],
            _shared_widths([widths[column] for column in columns], pages.epw),
            ["RIGHT" if heading in section.right else "LEFT" for heading in headings],
        )
    if left_out:
        pages.gap(2)
        pages.paragraph(f"{left_out:,} more rows are in the JSON and CSV exports.", 8.5)


def _shared_widths(widths: Sequence[tuple[float, float]], room: float) -> list[float]:
    # what is left of the room, once every word has its own, goes to the columns whose lines want more
    left, wanted = room - sum(least for least, _ in widths), sum(wish - least for least, wish in widths)
    share = min(1.0, left / wanted) if wanted and left > 0 else 0.0
    return [least + share * (wish - least) for least, wish in widths]


def _cell_lines(cell: Cell) -> list[str]:
    """The text of a cell, and what follows on its own line."""
    if isinstance(cell, str):
        return [cell]
    value = f"{cell.value}   {cell.relation}" if cell.relation else cell.value
    return [value, cell.interval] if cell.interval else [value]
