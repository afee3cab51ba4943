"""A race as an animated picture: WebP, or GIF for programs without WebP.

The ending of a path chooses between these and a still card, as PNG or SVG.
"""

from __future__ import annotations

import math
from pathlib import Path

from PIL import Image

from engine.drawing.bitmap import Painter
from engine.drawing.looks import ThemeName
from engine.export.content import Content, Write
from engine.export.pictures.race import card_of, paint_card
from engine.export.report.report import report_of
from engine.race.card import Card
from engine.race.scene import Instant
from resources.looks import DARK, LIGHT, Palette

RACE_SUFFIXES = (".png", ".svg", ".webp", ".gif")


def race_writer(suffix: str, theme: ThemeName = "dark") -> Write:
    """The writer of races for one of `RACE_SUFFIXES`; it raises ProblemError if the runs have no race."""
    palette = DARK if theme == "dark" else LIGHT

    def write(content: Content, path: Path) -> None:
        # imported here, since exporting a table should not wait for the libraries that draw
        from engine.export.pictures import race

        writers = {
            ".png": race.write_card_png,
            ".svg": race.write_card_svg,
            ".webp": write_webp,
            ".gif": write_gif,
        }
        writers[suffix](content, path, palette=palette)

    return write


FRAME_MS = 70
"""The duration of a frame; GIF counts in hundredths of a second."""

FIRST_MS, LAST_MS = 900, 3_500
GIF_SCALE = 0.75


def write_webp(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Writes the race as animated WebP, 1,280 by 720, which loops. Raises ProblemError without a race."""
    film = Film(card_of(content, report_of(content)), palette, 1.0)
    # the highest effort takes ten times as long and saves a tenth; key frames would double the size
    film.save(
        path,
        "WEBP",
        save_all=True,
        duration=film.durations,
        loop=0,
        lossless=True,
        quality=20,
        method=1,
        kmin=0,
        kmax=0,
    )


def write_gif(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Writes the race as animated GIF, 960 by 540, which loops. Raises ProblemError without a race."""
    card = card_of(content, report_of(content))
    colors = gif_colors(card, palette)
    film = Film(card, palette, GIF_SCALE, colors)
    # the palette is written once, and with `optimize` what does not change from frame to frame is left out
    table = bytes(colors.getpalette() or ())
    film.save(path, "GIF", save_all=True, duration=film.durations, loop=0, palette=table, optimize=True)


class Film(Image.Image):
    """The race as an image of many frames, at the pace of the window; each is painted when it is sought.

    The first frame is the end of the race, since previews and printed pages show the first. Frames must be
    sought in their order; with `colors`, the palette image of a GIF, they are in the nearest of these.
    """

    def __init__(self, card: Card, palette: Palette, scale: float, colors: Image.Image | None = None) -> None:
        super().__init__()
        scene, self._card, self._colors = card.scene, card, colors
        step = scene.playback_rate * FRAME_MS / 1e3
        count = max(1, math.ceil(scene.seconds / step))
        self._seconds = [min(scene.seconds, number * step) for number in range(count + 1)]
        self.durations = [FIRST_MS, *(FRAME_MS for _ in range(count)), LAST_MS]
        self.n_frames, self._at = len(self.durations), 0
        still = card.still()
        self._ground = Painter.blank(still, card.ground, palette, scale)
        self._ground.paint(still)
        for blocks in card.lanes:
            self._ground.paint_blocks(blocks)
        self._before: Instant | None = None
        self._show(paint_card(card, scene.end, palette, scale).image)

    def tell(self) -> int:
        return self._at

    def seek(self, frame: int) -> None:
        if frame >= self.n_frames:
            raise EOFError
        if frame > self._at:
            self._at = frame
            self._paint(self._card.scene.at(self._seconds[frame - 1]))

    def _paint(self, instant: Instant) -> None:
        """Paints the blocks that have been lit since, and all that moves."""
        if instant == self._before:
            return
        first = (0, 0) if self._before is None else [count.blocks for count in self._before.counts]
        for begin, blocks in zip(first, self._card.blocks(instant), strict=True):
            self._ground.paint_blocks(blocks, begin, blocks.lit)
        self._before = instant
        painter = self._ground.copy()
        painter.paint(self._card.moving(instant))
        self._show(painter.image)

    def _show(self, image: Image.Image) -> None:
        if self._colors is not None:
            image = image.quantize(palette=self._colors, dither=Image.Dither.NONE)
        self.im, self.palette = image.im, image.palette
        self._mode, self._size = image.mode, image.size


def gif_colors(card: Card, palette: Palette) -> Image.Image:
    """The colours of all frames, taken from two that together show everything on the card."""
    instants = card.scene.at(card.scene.seconds / 2), card.scene.end
    both = [paint_card(card, instant, palette, GIF_SCALE).image for instant in instants]
    width, height = both[0].size
    sample = Image.new("RGB", (width, 2 * height))
    for place, image in enumerate(both):
        sample.paste(image, (0, place * height))
    return sample.quantize(_MOST_COLORS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


_MOST_COLORS = 255
"""One of the 256 means "unchanged"."""
