"""A document as a self-contained web page, which opens from a mail, in light and dark, without scripts."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from engine import __version__
from engine.drawing.chart_parts import LegendEntry
from engine.drawing.shapes import Drawing
from engine.export.document import Document, Section
from engine.export.writers.page import hidden, picture, rendered

_WIDE, _HALF = 926.0, 440.0


def write_html(document: Document, path: Path) -> None:
    """Writes the page."""
    path.write_text(page(document), encoding="utf-8")


def page(document: Document) -> str:
    """The page as text."""
    return rendered("document.html", document=document, version=__version__, drawn=drawn, sample=sample)


def drawn(section: Section) -> list[Markup]:
    """The pictures of a section, several side by side."""
    width = _WIDE if len(section.pictures) == 1 else _HALF
    return [picture(part.draw(width)) for part in section.pictures]


def sample(entry: LegendEntry) -> Markup:
    """The sample of a legend, beside its words."""
    return hidden(Drawing(26, 12, entry.sample(1, 6)), "sample")
