"""A race as an image: its final card as PNG or SVG, or an animation as WebP or GIF.

In the SVG the training images are a gray mask, which the theme of a web page colors.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from engine.drawing.bitmap import SCALE, Painter
from engine.drawing.blocks import UNLIT, Blocks
from engine.drawing.looks import ThemeName
from engine.drawing.shapes import ink_color
from engine.drawing.svg import svg, svg_file
from engine.experiment.problem import ProblemError
from engine.export.content import ByRun, Content, Write
from engine.export.document import Document
from engine.export.report.report import machine_line, report_of
from engine.export.writers.picture import metadata_of
from engine.protocol.pictures import brightened, patterns
from engine.race.card import Card, race_card
from engine.race.lanes import MOST_BLOCKS
from engine.race.race import LANES, Race, race_of
from engine.race.scene import Instant, Scene
from engine.race.words import scene_of
from resources.looks import DARK, LIGHT, Palette

RACE_SUFFIXES = (".png", ".svg", ".webp", ".gif")


@dataclass(frozen=True, eq=False)
class RaceSource:
    """A replay to export: the race of two runs, and its training images as gray tiles (count, side, side)."""

    race: Race
    tiles: NDArray[np.uint8]

    @property
    def scene(self) -> Scene:
        return scene_of(self.race, self.tiles)


def race_source(content: Content, side_id: str | None = None) -> RaceSource:
    """Return the race of that side, else of the leading one, else as `race_of` chooses.

    Raises ProblemError with the reason if the runs have no race.
    """
    curves = ByRun(lambda run_id: content.curves[run_id].bins(), content.curves)
    race = race_of(content.comparison, curves, side_id or content.leading)
    sheet = content.pictures(race.pictured)
    # a damaged sheet is as good as none
    with suppress(ValueError):
        if sheet is not None:
            return RaceSource(race, brightened(sheet.tiles()))
    return RaceSource(race, patterns(MOST_BLOCKS))


def race_source_if_any(content: Content) -> RaceSource | None:
    """Return the race of the leading side, else of the best in mixed precision, else None."""
    sides = [report.side for report in content.comparison.ranked]
    leading = [side for side in sides if side.contains(content.leading)]
    for side in [*leading, *sorted(sides, key=lambda side: not side.precision.is_autocast)]:
        # the baseline itself, or runs with nothing to replay, have none
        with suppress(ProblemError):
            return race_source(content, side.id)
    return None


def card_of(content: Content, report: Document) -> Card:
    """Return the card of a content's race. Raises ProblemError without a race."""
    source = race_source(content)
    race = source.race
    runs = (race.full.run, race.mixed.run)
    days = sorted({f"{(run.started or run.created).astimezone():%Y-%m-%d}" for run in runs})
    made = f"measured {' and '.join(days)} · made by Ammeter {content.version}"
    machine = machine_line(content.comparison.sides)
    if race.device not in machine:
        machine = " · ".join(filter(None, (race.device, machine)))
    return race_card(source.scene, (f"{report.subject} · {made}", machine))


def race_writer(suffix: str, theme: ThemeName = "dark") -> Write:
    """Return the writer for one of `RACE_SUFFIXES`. It raises ProblemError if the runs have no race."""
    writers = dict(zip(RACE_SUFFIXES, (write_card_png, write_card_svg, write_webp, write_gif), strict=True))
    return partial(writers[suffix], palette=DARK if theme == "dark" else LIGHT)


_FINER = 1.5  # pixels of the pictures per pixel of the drawing
_QUALITY = 78


def card_svg(card: Card, color: Callable[[str], str], name: str) -> str:
    """Return the card when the faster run finishes, for a page. `name` starts its ids, unique in the page."""
    inside = _all_blocks(card, color, name)
    return svg(card.drawing(card.scene.end), color, inside=inside, keeps_widths=True)


def _all_blocks(card: Card, color: Callable[[str], str], name: str) -> str:
    both = zip(LANES, card.blocks(card.scene.end), strict=True)
    return "\n".join(_blocks(blocks, color, f"{name}-{which}") for which, blocks in both)


def _blocks(blocks: Blocks, color: Callable[[str], str], name: str) -> str:
    lit, unlit = _squares(blocks, 0, blocks.lit), _squares(blocks, blocks.lit, blocks.grid.count)
    shown = f'<path d="{unlit}" fill="{color(UNLIT)}"/>' if unlit else ""
    if not lit:
        return shown
    picture = base64.b64encode(mosaic(blocks)).decode()
    width, height = blocks.grid.columns * blocks.grid.across, blocks.grid.rows * blocks.grid.down
    place = f'x="{blocks.x:.1f}" y="{blocks.y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return (
        f'{shown}<mask id="{name}" maskUnits="userSpaceOnUse" {place}><image {place}'
        f' preserveAspectRatio="none" href="data:image/jpeg;base64,{picture}"/></mask>'
        f'<path d="{lit}" fill="{color(f"{blocks.ink}-low")}"/>'
        f'<path d="{lit}" fill="{color(f"{blocks.ink}-high")}" mask="url(#{name})"/>'
    )


def _squares(blocks: Blocks, first: int, last: int) -> str:
    radius = blocks.radius
    sides = blocks.grid.block_width, blocks.grid.block_height
    across, down = (f"{side - 2 * radius:.1f}" for side in sides)
    r = f"{radius:.1f}"
    turns = ((f"{r} {r}", f"v{down}"), (f"-{r} {r}", f"h-{across}"), (f"-{r} -{r}", f"v-{down}"))
    outline = f"h{across}" + "".join(f"a{r} {r} 0 0 1 {corner}{line}" for corner, line in turns)
    outline += f"a{r} {r} 0 0 1 {r} -{r}z"
    places = (blocks.corner(number) for number in range(first, last))
    return "".join(f"M{x + radius:.1f} {y:.1f}{outline}" for x, y in places)


def mosaic(blocks: Blocks) -> bytes:
    """Return the images of the lit blocks in their places, as a gray JPEG of the whole grid."""
    wide, high = (max(2, round(_FINER * pitch)) for pitch in (blocks.grid.across, blocks.grid.down))
    grey = np.zeros((blocks.grid.rows * high, blocks.grid.columns * wide), np.uint8)
    for number in range(blocks.lit):
        column, row = divmod(number, blocks.grid.rows)
        tile = ImageOps.fit(Image.fromarray(blocks.tile(number)), (wide, high), Image.Resampling.BILINEAR)
        grey[row * high : (row + 1) * high, column * wide : (column + 1) * wide] = np.asarray(tile)
    packed = io.BytesIO()
    Image.fromarray(grey).save(packed, "JPEG", quality=_QUALITY, optimize=True)
    return packed.getvalue()


def write_card_png(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Write the card as PNG, 2,560 by 1,440, with settings in its text. Raises ProblemError."""
    report = report_of(content)
    card = card_of(content, report)
    painter = paint_card(card, card.scene.end, palette, SCALE)
    painter.save(path, metadata_of(report))


def write_card_svg(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Write the card as SVG. Raises ProblemError without a race."""
    report = report_of(content)
    card = card_of(content, report)
    inside = _all_blocks(card, lambda ink: ink_color(palette, ink), "race")
    metadata = json.dumps(metadata_of(report), ensure_ascii=False)
    text = svg_file(card.drawing(card.scene.end), palette, metadata, card.ground, inside, keeps_widths=True)
    path.write_text(text, encoding="utf-8")


def paint_card(card: Card, instant: Instant, palette: Palette, scale: float) -> Painter:
    """Paint the whole card at an instant."""
    drawing = card.drawing(instant)
    painter = Painter.blank(drawing, card.ground, palette, scale)
    painter.paint(drawing)
    for blocks in card.blocks(instant):
        painter.paint_blocks(blocks)
    return painter


FRAME_MS = 70  # the duration of a frame; GIF counts in hundredths of a second
FIRST_MS, LAST_MS = 900, 3_500
GIF_SCALE = 0.75


def write_webp(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Write the race as animated WebP, 1,280 by 720, which loops. Raises ProblemError without a race."""
    film = RaceFrames(card_of(content, report_of(content)), palette, 1.0)
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
    """Write the race as animated GIF, 960 by 540, which loops. Raises ProblemError without a race."""
    card = card_of(content, report_of(content))
    colors = gif_colors(card, palette)
    film = RaceFrames(card, palette, GIF_SCALE, colors)
    # the palette is written once, and with `optimize` what does not change from frame to frame is left out
    table = bytes(colors.getpalette() or ())
    film.save(path, "GIF", save_all=True, duration=film.durations, loop=0, palette=table, optimize=True)


class RaceFrames(Image.Image):
    """A replay as an animated PIL image, whose frames are painted in order as `seek` reaches them.

    The first frame shows the end of the replay, because previews show the first. `colors` is a GIF's palette.
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
    """Return the colors of all frames, taken from two that together show everything on the card."""
    instants = card.scene.at(card.scene.seconds / 2), card.scene.end
    both = [paint_card(card, instant, palette, GIF_SCALE).image for instant in instants]
    width, height = both[0].size
    sample = Image.new("RGB", (width, 2 * height))
    for place, image in enumerate(both):
        sample.paste(image, (0, place * height))
    return sample.quantize(_MOST_COLORS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


_MOST_COLORS = 255  # one of the 256 means "unchanged"
