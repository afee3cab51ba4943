"""A race as an image: its final card as PNG or SVG, or an animation as WebP or GIF."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from PIL import Image

from engine.drawing.bitmap import SCALE, Painter
from engine.drawing.blocks import Tiles
from engine.drawing.looks import ThemeName
from engine.drawing.shapes import Drawing
from engine.drawing.svg import svg_file
from engine.experiment.problem import ProblemError
from engine.export.content import ByRun, Content, Write
from engine.export.report.report import report_of
from engine.export.writers.picture import metadata_of
from engine.protocol.pictures import brightened, patterns
from engine.race.card import BLOCKS, GROUND, CardFrame, RaceCard
from engine.race.race import Race, race_of
from engine.race.words import card_of, frame_of
from resources.looks import DARK, LIGHT, Palette

RACE_SUFFIXES = (".png", ".svg", ".webp", ".gif")


@dataclass(frozen=True, eq=False)
class RaceSource:
    """A replay to export: the race of two runs, and images of their dataset for its blocks."""

    race: Race
    tiles: Tiles

    @cached_property
    def card(self) -> RaceCard:
        return card_of(self.race, self.tiles)

    @cached_property
    def end(self) -> CardFrame:
        """The last frame."""
        return frame_of(self.race, self.race.seconds)

    def drawing(self, *, on_page: bool = False) -> Drawing:
        """Return the card at the end of the race. With `on_page` it has its own background."""
        return self.card.drawing(self.end, on_page=on_page)


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
            return RaceSource(race, Tiles(brightened(sheet.tiles())))
    return RaceSource(race, Tiles(patterns(BLOCKS)))


def race_source_if_any(content: Content) -> RaceSource | None:
    """Return the race of the leading side, else of the best in mixed precision, else None."""
    sides = [report.side for report in content.comparison.ranked]
    leading = [side for side in sides if side.contains(content.leading)]
    for side in [*leading, *sorted(sides, key=lambda side: not side.precision.is_autocast)]:
        # the baseline itself, or runs with nothing to replay, have none
        with suppress(ProblemError):
            return race_source(content, side.id)
    return None


def race_writer(suffix: str, theme: ThemeName = "dark") -> Write:
    """Return the writer for one of `RACE_SUFFIXES`. It raises ProblemError if the runs have no race."""
    writers = dict(zip(RACE_SUFFIXES, (write_card_png, write_card_svg, write_webp, write_gif), strict=True))
    return partial(writers[suffix], palette=DARK if theme == "dark" else LIGHT)


def write_card_png(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Write the card as PNG, 2,560 by 1,440, with settings in its text. Raises ProblemError."""
    painter = _painted(race_source(content).drawing(), palette, SCALE)
    painter.save(path, metadata_of(report_of(content)))


def write_card_svg(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Write the card as SVG. Raises ProblemError without a race."""
    drawing = race_source(content).drawing()
    metadata = json.dumps(metadata_of(report_of(content)), ensure_ascii=False)
    path.write_text(svg_file(drawing, palette, metadata, GROUND, keeps_widths=True), encoding="utf-8")


def _painted(drawing: Drawing, palette: Palette, scale: float) -> Painter:
    painter = Painter.blank(drawing, GROUND, palette, scale)
    painter.paint(drawing)
    return painter


FRAME_MS = 70  # the duration of a frame; GIF counts in hundredths of a second
FIRST_MS, LAST_MS = 900, 3_500
GIF_SCALE = 0.75


def write_webp(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Write the race as animated WebP, 1,280 by 720, which loops. Raises ProblemError without a race."""
    film = RaceFrames(race_source(content), palette, 1.0)
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
    source = race_source(content)
    colors = gif_colors(source, palette)
    film = RaceFrames(source, palette, GIF_SCALE, colors)
    # the palette is written once, and with `optimize` what does not change from frame to frame is left out
    table = bytes(colors.getpalette() or ())
    film.save(path, "GIF", save_all=True, duration=film.durations, loop=0, palette=table, optimize=True)


class RaceFrames(Image.Image):
    """A replay as an animated PIL image, whose frames are painted in order as `seek` reaches them.

    The first frame shows the end of the replay, because previews show the first. `colors` is a GIF's palette.
    """

    def __init__(
        self, source: RaceSource, palette: Palette, scale: float, colors: Image.Image | None = None
    ) -> None:
        super().__init__()
        race, self._source, self._colors = source.race, source, colors
        step = race.playback_rate * FRAME_MS / 1e3
        count = max(1, math.ceil(race.seconds / step))
        self._seconds = [min(race.seconds, number * step) for number in range(count + 1)]
        self.durations = [FIRST_MS, *(FRAME_MS for _ in range(count)), LAST_MS]
        self.n_frames, self._at = len(self.durations), 0
        self._still = _painted(source.card.still, palette, scale)
        self._before: CardFrame | None = None
        self._paint(source.end)

    def tell(self) -> int:
        return self._at

    def seek(self, frame: int) -> None:
        if frame >= self.n_frames:
            raise EOFError
        if frame > self._at:
            self._at = frame
            self._paint(frame_of(self._source.race, self._seconds[frame - 1]))

    def _paint(self, frame: CardFrame) -> None:
        if frame == self._before:
            return
        self._before = frame
        painter = self._still.copy()
        painter.paint(self._source.card.moving(frame))
        image = painter.image
        if self._colors is not None:
            image = image.quantize(palette=self._colors, dither=Image.Dither.NONE)
        self.im, self.palette = image.im, image.palette
        self._mode, self._size = image.mode, image.size


def gif_colors(source: RaceSource, palette: Palette) -> Image.Image:
    """Return the colors of all frames, taken from two that together show everything on the card."""
    race = source.race
    frames = frame_of(race, race.seconds / 2), source.end
    both = [_painted(source.card.drawing(frame), palette, GIF_SCALE).image for frame in frames]
    width, height = both[0].size
    sample = Image.new("RGB", (width, 2 * height))
    for place, image in enumerate(both):
        sample.paste(image, (0, place * height))
    return sample.quantize(_MOST_COLORS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


_MOST_COLORS = 255  # one of the 256 means "unchanged"
