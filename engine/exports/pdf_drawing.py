"""Draws a drawing's shapes on a page of a PDF, as lines and text."""

from __future__ import annotations

from dataclasses import dataclass

from fpdf import FPDF
from fpdf.drawing import PaintedPath
from fpdf.enums import StrokeCapStyle, StrokeJoinStyle

from engine.exports.drawing import Box, Dot, Drawing, Fill, Point, Shape, Stroke, Words, colour, text_width
from engine.exports.pdf_text import set_face
from resources.looks import Palette

SCALE = 0.75
"""Points a pixel: a drawing 96 pixels wide takes an inch."""


@dataclass(frozen=True)
class _Place:
    """Where on a page a drawing lies, in points."""

    left: float
    top: float
    scale: float

    def __call__(self, x: float, y: float) -> Point:
        return self.left + x * self.scale, self.top + y * self.scale


def draw(pdf: FPDF, drawing: Drawing, palette: Palette, corner: Point, scale: float = SCALE) -> None:
    """Puts the drawing's top left corner at that place of the page, in points."""
    place = _Place(*corner, scale)
    for shape in drawing.shapes:
        if isinstance(shape, Words):
            _write(pdf, shape, palette, place)
        else:
            _paint(pdf, shape, palette, place)


def _write(pdf: FPDF, words: Words, palette: Palette, place: _Place) -> None:
    size = words.size * place.scale
    set_face(pdf, words.weight, size, colour(palette, words.ink))
    width = text_width(words.text, words.size, words.weight)
    start = {"start": 0.0, "middle": width / 2, "end": width}[words.anchor]
    left, baseline = place(words.x - start, words.y)
    # a cell of no height has its baseline three tenths of the letters' height below it
    pdf.set_xy(left, baseline - 0.3 * size)
    pdf.cell(w=width * place.scale, h=0, text=words.text)


def _paint(pdf: FPDF, shape: Shape, palette: Palette, place: _Place) -> None:
    with pdf.new_path() as path:
        path.style.auto_close = not isinstance(shape, Stroke)
        path.style.stroke_join_style = StrokeJoinStyle.ROUND
        path.style.stroke_cap_style = StrokeCapStyle.BUTT
        _outline(path, shape, place)
        ink = colour(palette, shape.ink)
        if isinstance(shape, Stroke):
            path.style.fill_color = None
            path.style.stroke_color = ink
            path.style.stroke_width = shape.width * place.scale
            path.style.stroke_dash_pattern = [length * place.scale for length in shape.dash] or None
            return
        path.style.fill_color = ink
        edge = shape.edge if isinstance(shape, Fill | Dot) else None
        path.style.stroke_color = None if edge is None else colour(palette, edge)
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
