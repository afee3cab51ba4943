"""A race as a still picture: its card as PNG or SVG, at the end of the race.

In the SVG the training pictures are a grey mask, which the theme of a web page colours.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from engine.drawing.bitmap import SCALE, Painter
from engine.drawing.blocks import UNLIT, Blocks
from engine.drawing.shapes import colour
from engine.drawing.svg import svg
from engine.experiment.problem import ProblemError
from engine.export.content import ByRun, Content
from engine.export.pictures.sheet import facts_of, machine_line
from engine.export.report.report import Report, report_of
from engine.protocol.pictures import brightened, patterns
from engine.race.card import Card, race_card
from engine.race.lanes import MOST_BLOCKS
from engine.race.race import LANES, Race
from engine.race.replay import race_of
from engine.race.scene import Instant, Scene
from engine.race.words import scene_of
from engine.store.record import RunRecord
from resources.looks import DARK, Palette


@dataclass(frozen=True, eq=False)
class RaceSource:
    """A race, and the training pictures as grey tiles (count, side, side)."""

    race: Race
    tiles: NDArray[np.uint8]

    @property
    def scene(self) -> Scene:
        return scene_of(self.race, self.tiles)


def race_source(content: Content, side_id: str | None = None) -> RaceSource:
    """The race of a content's runs: of that side, else of the leading one, else as `race_of` chooses.

    Raises ProblemError, which says why, if they have none.
    """
    curves = ByRun(lambda run_id: content.curves[run_id].bins(), content.curves)
    race = race_of(content.comparison, curves, side_id or content.leading)
    return RaceSource(race, _tiles(content, race))


def race_source_if_any(content: Content, report: Report) -> RaceSource | None:
    """The race of the leading side, else of the first in mixed precision; None if there is none."""
    sides = [answer.side for answer in report.answers]
    leading = [side for side in sides if side.holds(content.leading)]
    for side in [*leading, *sorted(sides, key=lambda side: not side.precision.is_autocast)]:
        try:
            return race_source(content, side.id)
        except ProblemError:
            # the baseline itself, or runs with nothing to replay
            continue
    return None


def _tiles(content: Content, race: Race) -> NDArray[np.uint8]:
    sheet = content.pictures(race.pictured)
    if sheet is not None:
        try:
            return brightened(sheet.tiles())
        except ValueError:
            # a damaged sheet is as good as none
            pass
    return patterns(MOST_BLOCKS)


def _facts(content: Content, race: Race, report: Report) -> tuple[str, ...]:
    made = f"made by Ammeter {content.version}"
    subject = f"{report.subject} · {_measured((race.full.run, race.mixed.run))} · {made}"
    machine = machine_line(report)
    return subject, machine if race.device in machine else " · ".join(filter(None, (race.device, machine)))


def _measured(runs: tuple[RunRecord, ...]) -> str:
    days = sorted({f"{(run.started or run.created).astimezone():%Y-%m-%d}" for run in runs})
    return f"measured {' and '.join(days)}"


_FINER = 1.5
"""Pixels of the pictures per pixel of the drawing."""

_QUALITY = 78


def card_svg(
    card: Card,
    colour: Callable[[str], str],
    name: str,
    attributes: Mapping[str, str] | None = None,
    metadata: str = "",
) -> str:
    """The card as the faster run finishes; `name` begins its ids, which must be unique in a page."""
    end = card.scene.end
    both = zip(LANES, card.blocks(end), strict=True)
    pictures = "\n".join(_blocks(blocks, colour, f"{name}-{which}") for which, blocks in both)
    drawing = card.drawing(end)
    return svg(drawing, colour, attributes, metadata, inside=pictures, keeps_widths=True)


def _blocks(blocks: Blocks, colour: Callable[[str], str], name: str) -> str:
    lit, unlit = _squares(blocks, 0, blocks.lit), _squares(blocks, blocks.lit, blocks.grid.count)
    shown = f'<path d="{unlit}" fill="{colour(UNLIT)}"/>' if unlit else ""
    if not lit:
        return shown
    picture = base64.b64encode(mosaic(blocks)).decode()
    width, height = blocks.grid.columns * blocks.grid.across, blocks.grid.rows * blocks.grid.down
    place = f'x="{blocks.x:.1f}" y="{blocks.y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return (
        f'{shown}<mask id="{name}" maskUnits="userSpaceOnUse" {place}><image {place}'
        f' preserveAspectRatio="none" href="data:image/jpeg;base64,{picture}"/></mask>'
        f'<path d="{lit}" fill="{colour(f"{blocks.ink}-low")}"/>'
        f'<path d="{lit}" fill="{colour(f"{blocks.ink}-high")}" mask="url(#{name})"/>'
    )


def _squares(blocks: Blocks, first: int, last: int) -> str:
    """The outlines of blocks, each an absolute corner and a relative path."""
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
    """The pictures of the lit blocks in their places, as a grey JPEG of the whole grid."""
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
    """Writes the card as PNG, 2,560 by 1,440, with settings and environment in its text fields.

    Raises ProblemError without a race.
    """
    report = report_of(content)
    card = card_of(content, report)
    painter = paint_card(card, card.scene.end, palette, SCALE)
    painter.save(path, facts_of(report))


def write_card_svg(content: Content, path: Path, *, palette: Palette = DARK) -> None:
    """Writes the card as SVG. Raises ProblemError without a race."""
    report = report_of(content)
    card = card_of(content, report)
    more = {
        "style": f"background: {colour(palette, card.ground)}",
        "width": f"{card.sizes.width:.0f}",
        "height": f"{card.height:.0f}",
    }
    metadata = json.dumps(facts_of(report), ensure_ascii=False)
    text = card_svg(card, lambda ink: colour(palette, ink), "race", more, metadata)
    path.write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n', encoding="utf-8")


def paint_card(card: Card, instant: Instant, palette: Palette, scale: float) -> Painter:
    """The whole card at an instant."""
    drawing = card.drawing(instant)
    painter = Painter.blank(drawing, card.ground, palette, scale)
    painter.paint(drawing)
    for blocks in card.blocks(instant):
        painter.paint_blocks(blocks)
    return painter


def card_of(content: Content, report: Report) -> Card:
    """The card of a content's race. Raises ProblemError without a race."""
    source = race_source(content)
    return race_card(source.scene, _facts(content, source.race, report))
