"""Pictures under their title as PNG or SVG, with a footer on what was measured.

A PNG has twice the page's pixels each way; an SVG keeps its text as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from engine import __version__
from engine.drawing.bitmap import write_bitmap
from engine.drawing.chart_parts import legend
from engine.drawing.shapes import Drawing, Shape, Stroke, Words, moved, shortened, text_width
from engine.drawing.svg import svg_file
from engine.export.document import Document, Picture
from engine.export.writers.data import beside
from resources.looks import LIGHT, Palette

_WIDTH, MARGIN, _GAP, _HEADER = 926.0, 24.0, 28.0, 34.0


def write_png(document: Document, path: Path, *, palette: Palette = LIGHT) -> None:
    """Writes the pictures as PNG, the second and the rest beside the first."""
    facts = {
        "Title": document.title,
        "Software": f"Ammeter {__version__}",
        "Description": _facts(document),
    }
    _write(document, path, lambda drawing, file: write_bitmap(drawing, palette, file, facts))


def write_svg(document: Document, path: Path, *, palette: Palette = LIGHT) -> None:
    """Writes the pictures as SVG, the second and the rest beside the first."""

    def write(drawing: Drawing, file: Path) -> None:
        file.write_text(svg_file(drawing, palette, _facts(document)), encoding="utf-8")

    _write(document, path, write)


def _facts(document: Document) -> str:
    return json.dumps(document.facts, default=str)


def _write(document: Document, path: Path, write: Callable[[Drawing, Path], None]) -> None:
    pictures: Sequence[Picture | None] = document.pictures or (None,)
    for place, part in enumerate(pictures):
        parts = [] if part is None else [part]
        drawing = sheet(document.title, document.subject, parts, [f"{document.made}."], document.undrawn)
        write(drawing, beside(path, part.name) if part is not None and place else path)


def sheet(
    title: str,
    subject: str,
    pictures: Sequence[Picture],
    foot: Sequence[str],
    undrawn: str,
    width: float = _WIDTH,
) -> Drawing:
    """Pictures below each other under a title, and the lines of the `foot`; `undrawn` where there is none."""
    inner = width - 2 * MARGIN
    shapes: list[Shape] = [
        Words(MARGIN, 36, shortened(title, inner, 20, 600), "text", 20, 600),
        Words(MARGIN, 58, shortened(subject, inner, 13), "text2", 13),
    ]
    down, descriptions = 78.0, [f"{title}."]
    for part in pictures:
        drawn = panel(part, inner)
        shapes += moved(drawn.shapes, MARGIN, down)
        down += drawn.height + _GAP
        descriptions.append(drawn.description)
    if not pictures:
        shapes.append(Words(MARGIN, down + 16, undrawn, "text2", 13))
        down += 40
    below = _foot(foot, inner)
    shapes += moved(below.shapes, MARGIN, down - 8)
    return Drawing(width, down + below.height, tuple(shapes), " ".join(descriptions))


def panel(part: Picture, width: float) -> Drawing:
    """A picture under its title and its legend, as far as it has these."""
    shapes: list[Shape] = []
    down = 0.0
    if part.title:
        after = text_width(part.title, 13, 600) + 8
        shapes.append(Words(0, 16, part.title, "text", 13, 600))
        shapes.append(Words(after, 16, shortened(part.beside, width - after, 12), "text3", 12))
        down = _HEADER
    if part.legend:
        rows = legend(part.legend, width)
        shapes += moved(rows.shapes, 0, down - 6)
        down += rows.height
    drawing = part.draw(width)
    shapes += moved(drawing.shapes, 0, down)
    return Drawing(width, down + drawing.height, tuple(shapes), drawing.description)


def _foot(lines: Sequence[str], width: float) -> Drawing:
    rows = [row for line in lines for row in _wrapped(line, width)]
    shapes: list[Shape] = [Stroke(((0, 0.5), (width, 0.5)), "line")]
    shapes += [Words(0, 20 + 16 * place, row, "text3", 11) for place, row in enumerate(rows)]
    return Drawing(width, 32 + 16 * len(rows), tuple(shapes))


def _wrapped(text: str, width: float) -> list[str]:
    rows = [""]
    for word in text.split(" "):
        longer = f"{rows[-1]} {word}".strip()
        if rows[-1] and text_width(longer, 11) > width:
            rows.append(word)
        else:
            rows[-1] = longer
    return [shortened(row, width, 11) for row in rows]
