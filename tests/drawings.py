"""The words of drawings, and where they stand."""

from __future__ import annotations

from itertools import combinations

from engine.drawing.chart_parts import Rect
from engine.drawing.shapes import Drawing, TextLine, text_width


def texts_of(drawing: Drawing) -> list[str]:
    return [shape.text for shape in drawing.shapes if isinstance(shape, TextLine)]


def placed_words(drawing: Drawing) -> list[tuple[str, Rect]]:
    """The words, each with its place from above its small letters to below its baseline."""
    places = []
    for shape in drawing.shapes:
        if isinstance(shape, TextLine):
            width = text_width(shape.text, shape.size, shape.weight)
            left = shape.x - {"start": 0.0, "middle": width / 2, "end": width}[shape.anchor]
            places.append((shape.text, Rect(left, shape.y - 8, left + width, shape.y + 1)))
    return places


def assert_legible(drawing: Drawing, *, may_meet: bool = False) -> None:
    """Words neither leave the drawing nor meet each other."""
    places = placed_words(drawing)
    for text, rect in places:
        assert rect.left >= -1 and rect.right <= drawing.width + 1, text
        assert rect.top >= 0 and rect.bottom <= drawing.height, text
    for (one, first), (other, second) in combinations(places, 2):
        assert may_meet or not first.meets(second), (one, other)
