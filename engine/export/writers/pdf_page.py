"""The pages of a PDF: headings, paragraphs, tables and drawings below each other, and a footer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fpdf import FPDF
from fpdf.fonts import FontFace

from engine.compare.verdict import Piece, Pieces
from engine.drawing.pdf import SCALE, Letters, draw, set_face
from engine.drawing.shapes import Drawing
from resources.looks import LIGHT

_MARGIN, _LONGEST = 42.0, 40
_LONGEST_CELL = 400
"""Letters of a cell, so that a row of a table fits on a page."""


_Face = tuple[int, float, str]
"""Weight, size in points, colour."""


@dataclass(frozen=True)
class TableCell:
    """The text of a cell; `small` follows on its own line."""

    text: str
    small: str = ""


class Pages(FPDF):
    """A4 pages in points; all text goes through `letters`, so that none is lost silently."""

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
        """Begins a new page if less than `height` is left on this one."""
        if self.will_page_break(height):
            self.add_page()

    def heading(self, text: str) -> None:
        self.room(80)
        self.paragraph(text, 10, 600, LIGHT.text)
        self.gap(3)

    def paragraph(
        self, text: str, size: float = 9, weight: int = 400, colour: str = LIGHT.text2, width: float = 0
    ) -> None:
        """Text over the full width, or `width`, from the current position."""
        set_face(self, weight, size, colour)
        shown = self.letters.shown(text)
        self.multi_cell(w=width, h=1.45 * size, text=shown, align="L", new_x="LEFT", new_y="NEXT")

    def sentence(self, pieces: Pieces, size: float) -> None:
        """A verdict with its pieces in their weights and colours; lines break only between words."""
        height = 1.3 * size
        for word in _words(pieces, self.letters):
            parts = [(part, _face(piece, size)) for part, piece in word]
            space = self._width(" ", parts[0][1])
            needed = sum(self._width(part, face) for part, face in parts)
            if self.get_x() > self.l_margin:
                if self.get_x() + space + needed > self.w - self.r_margin:
                    self.ln(height)
                else:
                    self.set_x(self.get_x() + space)
            for part, face in parts:
                self.cell(w=self._width(part, face), h=height, text=part)
        self.ln(height)

    def _width(self, text: str, face: _Face) -> float:
        set_face(self, *face)
        return self.get_string_width(text)

    def rows(
        self,
        headings: Sequence[str],
        rows: Sequence[Sequence[TableCell]],
        widths: Sequence[float],
        align: Sequence[str],
    ) -> None:
        """A table; `widths` are fractions of the page's width, and headings repeat on every page."""
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
            padding=(3, 8, 3, 0),
            v_align="TOP",
        ) as table:
            table.row([self._in_cell(heading) for heading in headings])
            for cells in rows:
                row = table.row()
                for cell in cells:
                    lines = [cell.text, cell.small] if cell.small else [cell.text]
                    row.cell("\n".join(map(self._in_cell, lines)))

    def _in_cell(self, text: str) -> str:
        cut = text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
        return self.letters.shown(cut)

    def drawings(self, drawings: Sequence[Drawing], gap: float) -> None:
        """Drawings side by side, scaled down if they would not fit on a page."""
        height = max(drawing.height for drawing in drawings) * SCALE
        scale = SCALE * min(1.0, (self.eph - 1) / height)
        self.room(height)
        left, top = _MARGIN, self.get_y()
        for drawing in drawings:
            draw(self, drawing, LIGHT, (left, top), scale)
            left += drawing.width * SCALE + gap
        self.set_xy(_MARGIN, top + height * scale / SCALE)


def _words(pieces: Pieces, letters: Letters) -> list[list[tuple[str, Piece]]]:
    """The words of a sentence, each in parts if it spans several pieces."""
    words: list[list[tuple[str, Piece]]] = [[]]
    for piece in pieces:
        text = letters.shown(piece.text).replace(" %", "\N{NO-BREAK SPACE}%")
        for part in re.findall(" +|[^ ]+", text):
            if part.startswith(" "):
                words.append([])
            else:
                words[-1].append((part if len(part) <= _LONGEST else f"{part[:_LONGEST]}…", piece))
    return [word for word in words if word]


def _face(piece: Piece, size: float) -> _Face:
    weight = 600 if piece.role in ("title", "strong") else 400
    colour = LIGHT.text2 if piece.role == "aside" else LIGHT.text
    if piece.side is not None:
        colour = LIGHT.look(piece.side.precision, piece.side.colour).color
    return weight, 0.72 * size if piece.role == "aside" else size, colour
