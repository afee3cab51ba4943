"""Drawings and text in a PDF: shapes as vectors, text in the program's fonts.

Inter comes a second time for this: fpdf2 embeds its cubic outlines (CFF) in a way that readers warn about,
and has no other way to choose tabular figures.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from fpdf import FPDF
from fpdf.drawing import PaintedPath
from fpdf.enums import StrokeCapStyle, StrokeJoinStyle
from fpdf.fonts import TTFFont

from engine.drawing.bitmap import blocks_bitmap
from engine.drawing.blocks import BlockGrid
from engine.drawing.shapes import (
    Box,
    Dot,
    Drawing,
    Fill,
    Point,
    Shape,
    Stroke,
    TextLine,
    embedded_file,
    fallback_file,
    ink_color,
    text_width,
)
from engine.experiment.value import printable
from resources.looks import Palette

_FAMILY, _OTHER = "Inter", "DejaVu"
_STYLES = {400: "", 600: "B"}
_BOX = "\N{WHITE SQUARE}"


class Letters:
    """The characters that a PDF's fonts can show. Replaces each other character in a text by a box."""

    def __init__(self, pdf: FPDF) -> None:
        for weight, style in _STYLES.items():
            pdf.add_font(_FAMILY, style, embedded_file(weight))
        pdf.add_font(_OTHER, "", fallback_file(400))
        pdf.set_fallback_fonts([_OTHER], exact_match=False)
        fonts = [font for font in pdf.fonts.values() if isinstance(font, TTFFont)]
        self._known = {chr(code) for font in fonts for code in font.cmap}

    def shown(self, text: str) -> str:
        """Return the text with a box for every letter that no font has. Line ends become spaces."""
        line = printable(text).translate(_SPACES)
        return "".join(letter if letter in self._known else _BOX for letter in line)


_SPACES = str.maketrans({"\n": " ", "\r": " ", "\t": " "})


def set_face(pdf: FPDF, weight: int, size: float, color: str) -> None:
    """Set the font for the text that follows: weight as in CSS, size in points, color."""
    nearest = min(_STYLES, key=lambda known: abs(known - weight))
    pdf.set_font(_FAMILY, _STYLES[nearest], size)
    pdf.set_text_color(color)


SCALE = 0.75  # points per pixel: a drawing 96 pixels wide takes an inch


@dataclass(frozen=True)
class _Place:
    """The position and scale of a drawing on a page, in points."""

    left: float
    top: float
    scale: float

    def __call__(self, x: float, y: float) -> Point:
        return self.left + x * self.scale, self.top + y * self.scale


def draw(pdf: FPDF, drawing: Drawing, palette: Palette, corner: Point, scale: float = SCALE) -> None:
    """Draw with the top left corner at that position of the page, in points."""
    place = _Place(*corner, scale)
    for shape in drawing.shapes:
        if isinstance(shape, TextLine):
            _write_text(pdf, shape, palette, place)
        elif isinstance(shape, BlockGrid):
            _place_blocks(pdf, shape, palette, place)
        else:
            _paint(pdf, shape, palette, place)


def _write_text(pdf: FPDF, words: TextLine, palette: Palette, place: _Place) -> None:
    size = words.size * place.scale
    set_face(pdf, words.weight, size, ink_color(palette, words.ink))
    width = text_width(words.text, words.size, words.weight)
    start = {"start": 0.0, "middle": width / 2, "end": width}[words.anchor]
    left, baseline = place(words.x - start, words.y)
    # the baseline of a cell without height is 0.3 of the font size below it
    pdf.set_xy(left, baseline - 0.3 * size)
    pdf.cell(w=width * place.scale, h=0, text=words.text)


_FINER, _QUALITY = 2.5, 85  # pixels of the blocks' image per pixel of the drawing, and JPEG's quality


def _place_blocks(pdf: FPDF, blocks: BlockGrid, palette: Palette, place: _Place) -> None:
    image = blocks_bitmap(blocks, palette, _FINER, "bg0")
    packed = io.BytesIO()
    image.save(packed, "JPEG", quality=_QUALITY, subsampling=0)
    width, height = (length / _FINER * place.scale for length in image.size)
    pdf.image(packed, *place(blocks.x, blocks.y), width, height)


def _paint(pdf: FPDF, shape: Shape, palette: Palette, place: _Place) -> None:
    with pdf.new_path() as path:
        path.style.auto_close = not isinstance(shape, Stroke)
        path.style.stroke_join_style = StrokeJoinStyle.ROUND
        path.style.stroke_cap_style = StrokeCapStyle.BUTT
        _outline(path, shape, place)
        ink = ink_color(palette, shape.ink)
        if isinstance(shape, Stroke):
            path.style.fill_color = None
            path.style.stroke_color = ink
            path.style.stroke_width = shape.width * place.scale
            path.style.stroke_dash_pattern = [length * place.scale for length in shape.dash] or None
            return
        path.style.fill_color = ink
        edge = shape.edge if isinstance(shape, Fill | Dot) else None
        path.style.stroke_color = None if edge is None else ink_color(palette, edge)
        path.style.stroke_width = 1.5 * place.scale
        if isinstance(shape, Fill) and shape.opacity < 1:
            path.style.fill_opacity = shape.opacity


def _outline(path: PaintedPath, shape: Shape, place: _Place) -> None:
    if isinstance(shape, Box):
        path.rectangle(*place(shape.x, shape.y), shape.width * place.scale, shape.height * place.scale)
    elif isinstance(shape, Dot):
        path.circle(*place(shape.x, shape.y), shape.radius * place.scale)
    elif isinstance(shape, Stroke | Fill):
        points = [place(x, y) for x, y in shape.points]
        path.move_to(*points[0])
        for point in points[1:]:
            path.line_to(*point)
