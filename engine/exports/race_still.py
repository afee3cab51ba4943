"""A race as a still picture: the card at the moment when the race is over."""

from __future__ import annotations

import json
from pathlib import Path

from PIL.PngImagePlugin import PngInfo

from engine.exports.content import Content
from engine.exports.drawing import colour
from engine.exports.paint import Painter
from engine.exports.pictures import facts_of
from engine.exports.race_card import Card, race_card
from engine.exports.race_source import race_source
from engine.exports.race_svg import card_svg
from engine.exports.report import report_of
from engine.records.race import Moment
from resources.looks import DARK, Palette

SCALE = 2


def write_card_png(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Writes the card as PNG, 2,560 by 1,440, with settings and environment in its text fields.

    Raises ProblemError where the runs have no race.
    """
    card = card_of(content)
    painter = paint_card(card, card.race.at(card.race.seconds), palette, SCALE)
    told = PngInfo()
    for name, text in facts_of(report_of(content)).items():
        told.add_itxt(name, text)
    painter.image.save(path, format="png", pnginfo=told, dpi=(96 * SCALE, 96 * SCALE))


def write_card_svg(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Writes the card as SVG. Raises ProblemError where the runs have no race."""
    card = card_of(content)
    more = {
        "style": f"background: {colour(palette, card.ground)}",
        "width": f"{card.sizes.width:.0f}",
        "height": f"{card.height:.0f}",
    }
    told = json.dumps(facts_of(report_of(content)), ensure_ascii=False)
    text = card_svg(card, lambda ink: colour(palette, ink), "race", more, told)
    path.write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n', encoding="utf-8")


def paint_card(card: Card, moment: Moment, palette: Palette, scale: float) -> Painter:
    """The whole card at a moment."""
    drawing = card.drawing(moment)
    painter = Painter.blank(drawing, card.ground, palette, scale)
    painter.paint(drawing)
    for blocks in card.blocks(moment):
        painter.paint_blocks(blocks)
    return painter


def card_of(content: Content) -> Card:
    """The card of a content's race. Raises ProblemError where the runs have none."""
    source = race_source(content)
    return race_card(source.race, source.tiles, source.facts)
