"""The report of a comparison as a PDF, with the race's card.

The card's words and figures are text; only its pictures are bitmaps.
"""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from pathlib import Path

from fpdf import FPDF

from engine.drawing.bitmap import Painter
from engine.drawing.blocks import Blocks
from engine.drawing.looks import By, ChartName
from engine.drawing.pdf import draw
from engine.drawing.shapes import Drawing
from engine.export.content import Content
from engine.export.pictures.charts import BARS, Charts
from engine.export.pictures.race import race_source_if_any
from engine.export.report.report import Report, report_of
from engine.export.writers import pdf
from engine.export.writers.pdf_page import Pages
from engine.race.card import Card, page_card
from engine.race.parts import WIDE
from resources.looks import LIGHT

_FINER = 2.5
"""Pixels of the pictures per pixel of the drawing."""

_QUALITY = 85


_CURVES: tuple[tuple[tuple[ChartName, By], ...], ...] = (
    (("loss", "step"), ("loss", "seconds")),
    (("accuracy", "step"), ("accuracy", "seconds")),
)


def write_pdf(content: Content, path: Path) -> None:
    """Writes the report in the order of the web page."""
    report = report_of(content, Charts(content).sections(BARS, *_CURVES))
    pdf.write_pdf(report, path, partial(_race, content, report))


def _race(content: Content, report: Report, pages: Pages) -> None:
    source = race_source_if_any(content, report)
    if source is None:
        return
    scene = source.scene
    card = page_card(scene, WIDE)
    pages.room(80 + race_height(pages, card))
    pages.heading(scene.title)
    pages.paragraph(scene.sentence)
    pages.gap(10)
    draw_race(pages, card)
    pages.gap(18)


def race_height(pdf: FPDF, card: Card) -> float:
    """The height of the card at the full width of the page, in points."""
    return float(card.height * pdf.epw / card.sizes.width)


def draw_race(pdf: FPDF, card: Card) -> None:
    """Draws the card at the end of the race, over the page's full width, at the current position."""
    left, top, scale = pdf.l_margin, pdf.get_y(), pdf.epw / card.sizes.width
    draw(pdf, card.drawing(card.scene.end), LIGHT, (left, top), scale)
    for blocks in card.blocks(card.scene.end):
        grid = blocks.grid
        corner = (left + blocks.x * scale, top + blocks.y * scale)
        pdf.image(_bitmap(blocks, card.ground), *corner, grid.width * scale, grid.height * scale)
    pdf.set_xy(left, top + race_height(pdf, card))


def _bitmap(blocks: Blocks, ground: str) -> io.BytesIO:
    """The lane as a JPEG on the colour of the page."""
    painter = Painter.blank(Drawing(blocks.grid.width, blocks.grid.height, ()), ground, LIGHT, _FINER)
    painter.paint_blocks(replace(blocks, x=0.0, y=0.0))
    packed = io.BytesIO()
    painter.image.save(packed, "JPEG", quality=_QUALITY, subsampling=0)
    packed.seek(0)
    return packed
