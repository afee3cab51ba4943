"""A race's card as SVG. The pictures are a grey mask, so that a page's theme gives them their colour."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping

import numpy as np
from PIL import Image, ImageOps

from engine.exports.race_blocks import UNLIT, Blocks
from engine.exports.race_card import Card
from engine.exports.svg import svg
from engine.records.race import LANES

_FINER = 1.5
"""Pixels of the pictures for each of the drawing's."""

_QUALITY = 78


def card_svg(
    card: Card,
    colour: Callable[[str], str],
    name: str,
    attributes: Mapping[str, str] | None = None,
    told: str = "",
) -> str:
    """The card as the faster run finishes; `name` begins its ids, which a page has once."""
    moment = card.race.at(card.race.seconds)
    both = zip(LANES, card.blocks(moment), strict=True)
    inside = [_blocks(blocks, colour, f"{name}-{which}") for which, blocks in both]
    return svg(card.drawing(moment), colour, attributes, told, inside="\n".join(inside), keeps_widths=True)


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
    """The outlines of blocks; only their corners are written in full."""
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
    """The pictures of the lit blocks in their places, as a grey JPEG that covers the whole grid."""
    wide, high = (max(2, round(_FINER * pitch)) for pitch in (blocks.grid.across, blocks.grid.down))
    grey = np.zeros((blocks.grid.rows * high, blocks.grid.columns * wide), np.uint8)
    for number in range(blocks.lit):
        column, row = divmod(number, blocks.grid.rows)
        tile = ImageOps.fit(Image.fromarray(blocks.tile(number)), (wide, high), Image.Resampling.BILINEAR)
        grey[row * high : (row + 1) * high, column * wide : (column + 1) * wide] = np.asarray(tile)
    packed = io.BytesIO()
    Image.fromarray(grey).save(packed, "JPEG", quality=_QUALITY, optimize=True)
    return packed.getvalue()
