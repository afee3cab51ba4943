"""A race as an animated picture: WebP, or GIF for what shows no WebP."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from engine.exports.content import Content
from engine.exports.gif import MOST_COLORS, GifWriter
from engine.exports.paint import Painter
from engine.exports.race_card import Card
from engine.exports.race_still import card_of, paint_card
from engine.exports.webp import WebpWriter
from engine.records.race import Moment
from resources.looks import DARK, Palette

FRAME_MS = 70
"""Of one frame; GIF counts in hundredths of a second."""

FIRST_MS, LAST_MS = 900, 3_500
GIF_SCALE = 0.75


@dataclass(frozen=True, eq=False)
class Frame:
    """An image, which is painted over when the next is asked for, and how long it is shown."""

    image: Image.Image
    duration_ms: int


def write_webp(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Writes the race as animated WebP, 1,280 by 720; it begins anew for ever.

    Raises ProblemError where the runs have no race.
    """
    card = card_of(content)
    with path.open("wb") as file:
        writer = WebpWriter(file, (round(card.sizes.width), round(card.height)))
        for frame in frames(card, palette, 1.0):
            writer.add(frame.image, frame.duration_ms)
        writer.close()


def write_gif(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Writes the race as animated GIF, 960 by 540. Raises ProblemError where the runs have no race."""
    card = card_of(content)
    size = (round(card.sizes.width * GIF_SCALE), round(card.height * GIF_SCALE))
    with path.open("wb") as file:
        writer = GifWriter(file, size, _gif_colors(card, palette))
        for frame in frames(card, palette, GIF_SCALE):
            writer.add(frame.image, frame.duration_ms)
        writer.close()


def frames(card: Card, palette: Palette, scale: float) -> Iterator[Frame]:
    """The race at the pace at which it is shown; what does not change is one long frame.

    It begins with its own end, since the first frame is what a preview and a printed page show, and rests on
    it when it comes to it.
    """
    race = card.race
    end = race.at(race.seconds)
    yield Frame(paint_card(card, end, palette, scale).image, FIRST_MS)
    film = _Film(card, palette, scale)
    shown, waited = film.start(), FRAME_MS
    for moment in _moments(card):
        image = film.changed(moment)
        if image is None:
            waited += FRAME_MS
            continue
        yield Frame(shown, waited)
        shown, waited = image, FRAME_MS
    yield Frame(shown, waited - FRAME_MS + LAST_MS)


def _moments(card: Card) -> Iterator[Moment]:
    """One for each frame after the start, the last of them the end."""
    race = card.race
    step = race.lapse * FRAME_MS / 1e3
    count = max(1, math.ceil(race.seconds / step))
    return (race.at(min(race.seconds, number * step)) for number in range(1, count + 1))


class _Film:
    """The card as it changes: of the blocks only those are painted that have been lit since."""

    def __init__(self, card: Card, palette: Palette, scale: float) -> None:
        self._card = card
        still = card.still()
        self._ground = Painter.blank(still, card.ground, palette, scale)
        self._ground.paint(still)
        self._lit = (0, 0)
        for blocks in card.lanes:
            self._ground.paint_blocks(blocks)
        self._moving = card.moving(card.race.at(0.0))

    def start(self) -> Image.Image:
        return self._image()

    def changed(self, moment: Moment) -> Image.Image | None:
        """The card at a moment not before the last one; None where it looks the same."""
        moving, lanes = self._card.moving(moment), self._card.blocks(moment)
        lit = (lanes[0].lit, lanes[1].lit)
        if (lit, moving) == (self._lit, self._moving):
            return None
        for first, blocks in zip(self._lit, lanes, strict=True):
            self._ground.paint_blocks(blocks, first, blocks.lit)
        self._lit, self._moving = lit, moving
        return self._image()

    def _image(self) -> Image.Image:
        painter = self._ground.copy()
        painter.paint(self._moving)
        return painter.image


def _gif_colors(card: Card, palette: Palette) -> Image.Image:
    """The colours of all frames, found in two that between them have everything on the card."""
    race = card.race
    times = (race.seconds / 2, race.seconds)
    both = [paint_card(card, race.at(at), palette, GIF_SCALE).image for at in times]
    width, height = both[0].size
    sample = Image.new("RGB", (width, 2 * height))
    for place, image in enumerate(both):
        sample.paste(image, (0, place * height))
    return sample.quantize(MOST_COLORS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
