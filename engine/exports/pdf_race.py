"""A race's card on a page of a PDF: its words and figures as text, the lanes of pictures as bitmaps."""

from __future__ import annotations

import io
from dataclasses import replace

from fpdf import FPDF

from engine.exports.drawing import Drawing
from engine.exports.paint import Painter
from engine.exports.pdf_drawing import draw
from engine.exports.race_blocks import Blocks
from engine.exports.race_card import Card
from resources.looks import LIGHT

_FINER = 2.5
"""Pixels of the pictures for each of the drawing's."""

_QUALITY = 85


def race_height(pdf: FPDF, card: Card) -> float:
    """How high the card is over the page's whole width, in points."""
    return float(card.height * pdf.epw / card.sizes.width)


def draw_race(pdf: FPDF, card: Card) -> None:
    """Puts the card, as the race ends, where the page has come to, over its whole width."""
    moment = card.race.at(card.race.seconds)
    left, top, scale = pdf.l_margin, pdf.get_y(), pdf.epw / card.sizes.width
    draw(pdf, card.drawing(moment), LIGHT, (left, top), scale)
    for blocks in card.blocks(moment):
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
