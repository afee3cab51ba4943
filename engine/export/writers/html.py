"""A document as a self-contained web page: it fetches nothing, and only its own script can run.

It opens from a mail, in light and dark, wide and narrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup

from engine import __version__
from engine.compare.verdict import Pieces
from engine.drawing.chart_parts import LegendEntry
from engine.drawing.looks import side_looks
from engine.drawing.shapes import Drawing
from engine.experiment.value import printable
from engine.export.document import Document, Picture, Section
from engine.export.writers.page import hidden, picture, rendered

SIZES = {"wide": 926.0, "medium": 600.0, "narrow": 372.0}
"""The widths of pictures for windows of each size; several are side by side in a wide one."""
_HALF = 440.0


def write_html(document: Document, path: Path) -> None:
    """Writes the page."""
    path.write_text(page(document), encoding="utf-8")


def page(document: Document, *, script: str = "", **values: Any) -> str:
    """The page as text; `values` are for the templates of its own sections."""
    common = {"marks": {}, "drawn": _drawn, "sample": _sample, "sentence": _sentence, "version": __version__}
    return rendered("document.html", document=document, script=script, **(common | values))


def _drawn(section: Section, part: Picture) -> Iterator[tuple[str, Markup]]:
    """A picture in each size."""
    for size, width in SIZES.items():
        is_half = size == "wide" and len(section.pictures) > 1
        yield size, picture(part.draw(_HALF if is_half else width))


def _sample(entry: LegendEntry) -> Markup:
    """The sample of a legend, beside its words."""
    return hidden(Drawing(26, 12, entry.sample(1, 6)), "sample")


def _sentence(pieces: Pieces) -> Markup:
    parts = []
    for piece in pieces:
        text = Markup.escape(printable(piece.text).replace(" %", "\N{NO-BREAK SPACE}%"))
        if piece.side is not None:
            colour = f"t-{side_looks([piece.side])[piece.side.id].ink}"
            parts.append(Markup('<b class="{}"><bdi>{}</bdi></b>').format(colour, text))
        elif piece.role == "strong":
            parts.append(Markup("<b>{}</b>").format(text))
        elif piece.role == "aside":
            parts.append(Markup('<span class="aside">{}</span>').format(text))
        else:
            parts.append(text)
    return Markup("").join(parts)
