"""Charts under their title as PNG or SVG, with a footer that describes the measurement.

A PNG has twice the page's pixels each way. An SVG keeps its text as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from engine.drawing.bitmap import write_bitmap
from engine.drawing.chart_parts import legend
from engine.drawing.shapes import Drawing, Shape, Stroke, TextLine, shifted, shortened, text_width, wrapped
from engine.drawing.svg import svg_file
from engine.export.document import Document, Picture
from engine.export.writers.data import companion_path
from resources.looks import LIGHT, Palette

_WIDTH, _MARGIN, _GAP, _HEADER = 926.0, 24.0, 28.0, 34.0


def write_pictures(document: Document, path: Path, *, palette: Palette = LIGHT) -> None:
    """Write the charts, the second and further ones next to the first."""
    pictures: Sequence[Picture | None] = document.pictures or (None,)
    for place, part in enumerate(pictures):
        drawing = sheet(document, [] if part is None else [part])
        write_drawing(
            drawing, companion_path(path, part.name if part and place else ""), palette, metadata_of(document)
        )


def metadata_of(document: Document) -> dict[str, str]:
    """Return the metadata of a chart: title, program, and settings and machine as JSON."""
    description = json.dumps(document.facts, default=str)
    return {"Title": document.title, "Software": document.made, "Description": description}


def write_drawing(drawing: Drawing, path: Path, palette: Palette, facts: dict[str, str]) -> None:
    """Write a drawing as SVG or PNG, by the path's ending, with the facts in its metadata."""
    if path.suffix.lower() == ".svg":
        metadata = json.dumps(facts, ensure_ascii=False)
        path.write_text(svg_file(drawing, palette, metadata), encoding="utf-8")
    else:
        write_bitmap(drawing, palette, path, facts)


def sheet(document: Document, pictures: Sequence[Picture], width: float = _WIDTH) -> Drawing:
    """Return charts below each other under the document's title, with the lines of its foot."""
    inner = width - 2 * _MARGIN
    shapes: list[Shape] = [
        TextLine(_MARGIN, 36, shortened(document.title, inner, 20, 600), "text", 20, 600),
        TextLine(_MARGIN, 58, shortened(document.subject, inner, 13), "text2", 13),
    ]
    down, descriptions = 78.0, [f"{document.title}."]
    for part in pictures:
        drawn = panel(part, inner)
        shapes += shifted(drawn.shapes, _MARGIN, down)
        down += drawn.height + _GAP
        descriptions.append(drawn.description)
    if not pictures:
        shapes.append(TextLine(_MARGIN, down + 16, document.undrawn, "text2", 13))
        down += 40
    lines = document.foot or (f"{document.made}.",)
    rows = [row for line in lines for row in wrapped(line, inner, 11, most=9)]
    down -= 8
    shapes.append(Stroke(((_MARGIN, down + 0.5), (_MARGIN + inner, down + 0.5)), "line"))
    shapes += [TextLine(_MARGIN, down + 20 + 16 * place, row, "text3", 11) for place, row in enumerate(rows)]
    return Drawing(width, down + 40 + 16 * len(rows), tuple(shapes), " ".join(descriptions))


def panel(part: Picture, width: float) -> Drawing:
    """Return a chart under its title and legend, if it has these."""
    shapes: list[Shape] = []
    down = 0.0
    if part.title:
        after = text_width(part.title, 13, 600) + 8
        shapes.append(TextLine(0, 16, part.title, "text", 13, 600))
        shapes.append(TextLine(after, 16, shortened(part.note, width - after, 12), "text3", 12))
        down = _HEADER
    if part.legend:
        rows = legend(part.legend, width)
        shapes += shifted(rows.shapes, 0, down - 6)
        down += rows.height
    drawing = part.draw(width)
    shapes += shifted(drawing.shapes, 0, down)
    return Drawing(width, down + drawing.height, tuple(shapes), drawing.description)
